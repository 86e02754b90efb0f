//! Finds the URIs and the ids of tasks in a result that the hub does not understand otherwise, in one pass over its text.
//! Each gets a mark in front; nothing else of the text changes. The text grows in its place, so no second copy of it is made, and the
//! length that it will have is known before. No I/O.
//!
//! Only places where the specification has a URI are examined. Deeper values are skipped, so the time depends only on the
//! length of the text, and not on how its parts are nested.

use serde_json::value::RawValue;

use crate::{
    limits::MARKS,
    names::{is_to_be_marked, mark},
};

/// The marks for the URIs and ids in a result.
pub(crate) struct Marks {
    /// The places for marks, in their order.
    places: Vec<usize>,
    mark: String,
}

/// Why a result gets no marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmarked {
    /// The text cannot be parsed, so it may name anything.
    NotJson,
    /// The result has more URIs and ids than [`MARKS`].
    TooMany,
}

impl Marks {
    /// Finds the URIs and ids in a result of the server with this slug.
    pub(crate) fn of(result: &RawValue, slug: &str) -> Result<Self, Unmarked> {
        let mut scan = Scan {
            text: result.get().as_bytes(),
            at: 0,
            slug,
            found: Vec::new(),
            is_full: false,
        };
        match (scan.value(Some(Shape::Result)), scan.is_full) {
            (Some(()), _) => Ok(Self {
                places: scan.found,
                mark: mark(slug),
            }),
            (None, true) => Err(Unmarked::TooMany),
            (None, false) => Err(Unmarked::NotJson),
        }
    }

    /// Returns the number of bytes by which the result grows.
    pub(crate) fn bytes(&self) -> usize {
        self.places.len() * self.mark.len()
    }

    /// Puts the marks into the result in which they were found.
    pub(crate) fn put_into(self, result: Box<RawValue>) -> Box<RawValue> {
        let more = self.bytes();
        if more == 0 {
            return result;
        }
        let mut text = String::from(Box::<str>::from(result)).into_bytes();
        let mut end = text.len();
        text.reserve_exact(more);
        text.resize(end + more, 0);
        // From the last part to the first, each is moved once, to where it stays.
        let mut to = text.len();
        for at in self.places.into_iter().rev() {
            to -= end - at;
            text.copy_within(at..end, to);
            end = at;
            to -= self.mark.len();
            text[to..to + self.mark.len()].copy_from_slice(self.mark.as_bytes());
        }
        let text = String::from_utf8(text).ok();
        let marked = text.and_then(|text| RawValue::from_string(text).ok());
        marked.unwrap_or_else(blank)
    }
}

/// Marks the URIs and ids in a report of the server with this slug. A report that gets no marks is passed on as an empty object.
pub(crate) fn marked_in(report: Box<RawValue>, slug: &str) -> Box<RawValue> {
    match Marks::of(&report, slug) {
        Ok(marks) => marks.put_into(report),
        Err(_) => blank(),
    }
}

/// Returns a result that says nothing.
pub(crate) fn blank() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
}

/// The meaning of a value, by its place.
#[derive(Clone, Copy)]
enum Shape {
    /// The result of a request, or a report about a task.
    Result,
    /// The result of a task.
    OfTask,
    /// A block of content, or the contents of a resource.
    Block,
    /// A message of a prompt, which has a block.
    Message,
    /// The resource in a block.
    Resource,
    /// A URI, or an id of a task.
    Named,
}

impl Shape {
    /// Returns the shape of a member with this name. `None`: it has no URI in it.
    fn member(self, name: &[u8]) -> Option<Self> {
        match (self, name) {
            (Self::Result | Self::OfTask, b"uri" | b"taskId") => Some(Self::Named),
            (Self::Result | Self::OfTask, b"content" | b"contents") => Some(Self::Block),
            (Self::Result | Self::OfTask, b"messages") => Some(Self::Message),
            (Self::Result, b"result") => Some(Self::OfTask),
            (Self::Message, b"content") => Some(Self::Block),
            (Self::Block, b"resource") => Some(Self::Resource),
            (Self::Block | Self::Resource, b"uri") => Some(Self::Named),
            _ => None,
        }
    }

    /// Returns whether a list of these values may stand in the place of one.
    fn is_listed(self) -> bool {
        matches!(self, Self::Block | Self::Message)
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    slug: &'a str,
    /// The places for marks, in their order.
    found: Vec<usize>,
    /// There was one place too many.
    is_full: bool,
}

impl<'a> Scan<'a> {
    /// Reads a value of this shape. `None`: it is not JSON, or has too many places for marks.
    fn value(&mut self, shape: Option<Shape>) -> Option<()> {
        let Some(shape) = shape else {
            return self.pass_over();
        };
        match (self.peek()?, shape) {
            (b'"', Shape::Named) => self.named(),
            (b'{', Shape::Named) => self.pass_over(),
            (b'{', shape) => self.object(shape),
            (b'[', shape) if shape.is_listed() => self.list(shape),
            _ => self.pass_over(),
        }
    }

