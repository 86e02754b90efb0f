//! The schemas of Rust types, in the form that clients take.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// Of what a handler takes: as it is shown to clients, and as arguments are checked against. They differ in `null`,
/// which is taken for an optional value but not advertised, because some clients stumble over it.
pub(crate) fn input<T: JsonSchema>() -> (Value, Value) {
    let mut exact = root::<T>(settings().for_deserialize());
    if let Some(schema) = exact.as_object_mut() {
        // What the type is for is between its author and the compiler; the model reads the tool's own words.
        schema.remove("description");
    }
    (lmcp_schema::normalise_input(exact.clone()), exact)
}

/// Of what a handler returns.
pub(crate) fn output<T: JsonSchema>() -> Value {
    lmcp_schema::normalise_output(root::<T>(settings().for_serialize()))
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
