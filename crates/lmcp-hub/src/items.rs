//! The items of a server's lists, as they are taken: all who read one read the same. No I/O.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::limits::NOTES;

/// The items that are taken. The words say which ones are not, and why.
pub(crate) fn sifted(items: Vec<Box<RawValue>>, words: &mut Vec<String>) -> Vec<Box<RawValue>> {
    let mut fits = |item: &RawValue| {
        let Some(why) = unfit(item) else {
            return true;
        };
        if words.len() < NOTES {
            words.push(format!("{} is left out: {why}", name(item)));
        }
        false
    };
    items.into_iter().filter(|item| fits(item)).collect()
}

/// Why an item is not taken. Of two members of one name some read the first and some the last, and a text or a number that
/// cannot be read is one to some and none to others: what is compared would not be what clients see.
pub(crate) fn unfit(item: &RawValue) -> Option<String> {
    let read: Result<Plain, _> = serde_json::from_str(item.get());
    read.err().map(|err| err.to_string())
}

/// What people know an item by.
fn name(item: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let first = |_| first_name(item);
    let named = serde_json::from_str(item.get());
    let named = named.map_or_else(first, |Named { name }| Some(name.into_owned()));
    named.map_or_else(
        || "an item".to_owned(),
        |name| format!("`{}`", name.chars().take(NAME_CHARS).collect::<String>()),
    )
}

fn first_name(item: &RawValue) -> Option<String> {
    let members = lmcp_wire::members::Members::read(item.get()).ok()?;
    crate::catalog::text(members.get("name"))
}

/// Characters of a name that are shown.
const NAME_CHARS: usize = 80;

/// JSON that all read the same. Nothing of it is kept.
struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Plain;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_str<E>(self, _: &str) -> Result<Plain, E> {
                Ok(Plain)
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Plain, S::Error> {
                while seq.next_element::<Plain>()?.is_some() {}
                Ok(Plain)
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Plain, M::Error> {
                #[derive(Deserialize, PartialEq, Eq, Hash)]
                struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut names = HashSet::new();
                while let Some(name) = map.next_key::<Name<'_>>()? {
                    if names.contains(&name) {
                        let shown: String = name.0.chars().take(NAME_CHARS).collect();
                        return Err(M::Error::custom(format!("it says `{shown}` twice")));
                    }
                    names.insert(name);
                    map.next_value::<Plain>()?;
                }
                Ok(Plain)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