    /// Reads an object. If a member occurs twice, both count, because clients read the first or the last.
    fn object(&mut self, shape: Shape) -> Option<()> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.peek()?;
            let name = self.string()?;
            let inner = match name.contains(&b'\\') {
                false => shape.member(name),
                true => unescaped(name).and_then(|name| shape.member(name.as_bytes())),
            };
            self.expect(b':')?;
            self.value(inner)?;
            if self.is_over(b'}')? {
                return Some(());
            }
        }
    }

    fn list(&mut self, shape: Shape) -> Option<()> {
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            match self.peek()? {
                b'{' => self.object(shape)?,
                _ => self.pass_over()?,
            }
            if self.is_over(b']')? {
                return Some(());
            }
        }
    }

    fn named(&mut self) -> Option<()> {
        let (begins, slug) = (self.at + 1, self.slug);
        let own = self.string()?;
        let is_found = match own.contains(&b'\\') {
            false => is_to_be_marked(slug, own),
            true => unescaped(own).is_none_or(|own| is_to_be_marked(slug, own.as_bytes())),
        };
        if is_found {
            self.is_full = self.found.len() >= MARKS;
            if self.is_full {
                return None;
            }
            self.found.push(begins);
        }
        Some(())
    }

    /// Skips a value in which no URI is searched.
    fn pass_over(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => self.word(),
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Skips a number, or a word such as `true`.
    fn word(&mut self) {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| {
            matches!(
                byte,
                b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r'
            )
        };
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
    }

    /// Returns the text of a string as it is written, with its escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let begins = self.at + 1;
        let mut at = begins;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.text.get(at..)?)?;
            match self.text[at] {
                b'"' => break,
                _ => at += 2,
            }
        }
        self.at = at + 1;
        self.text.get(begins..at)
    }

    /// Returns whether the object or the list ends here. If not, another member or value follows.
    fn is_over(&mut self, end: u8) -> Option<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Some(false)
            }
            byte if byte == end => {
                self.at += 1;
                Some(true)
            }
            _ => None,
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Returns the next byte that is not a blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += blanks;
        Some(rest[blanks])
    }
}

