//! Reading a struct from named strings: the variables of a URI, the arguments of a prompt.
//!
//! A field of type `u32` or `bool` is parsed from its text, an `Option` is whatever is there.

use std::collections::BTreeMap;

use serde::{
    de::{
        self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor,
        value::{Error, MapDeserializer},
    },
    forward_to_deserialize_any,
};

/// Reads a `T`, or says which string does not fit.
pub(crate) fn read<T: DeserializeOwned>(strings: &BTreeMap<String, String>) -> Result<T, Error> {
    let pairs = strings
        .iter()
        .map(|(name, text)| (name.as_str(), Text { name, text }));
    T::deserialize(MapDeserializer::new(pairs))
}

struct Text<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> IntoDeserializer<'a, Error> for Text<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl Text<'_> {
    fn parse<T: std::str::FromStr>(&self, expected: &str) -> Result<T, Error> {
        self.text.parse().map_err(|_| {
            de::Error::custom(format!(
                "`{}`: expected {expected}, got `{}`",
                self.name, self.text
            ))
        })
    }
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.parse("true or false")?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(self.parse("an integer")?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.parse("a whole number")?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.parse("a number")?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.text
            .into_deserializer()
            .deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Page {
        name: String,
        number: u16,
        size: Size,
        all: Option<bool>,
        rest: Option<String>,
    }

    fn page(number: &str) -> Result<Page, String> {
        let strings = [
            ("name", "a"),
            ("number", number),
            ("size", "small"),
            ("all", "true"),
            ("unknown", "x"),
        ];
        let strings = strings
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        read(&strings).map_err(|err| err.to_string())
    }

    #[test]
    fn fields_are_parsed_by_their_type() {
        let expected = Page {
            name: "a".into(),
            number: 7,
            size: Size::Small,
            all: Some(true),
            rest: None,
        };
        assert_eq!(page("7"), Ok(expected));
        assert_eq!(
            page("x"),
            Err("`number`: expected a whole number, got `x`".into())
        );
    }
}
