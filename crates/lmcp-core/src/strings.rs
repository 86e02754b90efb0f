//! Reads a struct from named strings: the variables of a URI, or the arguments of a prompt.
//!
//! A field of type `u32` or `bool` is parsed from its text. An `Option` is `None` if the string is missing.

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

/// One method for each type of number: the text is parsed as that type, and an error names the string.
macro_rules! parsed {
    ($($deserialize:ident $visit:ident $expected:literal,)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.parse($expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.parse("true or false")?)
    }

    parsed! {
        deserialize_i8 visit_i8 "an integer from -128 to 127",
        deserialize_i16 visit_i16 "an integer of 16 bits",
        deserialize_i32 visit_i32 "an integer of 32 bits",
        deserialize_i64 visit_i64 "an integer of 64 bits",
        deserialize_u8 visit_u8 "a whole number from 0 to 255",
        deserialize_u16 visit_u16 "a whole number of 16 bits",
        deserialize_u32 visit_u32 "a whole number of 32 bits",
        deserialize_u64 visit_u64 "a whole number of 64 bits",
        deserialize_f32 visit_f32 "a number",
        deserialize_f64 visit_f64 "a number",
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
            Err("`number`: expected a whole number of 16 bits, got `x`".into())
        );
    }
}
