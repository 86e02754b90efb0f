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

/// Returns the schema of a form: a flat object, without keywords that programs that show forms do not know.
pub(crate) fn form<T: JsonSchema>() -> Value {
    let mut schema = lmcp_schema::normalise_input(root::<T>(settings().for_deserialize()));
    if let Some(object) = schema.as_object_mut() {
        object.retain(|key, _| matches!(key.as_str(), "type" | "properties" | "required"));
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
