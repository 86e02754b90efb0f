//! TOML values as JSON.

use serde_json::Value;

/// A value of a preset, for a program that reads JSON.
pub(crate) fn json(value: impl Into<toml::Value>) -> Value {
    match value.into() {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => values.into_iter().map(json).collect(),
        toml::Value::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| (key, json(value)));
            Value::Object(entries.collect())
        }
    }
}
