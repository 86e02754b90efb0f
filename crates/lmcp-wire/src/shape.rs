//! Readers for members of a required shape: present, an object, a string without escapes.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

/// Reads `null` as a value, not as absence: `"id": null` is a mistake, a message without `id` is a notification.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a struct from an object only. serde by itself also takes an array of the fields.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_str<E: de::Error>(self, _: &str) -> Result<T, E> {
            Err(E::invalid_type(A_STRING, &self))
        }

        fn visit_map<M: de::MapAccess<'de>>(self, members: M) -> Result<T, M::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(members))
        }
    }
    deserializer.deserialize_map(Visitor(PhantomData))
}

/// Does the same, and reads `null` as nothing: some clients write it.
pub(crate) fn object_or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Visitor<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_str<E: de::Error>(self, _: &str) -> Result<Option<T>, E> {
            Err(E::invalid_type(A_STRING, &self))
        }

        fn visit_map<M: de::MapAccess<'de>>(self, members: M) -> Result<Option<T>, M::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(members)).map(Some)
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Visitor(PhantomData))
}

/// Stands for a string in errors, because serde's error would repeat the whole string.
const A_STRING: de::Unexpected<'static> = de::Unexpected::Other("a string");

/// Does the same for a member that may be absent.
pub(crate) fn some_object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    object(deserializer).map(Some)
}

/// A string without escapes. Reading a string with escapes fails, and the message is then read in another way.
pub(crate) struct Unescaped<'a>(pub(crate) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Unescaped<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Unescaped<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Unescaped<'de>, E> {
                Ok(Unescaped(text))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<Unescaped<'de>, E> {
                Err(E::custom("no escapes are expected"))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// A string that is borrowed if it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);
