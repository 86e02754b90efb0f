//! Checks the items of a server's lists as they are taken, so that all readers of an item read the same. No I/O.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::limits::{ITEM_BYTES, LIST_BYTES, LIST_ITEMS, NOTES};

/// Takes items of the lists of one server while they are read: an item that is not taken is never held in memory.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    /// The list that is being read.
    list: String,
    /// Bytes that all lists may still take.
    room: usize,
    /// Items that this list may still have.
    more: usize,
    /// The items that were not taken, in words.
    pub(crate) left_out: Vec<String>,
}

impl Default for Taking {
    fn default() -> Self {
        Self {
            list: String::new(),
            room: LIST_BYTES,
            more: LIST_ITEMS,
            left_out: Vec::new(),
        }
    }
}

impl Taking {
    /// Begins the next list.
    pub(crate) fn begin(&mut self, list: &str) {
        list.clone_into(&mut self.list);
        self.more = LIST_ITEMS;
    }

    /// Returns whether nothing more is taken of this list.
    pub(crate) fn is_full(&self) -> bool {
        self.more == 0 || self.room == 0
    }

    /// Takes the items of a page. `items` is the text of an array.
    pub(crate) fn page(
        &mut self,
        items: &str,
        all: &mut Vec<Box<RawValue>>,
    ) -> serde_json::Result<()> {
        struct Reader<'a>(&'a mut Taking, &'a mut Vec<Box<RawValue>>);
        impl<'de> Visitor<'de> for Reader<'_> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
                let Self(taking, all) = self;
                while !taking.is_full()
                    && let Some(item) = seq.next_element::<&RawValue>()?
                {
                    if taking.takes(item) {
                        all.push(item.to_owned());
                    }
                }
                if taking.is_full() && seq.next_element::<IgnoredAny>()?.is_some() {
                    taking.say(format!("only the first of its {} are taken", taking.list));
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                }
                Ok(())
            }
        }
        let mut reader = serde_json::Deserializer::from_str(items);
        reader.deserialize_seq(Reader(self, all))
    }

    /// Returns whether this item is taken. An item that is left out counts, too, because such items may follow without end.
    fn takes(&mut self, item: &RawValue) -> bool {
        self.more = self.more.saturating_sub(1);
        let Some(room) = self.room.checked_sub(item.get().len()) else {
            self.room = 0;
            self.say(format!("only the first of its {} are taken", self.list));
            return false;
        };
        self.room = room;
        let why = unfit(item);
        if let Some(why) = &why {
            self.say(format!("{} is left out: {why}", name(item)));
        }
        why.is_none()
    }

    fn say(&mut self, words: String) {
        if self.left_out.len() < NOTES {
            self.left_out.push(words);
        }
    }
}

/// Filters items that were kept. Adds to `words` which items are not taken, and why.
pub(crate) fn sifted(items: Vec<Box<RawValue>>, words: &mut Vec<String>) -> Vec<Box<RawValue>> {
    let mut taking = Taking::default();
    let items = items.into_iter();
    let taken = items.filter(|item| taking.takes(item)).collect();
    words.append(&mut taking.left_out);
    taken
}

/// Returns why an item is not taken. If a member occurs twice, some readers use the first and some the last. A text or a
/// number that cannot be parsed is valid to some readers and not to others. The hub would then compare something else than
/// clients see.
fn unfit(item: &RawValue) -> Option<String> {
    if item.get().len() > ITEM_BYTES {
        return Some(format!("it is longer than {} KiB", ITEM_BYTES >> 10));
    }
    let read: Result<Plain, _> = serde_json::from_str(item.get());
    read.err().map(|err| err.to_string())
}

/// Returns the first name that an item has. Nothing else of the item is kept meanwhile.
fn name(item: &RawValue) -> String {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Option<String>, M::Error> {
            let mut first = None;
            while let Some(name) = map.next_key::<Name<'_>>()? {
                if name.0 == "name" && first.is_none() {
                    first = map.next_value::<Option<Name<'_>>>()?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(first.map(|Name(name)| name.chars().take(NAME_CHARS).collect()))
        }
    }
    let mut reader = serde_json::Deserializer::from_str(item.get());
    let named = reader.deserialize_map(Reader).ok().flatten();
    named.map_or_else(|| "an item".to_owned(), |name| format!("`{name}`"))
}

/// Returns the text of a member; `None` if the member is absent or not a text.
pub(crate) fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

/// A name, borrowed if it has no escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The number of characters of a name that are shown.
const NAME_CHARS: usize = 80;

/// JSON that all readers read in the same way. Nothing of it is kept.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(list: &str) -> (Vec<Box<RawValue>>, Vec<String>) {
        let (mut taking, mut all) = (Taking::default(), Vec::new());
        taking.begin("tools");
        taking.page(list, &mut all).unwrap();
        (all, taking.left_out)
    }

    #[test]
    fn no_more_items_than_are_kept_are_held_while_a_list_is_read() {
        let list = format!("[{}{{}}]", "{},".repeat(100_000));
        let (all, words) = taken(&list);
        assert_eq!((all.len(), words.len()), (LIST_ITEMS, 1), "{words:?}");
        assert!(all.capacity() <= 2 * LIST_ITEMS);
    }

    #[test]
    fn a_long_item_is_left_out_and_named() {
        let zeros = "0,".repeat(ITEM_BYTES);
        let long = format!(r#"{{"inputSchema":{{"enum":[{zeros}0]}},"name":"long"}}"#);
        let (all, words) = taken(&format!(r#"[{long},{{"name":"short"}}]"#));
        assert_eq!(all.len(), 1);
        assert_eq!(words, ["`long` is left out: it is longer than 64 KiB"]);
    }

    #[test]
    fn what_is_no_list_is_refused_wherever_it_breaks() {
        for text in ["{}", "[1,", "[1 2]", "1"] {
            let mut all = Vec::new();
            assert!(Taking::default().page(text, &mut all).is_err(), "{text}");
        }
    }
}
