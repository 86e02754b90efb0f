//! Removes `null` from the values that a schema allows.

use serde_json::Value;

use crate::{inline, read::Object};

/// Forbids `null`, unless the schema allows nothing else.
pub(crate) fn forbid_null(schema: &mut Value) {
    let Value::Object(schema) = schema else {
        return;
    };
    forbid_type(schema);
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && values.iter().any(|value| !value.is_null())
    {
        values.retain(|value| !value.is_null());
    }
    for keyword in ["anyOf", "oneOf"] {
        forbid_alternative(schema, keyword);
    }
}

fn forbid_type(schema: &mut Object) {
    let Some(Value::Array(names)) = schema.get_mut("type") else {
        return;
    };
    if names.len() > 1 {
        names.retain(|name| name != "null");
    }
    if let [only] = &mut names[..] {
        let only = only.take();
        schema.insert("type".to_owned(), only);
    }
}

fn forbid_alternative(schema: &mut Object, keyword: &str) {
    let Some(Value::Array(alternatives)) = schema.get_mut(keyword) else {
        return;
    };
    if alternatives.iter().all(is_null) {
        return;
    }
    let before = alternatives.len();
    alternatives.retain(|alternative| !is_null(alternative));
    alternatives.iter_mut().for_each(forbid_null);
    if alternatives.len() == 1 && before > 1 {
        let only = alternatives.swap_remove(0);
        schema.remove(keyword);
        inline::absorb(schema, only);
    }
}

/// Whether the schema allows `null` and nothing else.
fn is_null(schema: &Value) -> bool {
    let all_null = |values: &Value| {
        values
            .as_array()
            .is_some_and(|values| values.iter().all(Value::is_null))
    };
    schema.get("type").is_some_and(|name| name == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").is_some_and(all_null)
}
