//! The order in which the properties of a schema are written.
//!
//! A JSON value keeps its members sorted, but a model reads the arguments of a tool in the order in which they are written. A
//! schema may contain a list of names, [`ORDER`], that is not sent: the properties are written in this order, and others after
//! them. [`write()`] makes text of such a schema, and [`read`] makes the schema of text.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::{Map, Value};

/// The keyword of the list of names.
pub const ORDER: &str = "x-order";

/// Reads a schema, and notes the order of its properties if they are not sorted by name.
///
/// # Errors
/// The text is not JSON.
pub fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Read { value, .. }| value)
}

/// Writes a schema with its properties in order.
pub fn write(schema: &Value) -> String {
    serde_json::to_string(&Schema(schema)).unwrap_or_default()
}

/// Writes a schema in order, for `serialize_with`.
pub(crate) fn serialize<S: Serializer>(schema: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Schema(schema).serialize(serializer)
}

/// Writes and reads a schema in order, for `with`.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Read, Schema, Serialize, Serializer, Value};

    pub(crate) fn serialize<S: Serializer>(
        schema: &Option<Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        schema.as_ref().map(Schema).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        let read = Option::<Read>::deserialize(deserializer)?;
        Ok(read.map(|Read { value, .. }| value))
    }
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

/// A value, and the names of its members in the order of the text.
struct Read {
    value: Value,
    names: Vec<Value>,
}

impl From<Value> for Read {
    fn from(value: Value) -> Self {
        let names = Vec::new();
        Self { value, names }
    }
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON schema")
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Value::Null.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Read, E> {
        Ok(Value::from(value).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Read, A::Error> {
        let mut values = Vec::new();
        while let Some(Read { value, .. }) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Read, A::Error> {
        let mut object = Map::new();
        let mut names = Vec::new();
        while let Some((name, member)) = members.next_entry::<String, Read>()? {
            let is_sorted = member.names.is_sorted_by_key(|name| name.as_str());
            if name == "properties" && !is_sorted {
                object.insert(ORDER.to_owned(), member.names.into());
            }
            names.push(name.as_str().into());
            object.insert(name, member.value);
        }
        let value = object.into();
        Ok(Read { value, names })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;
    use crate::Tool;

    #[test]
    fn a_schema_that_was_read_is_written_as_it_was() {
        let text = concat!(
            r#"{"name":"t","inputSchema":{"properties":{"z":{"maximum":2.5},"m":{"type":["string","null"]},"#,
            r#""a":{"items":{"properties":{"b":true,"a":{"minimum":-1}},"type":"object"}}},"type":"object"}}"#
        );
        let schema = &text[r#"{"name":"t","inputSchema":"#.len()..text.len() - 1];
        let tool = Tool::new("t", read(schema).unwrap());
        assert_eq!(serde_json::to_string(&tool).unwrap(), text);
    }

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
