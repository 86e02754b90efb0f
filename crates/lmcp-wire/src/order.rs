//! The order in which the properties of a schema are written.
//!
//! A JSON value keeps its members sorted; a model reads the arguments of a tool in the order in which it is shown them. A
//! schema may hold a list of names, [`ORDER`], that is not sent: its properties are written in that order, others after them.

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::{Map, Value};

/// The keyword of that list.
pub const ORDER: &str = "x-order";

/// For `serialize_with`.
pub(crate) fn serialize<S: Serializer>(schema: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Schema(schema).serialize(serializer)
}

struct Schema<'a>(&'a Value);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(keywords) => {
                let order = keywords.get(ORDER).and_then(Value::as_array);
                let order = order.map_or(&[][..], Vec::as_slice);
                let mut out = serializer.serialize_map(None)?;
                for (keyword, value) in keywords.iter().filter(|(keyword, _)| *keyword != ORDER) {
                    match value {
                        Value::Object(named) if keyword == "properties" => {
                            out.serialize_entry(keyword, &Properties { named, order })?;
                        }
                        _ => out.serialize_entry(keyword, &Self(value))?,
                    }
                }
                out.end()
            }
            Value::Array(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    out.serialize_element(&Self(item))?;
                }
                out.end()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.0.serialize(serializer)
            }
        }
    }
}

struct Properties<'a> {
    named: &'a Map<String, Value>,
    order: &'a [Value],
}

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.named.len()))?;
        for name in self.order.iter().filter_map(Value::as_str) {
            if let Some(schema) = self.named.get(name) {
                out.serialize_entry(name, &Schema(schema))?;
            }
        }
        let is_listed = |name: &str| self.order.iter().any(|listed| listed == name);
        for (name, schema) in self.named.iter().filter(|(name, _)| !is_listed(name)) {
            out.serialize_entry(name, &Schema(schema))?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Tool;

    #[test]
    fn properties_are_written_in_the_order_that_the_schema_lists() {
        let inner =
            json!({ "type": "object", "properties": { "a": {}, "b": {} }, "x-order": ["b", "a"] });
        let schema = json!({
            "type": "object",
            "properties": { "z": {}, "a": { "items": inner }, "m": {}, "x-order": {} },
            "x-order": ["z", "gone", "m"],
        });
        let text = serde_json::to_string(&Tool::new("t", schema)).unwrap();
        let expected = concat!(
            r#"{"name":"t","inputSchema":{"properties":{"z":{},"m":{},"#,
            r#""a":{"items":{"properties":{"b":{},"a":{}},"type":"object"}},"x-order":{}},"type":"object"}}"#
        );
        assert_eq!(text, expected);
    }
}