/// Decodes the escapes of a text. `None`: it cannot be decoded, or readers would decode it differently.
fn unescaped(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    serde_json::from_str(&format!("\"{text}\"")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn through(result: &Value) -> Value {
        let raw = to_raw_value(result).unwrap();
        serde_json::from_str(marked_in(raw, "s").get()).unwrap()
    }

    #[test]
    fn uris_in_results_lead_back_and_all_else_stays() {
        let result = json!({
            "content": [
                { "type": "text", "text": "\"uri\": \"x://1\"" },
                { "type": "resource_link", "uri": "x://2", "name": "n" },
                { "type": "resource", "resource": { "uri": "x://3", "text": "t" } },
            ],
            "structuredContent": { "uri": "x://4" },
            "_meta": { "a": { "uri": "x://5" } },
        });
        let mut expected = result.clone();
        expected["content"][1]["uri"] = json!("s+x://2");
        expected["content"][2]["resource"]["uri"] = json!("s+x://3");
        assert_eq!(through(&result), expected);
    }

    #[test]
    fn contents_messages_and_tasks_too() {
        let read = json!({ "contents": [{ "uri": "x://1", "text": "t" }] });
        assert_eq!(through(&read)["contents"][0]["uri"], "s+x://1");
        let prompt = json!({ "messages": [{ "role": "user", "content":
            { "type": "resource", "resource": { "uri": "x://1" } } }] });
        let uri = &through(&prompt)["messages"][0]["content"]["resource"]["uri"];
        assert_eq!(*uri, "s+x://1");
        let task = json!({ "taskId": "t", "result": { "content": [{ "type": "resource_link", "uri": "x://1" }] } });
        let task = through(&task);
        assert_eq!(task["taskId"], "s+t");
        assert_eq!(task["result"]["content"][0]["uri"], "s+x://1");
    }

    /// Clients read the first or the last of two members with one name: neither may name another server.
    #[test]
    fn members_that_are_repeated_or_escaped_lead_back_too() {
        for result in [
            r#"{"content":[{"type":"resource_link","uri":"x://1","uri":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"x://1","ur\u0069":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","\u0075ri":"t+x://1"}]}"#,
            r#"{"content":[],"content":[{"type":"resource_link","uri":"t+x://1"}]}"#,
            r#"{"contents":[{"uri":"x://1"}],"contents":[{"uri":"t+x://1"}]}"#,
            r#"{"content":[{"resource":{"uri":"x://1"},"resource":{"uri":"t+x://1"}}]}"#,
            r#"{"messages":[],"messages":[{"content":{"uri":"x://1"},"content":{"uri":"t+x://1"}}]}"#,
            r#"{"messages":[{"content":[1,{"uri":"t+x://1"}]}]}"#,
            r#"{"taskId":"x://1","taskId":"t+x://1"}"#,
            r#"{"content":[{"type":"resource_link","\ud800":1,"uri":"t+x://1"}]}"#,
            r#"{"content":[{"type":"resource_link","uri":"t+x://1\ud800"}]}"#,
            r#"{"\ud800":1,"content":[{"type":"resource_link","uri":"t+x://1"}]}"#,
            " { \"content\" :\t[ { \"uri\" :\n\"t+x://1\" } ] } ",
        ] {
            let raw = RawValue::from_string(result.to_owned()).unwrap();
            let back = marked_in(raw, "s");
            assert!(!back.get().contains("\"t+x"), "{result}: {back}");
        }
    }

    /// Each level was once copied once more than the level around it: 15 MiB took 1.7 GB, and all callers waited.
    #[test]
    fn what_stands_deeper_than_any_uri_is_neither_changed_nor_copied() {
        let depth = 110;
        let rest = "[],".repeat(100_000);
        let deep = format!(
            r#"{}{{"uri":"a:b","x":[{rest}0]}}{}"#,
            r#"{"resource":"#.repeat(depth),
            "}".repeat(depth)
        );
        for result in [
            format!(r#"{{"content":[{deep}]}}"#),
            format!(r#"{{"contents":[{deep}]}}"#),
            format!(r#"{{"messages":[{{"role":"user","content":{deep}}}]}}"#),
            format!(r#"{{"result":{{"result":{{"content":[{deep}]}}}}}}"#),
        ] {
            let raw = RawValue::from_string(result.clone()).unwrap();
            let place = raw.get().as_ptr();
            let back = marked_in(raw, "s");
            assert_eq!((back.get(), back.get().as_ptr()), (&*result, place));
        }
    }

    #[test]
    fn an_answer_grows_by_its_marks_and_by_nothing_else() {
        let items = vec![r#"{"uri":""}"#; 10_000].join(",");
        let result = format!(r#"{{"content":[{items}]}}"#);
        let back = marked_in(RawValue::from_string(result.clone()).unwrap(), "s");
        assert_eq!(back.get().len(), result.len() + 10_000 * "s+".len());
    }

    #[test]
    fn the_growth_of_an_answer_is_known_before_and_bounded() {
        for (uris, expected) in [
            (MARKS, Ok(MARKS * "s+".len())),
            (MARKS + 1, Err(Unmarked::TooMany)),
        ] {
            let items = vec![r#"{"uri":"a"}"#; uris].join(",");
            let raw = RawValue::from_string(format!(r#"{{"contents":[{items}]}}"#)).unwrap();
            let before = raw.get().len();
            let marks = Marks::of(&raw, "s");
            assert_eq!(
                marks.as_ref().map(Marks::bytes).map_err(|why| *why),
                expected
            );
            if let (Ok(marks), Ok(more)) = (marks, expected) {
                assert_eq!(marks.put_into(raw).get().len(), before + more);
            }
        }
    }

    #[test]
    fn a_server_without_a_prefix_names_no_resource_of_another_either() {
        for (own, shown) in [
            ("x://1", "x://1"),
            ("t+x://1", "own.+t+x://1"),
            ("\\u0074+x://1", "own.+\\u0074+x://1"),
            ("\\ud800", "own.+\\ud800"),
        ] {
            let result = |uri| format!(r#"{{"content":[{{"uri":"{uri}"}}]}}"#);
            let back = marked_in(RawValue::from_string(result(own)).unwrap(), "");
            assert_eq!(back.get(), result(shown));
        }
    }

    #[test]
    fn values_of_every_kind_are_passed_over() {
        let result = json!({
            "a": [1, -2.5e3, true, null, "\\\"", {}, [], [[]], { "b": { "c": "}" } }],
            "content": [1, "x", [{ "uri": "u" }], { "uri": ["u"], "resource": [] }, {}],
            "contents": "x", "messages": {}, "result": 1, "taskId": 7, "uri": { "uri": "u" },
        });
        assert_eq!(through(&result), result);
    }
}
