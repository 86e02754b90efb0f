//! Finds out, without a value, whether a struct can ever be read from named strings.
//!
//! [`flaw`] reads the struct from made-up values: zero for a number, the first variant for an enum, empty text. A field that
//! needs a list or a structure cannot be read, and neither can a struct with a required field that is not among the names. If a
//! type refuses a made-up value for other reasons, `flaw` assumes that real values fit.

use std::fmt;

use serde::{
    de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor, value::MapDeserializer},
    forward_to_deserialize_any,
};

/// Returns the reason why strings with these names never become a `T`.
pub(crate) fn flaw<'a, T: DeserializeOwned>(names: impl Iterator<Item = &'a str>) -> Option<Flaw> {
    let made_up = names.map(|name| (name, MadeUp(name)));
    match T::deserialize(MapDeserializer::new(made_up)) {
        Err(Tried::Flaw(flaw)) => Some(flaw),
        Err(Tried::Unclear) | Ok(_) => None,
    }
}

/// Why a struct cannot be read from named strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A required field is not among the names.
    Missing(&'static str),
    /// A field is a list or a structure.
    Structured(String),
}

/// How an attempt ended.
#[derive(Debug)]
enum Tried {
    Flaw(Flaw),
    /// The type refused a made-up value, which says nothing about real ones.
    Unclear,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Tried {}

impl de::Error for Tried {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Unclear
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Flaw(Flaw::Missing(field))
    }
}

/// A made-up value for the string of this name.
struct MadeUp<'a>(&'a str);

impl<'a> IntoDeserializer<'a, Tried> for MadeUp<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl MadeUp<'_> {
    fn structured<T>(&self) -> Result<T, Tried> {
        Err(Tried::Flaw(Flaw::Structured(self.0.to_owned())))
    }
}

impl<'de> Deserializer<'de> for MadeUp<'_> {
    type Error = Tried;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        visitor.visit_str("")
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        visitor.visit_bool(false)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        visitor.visit_u64(0)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        visitor.visit_char('a')
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Tried> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Tried> {
        let first: &'static str = variants.first().ok_or(Tried::Unclear)?;
        visitor.visit_enum(first.into_deserializer())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Tried> {
        self.structured()
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Tried> {
        self.structured()
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        _: V,
    ) -> Result<V::Value, Tried> {
        self.structured()
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Tried> {
        self.structured()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Tried> {
        self.structured()
    }

    // Every type of number accepts a small number of another type.
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Tried> {
        self.deserialize_u64(visitor)
    }

    forward_to_deserialize_any! {
        i128 u128 str string bytes byte_buf unit unit_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "nobody reads a made-up value")]
    struct Fine {
        name: String,
        number: i16,
        ratio: f32,
        size: Size,
        all: Option<bool>,
        rest: Option<String>,
        address: std::net::IpAddr,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "nobody reads a made-up value")]
    struct Lists {
        name: String,
        tags: Option<Vec<String>>,
    }

    #[test]
    fn a_field_that_no_string_can_fill_is_found() {
        let names = ["name", "number", "ratio", "size", "address"];
        assert_eq!(flaw::<Fine>(names.into_iter()), None);
        // The last field refuses an empty text, which says nothing about real values.
        assert_eq!(flaw::<Fine>(["address", "name"].into_iter()), None);
        let missing = flaw::<Fine>(["name", "ratio", "size"].into_iter());
        assert_eq!(missing, Some(Flaw::Missing("number")));
        let lists = flaw::<Lists>(["name", "tags"].into_iter());
        assert_eq!(lists, Some(Flaw::Structured("tags".into())));
        assert_eq!(flaw::<Lists>(["name"].into_iter()), None);
    }
}
