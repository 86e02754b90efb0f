//! The schemas of Rust types, in the form that clients take.

use lmcp_wire::order::ORDER;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Of what a handler takes: as it is shown to clients, and as arguments are checked against. They differ in what some
/// client or model's provider stumbles over; see `lmcp_schema::publish_input`.
pub(crate) fn input<T: JsonSchema>() -> (Value, Value) {
    let mut exact = root::<T>(settings().for_deserialize());
    if let Some(schema) = exact.as_object_mut() {
        // What the type is for is between its author and the compiler; the model reads the tool's own words.
        schema.remove("description");
    }
    let mut shown = exact.clone();
    note_order(&mut shown, &root::<T>(settings().for_serialize()));
    let shown = lmcp_schema::publish_input(shown);
    bound_integers(&mut exact);
    (shown, exact)
}

/// Notes the order of the fields, which a JSON value does not keep: the schema as for writing lists them as required, in the
/// order in which they are declared.
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

/// Says in numbers what `format` says of an integer, so that one that does not fit its type is refused with its path.
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

/// Of what a handler returns.
pub(crate) fn output<T: JsonSchema>() -> Value {
    lmcp_schema::publish_output(root::<T>(settings().for_serialize()))
}

/// Of a form: a flat object, with nothing a form renderer does not know.
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
