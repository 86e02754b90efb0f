//! The schemas of Rust types, in the form that clients accept.

use lmcp_wire::order::ORDER;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Returns two schemas of the arguments of a handler: the one that clients are shown, and the one that arguments are checked
/// against. They differ in the parts that some clients or model providers cannot handle; see `lmcp_schema::publish_input`.
pub(crate) fn input<T: JsonSchema>() -> (Value, Value) {
    let mut exact = root::<T>(settings().for_deserialize());
    if let Some(schema) = exact.as_object_mut() {
        // The comment on the type is for programmers. The model reads the description of the tool.
        schema.remove("description");
    }
    let mut shown = exact.clone();
    note_order(&mut shown, &root::<T>(settings().for_serialize()));
    let shown = lmcp_schema::publish_input(shown);
    bound_integers(&mut exact);
    (shown, exact)
}

/// Notes the order of the fields, which a JSON value does not keep. The schema for writing lists the fields as required, in the
/// order of their declaration.
fn note_order(schema: &mut Value, written: &Value) {
    match (schema, written) {
        (Value::Object(schema), Value::Object(written)) => {
            for (keyword, value) in schema.iter_mut() {
                if let Some(written) = written.get(keyword) {
                    note_order(value, written);
                }
            }
            if let (true, Some(Value::Array(names))) =
                (schema.contains_key("properties"), written.get("required"))
                && !names.is_sorted_by_key(|name| name.as_str())
            {
                schema.insert(ORDER.to_owned(), names.as_slice().into());
            }
        }
        (Value::Array(schemas), Value::Array(written)) => {
            for (schema, written) in schemas.iter_mut().zip(written) {
                note_order(schema, written);
            }
        }
        _ => {}
    }
}

/// Adds the bounds that the `format` of an integer implies, so that a number that does not fit its type is refused with its
/// path.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        Value::Object(object) => {
            let (least, most): (Value, Value) = match object.get("format").and_then(Value::as_str) {
                Some("int8") => (i8::MIN.into(), i8::MAX.into()),
                Some("int16") => (i16::MIN.into(), i16::MAX.into()),
                Some("int32") => (i32::MIN.into(), i32::MAX.into()),
                Some("int64" | "int") => (i64::MIN.into(), i64::MAX.into()),
                Some("uint32") => (0.into(), u32::MAX.into()),
                Some("uint64" | "uint") => (0.into(), u64::MAX.into()),
                _ => return object.values_mut().for_each(bound_integers),
            };
            object.entry("minimum").or_insert(least);
            object.entry("maximum").or_insert(most);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the schema of the result of a handler.
pub(crate) fn output<T: JsonSchema>() -> Value {
    lmcp_schema::publish_output(root::<T>(settings().for_serialize()))
}

/// Returns the schema of a form: a flat object whose fields keep their order, without keywords that programs that show forms do not know.
pub(crate) fn form<T: JsonSchema>() -> Value {
    let mut schema = root::<T>(settings().for_deserialize());
    note_order(&mut schema, &root::<T>(settings().for_serialize()));
    let mut schema = lmcp_schema::normalise_input(schema);
    if let Some(object) = schema.as_object_mut() {
        object.retain(|key, _| matches!(key.as_str(), "type" | "properties" | "required" | ORDER));
    }
    schema
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true)
}

fn root<T: JsonSchema>(settings: SchemaSettings) -> Value {
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use lmcp_wire::elicit::ElicitParams;
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_fields_of_a_form_are_written_in_their_order() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is needed")]
        struct Journey {
            to: String,
            from: String,
            at: Option<String>,
        }
        let form = ElicitParams::form("Where?", form::<Journey>());
        let text = serde_json::to_string(&form).unwrap();
        let at = |field: &str| text.find(&format!("\"{field}\":")).unwrap();
        assert!(at("to") < at("from") && at("from") < at("at"), "{text}");
        assert!(!text.contains(ORDER), "{text}");
        let read: ElicitParams = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
