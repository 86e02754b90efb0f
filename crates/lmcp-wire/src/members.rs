//! The members of a JSON object as text: appended to others, or kept without being parsed.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{jsonrpc::append, limits::MOST_MEMBERS};

/// Appends the members of an object to those already there: `,"a":1` for `{"a":1}`.
pub fn splice<T: Serialize + ?Sized>(out: &mut Vec<u8>, object: &T) {
    let start = out.len();
    append(out, object);
    if out.len() - start <= "{}".len() {
        out.truncate(start);
    } else {
        out[start] = b',';
        out.pop();
    }
}

/// The members of an object, in their order and each still raw. No member is lost, whatever it means.
#[derive(Clone, Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Members<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// The text is no JSON object, or one of more than [`MOST_MEMBERS`] members.
    pub fn read(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// Keeps one member of each name: the last, which is the one that most parsers read.
    pub fn keep_last(&mut self) {
        let is_last = if self.0.len() <= FEW {
            let is_last = |at: usize| {
                let (name, _) = &self.0[at];
                self.0[at + 1..].iter().all(|(other, _)| other != name)
            };
            (0..self.0.len()).map(is_last).collect::<Vec<_>>()
        } else {
            let mut seen = HashSet::new();
            let from_behind = self.0.iter().rev();
            let mut are_last: Vec<_> = from_behind.map(|(name, _)| seen.insert(&**name)).collect();
            are_last.reverse();
            are_last
        };
        let mut is_last = is_last.into_iter();
        self.0.retain(|_| is_last.next().unwrap_or(true));
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Removes the member of this name and returns it.
    pub fn take(&mut self, name: &str) -> Option<Cow<'a, RawValue>> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Sets a member: replaces the one of its name, or appends it.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: &(impl Serialize + ?Sized)) {
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.put(name, value);
        }
    }

    /// Does the same for a value that is JSON already. The value is not copied.
    pub fn put(&mut self, name: impl Into<Cow<'a, str>>, value: Box<RawValue>) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, before)) => *before = Cow::Owned(value),
            None => self.0.push((name, Cow::Owned(value))),
        }
    }

    /// Replaces the values for which the function returns another one.
    pub fn change(&mut self, mut change: impl FnMut(&RawValue) -> Option<Box<RawValue>>) {
        for (_, value) in &mut self.0 {
            if let Some(changed) = change(value) {
                *value = Cow::Owned(changed);
            }
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the members to others, with a comma before each.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            out.push(b',');
            append(out, name);
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
    }
}

/// Up to this number, each member is compared with each other: for most objects this is faster than a table.
const FEW: usize = 16;

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.iter().map(|(name, value)| (name, &**value));
        serializer.collect_map(members)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A name, borrowed if it has no escapes.
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<_, &RawValue>()? {
                    if members.len() == MOST_MEMBERS {
                        let words = format_args!("an object has more than {MOST_MEMBERS} members");
                        return Err(M::Error::custom(words));
                    }
                    members.push((name, Cow::Borrowed(value)));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_text() {
        let text = r#"{"b":1.10,"a\"":[ 1 ],"b":null}"#;
        let members = Members::read(text).unwrap();
        let mut out = Vec::new();
        members.write(&mut out);
        assert_eq!(out, br#","b":1.10,"a\"":[ 1 ],"b":null"#);
        assert!(Members::read("[1]").is_err());
    }

    #[test]
    fn an_object_of_very_many_members_is_refused_in_words() {
        let object = |members: usize| format!("{{{}}}", vec![r#""":0"#; members].join(","));
        assert!(Members::read(&object(MOST_MEMBERS)).is_ok());
        let refused = Members::read(&object(MOST_MEMBERS + 1)).unwrap_err();
        let words = refused.to_string();
        assert!(words.contains("more than 4096 members"), "{words}");
    }

    #[test]
    fn a_member_is_replaced_in_its_place() {
        let mut members = Members::read(r#"{"a":1,"b":2,"c":3}"#).unwrap();
        members.set("b", "two");
        members.set("d", &4);
        assert_eq!(
            members.take("a").map(|a| a.get().to_owned()).as_deref(),
            Some("1")
        );
        let mut out = Vec::new();
        members.write(&mut out);
        assert_eq!(out, br#","b":"two","c":3,"d":4"#);
    }

    #[test]
    fn the_last_member_of_each_name_is_kept() {
        for more in [0, 30] {
            let others: String = (0..more).map(|n| format!(r#","n{n}":0"#)).collect();
            let text = format!(r#"{{"a":1,"b":2,"\u0061":3{others},"b":4,"c":5}}"#);
            let mut members = Members::read(&text).unwrap();
            members.keep_last();
            let mut out = Vec::new();
            members.write(&mut out);
            let expected = format!(r#","a":3{others},"b":4,"c":5"#);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_object_adds_nothing() {
        let mut out = b"{\"a\":1".to_vec();
        splice(&mut out, &crate::Object::new());
        assert_eq!(out, b"{\"a\":1");
    }
}
