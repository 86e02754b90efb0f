//! Variables for a command, as clients write them.

use std::{collections::BTreeMap, fmt};

use lmcp_core::{ToolError, ToolResult};
use lmcp_wire::name::Beginning;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

use super::long::LONGEST;

/// Names and values: as a list of `NAME=value`, which every client can send, or as an object.
///
/// The strict modes of model providers know no object with members of any name, and would make it one without any.
///
/// Read by hand: what serde reads as one of several forms it copies first.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum Variables {
    List(Vec<String>),
    Map(BTreeMap<String, Scalar>),
}

#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl Default for Variables {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Variables {
    /// Returns the schema that models are shown.
    pub(super) fn shown() -> Value {
        json!({ "type": "array", "items": { "type": "string" } })
    }

    /// # Errors
    /// An entry sets no variable or is too long, or there are too many.
    pub(super) fn into_map(self) -> ToolResult<BTreeMap<String, String>> {
        let count = match &self {
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
        };
        if count > MOST_VARIABLES {
            return Err(ToolError::new(format!(
                "`env` has {count} variables, and a command gets at most {MOST_VARIABLES}"
            ))
            .hint("write them to a file that the command reads"));
        }
        match self {
            Self::List(list) => list.into_iter().map(pair).collect(),
            Self::Map(map) => {
                let pairs = map.into_iter().map(|(name, value)| (name, value.text()));
                let pairs = pairs.map(|(name, value)| {
                    expect_short(&name, name.len() + 1 + value.len())?;
                    Ok((name, value))
                });
                pairs.collect()
            }
        }
    }
}

/// The most variables that a caller adds to the environment of one command. Each takes many times its bytes in the
/// server.
const MOST_VARIABLES: usize = 4096;

fn pair(text: String) -> ToolResult<(String, String)> {
    let name = text.split('=').next().unwrap_or_default();
    expect_short(name, text.len())?;
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(
            ToolError::new(format!("`{}` in `env` sets no variable", Beginning(text)))
                .hint("write `NAME=value`"),
        ),
    }
}

/// Refuses a variable that is too long for the kernel.
fn expect_short(name: &str, bytes: usize) -> ToolResult<()> {
    if bytes <= LONGEST {
        return Ok(());
    }
    let name = Beginning(name);
    Err(ToolError::new(format!(
        "`{name}` in `env` has {bytes} bytes, and the kernel takes at most {LONGEST}"
    ))
    .hint("write it to a file that the command reads"))
}

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of NAME=value, or an object")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, items: A) -> Result<Variables, A::Error> {
                let items = de::value::SeqAccessDeserializer::new(items);
                Vec::deserialize(items).map(Variables::List)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, members: A) -> Result<Variables, A::Error> {
                let members = de::value::MapAccessDeserializer::new(members);
                BTreeMap::deserialize(members).map(Variables::Map)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Scalar, E> {
                Ok(Scalar::Text(text))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(flag))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number.into()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
                let number = serde_json::Number::from_f64(number);
                number
                    .map(Scalar::Number)
                    .ok_or_else(|| E::custom("a finite number is expected"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Scalar {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}
