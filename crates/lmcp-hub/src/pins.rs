//! The definitions that servers showed to models at first, and how they differ now. No I/O.

use std::collections::BTreeMap;

use lmcp_wire::members::Members;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{items::text, listing::Listing};

/// The definitions of one server that somebody saw first, or approved since.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Pins {
    /// The name of the server in the configuration.
    pub(crate) server: String,
    instructions: Option<String>,
    /// The tools by the names that the server has for them. A tool that is gone stays in the list, because it may come back
    /// with another definition.
    tools: BTreeMap<String, Definition>,
}

/// The parts of a tool that a model or a client acts upon, as text: a tree of values takes many times as much memory. The
/// order of members and the space between them are always the same, so that equal values are equal texts. If a number has
/// too many digits to be written back exactly, the part stays as its server wrote it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Definition(BTreeMap<String, Box<RawValue>>);

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|definition| definition.0.iter());
        ours.map(|(part, value)| (part, value.get()))
            .eq(theirs.map(|(part, value)| (part, value.get())))
    }
}

impl Definition {
    fn get(&self, part: &str) -> Option<&str> {
        self.0.get(part).map(|value| value.get())
    }
}

const PARTS: [&str; 5] = [
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// The name of the part that belongs to no tool.
const INSTRUCTIONS: &str = "instructions";

/// A definition that differs from what was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The tool, by the name that the server has for it. None: the instructions of the server.
    pub tool: Option<String>,
    /// The parts that differ; empty for a new tool.
    pub parts: Vec<PartChange>,
}

impl Change {
    /// Returns whether this is a tool that nobody has seen before.
    pub fn is_new(&self) -> bool {
        self.parts.is_empty()
    }
}

/// A part of a definition that differs from what was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartChange {
    /// `description`, `inputSchema` and so on.
    pub part: String,
    /// The part as it was first seen: a text, or JSON.
    pub before: Option<String>,
    /// The part as it is now.
    pub now: Option<String>,
}

impl Pins {
    /// Takes everything that a server offers which nobody has seen yet.
    pub(crate) fn of(server: &str, listing: &Listing) -> Self {
        let mut pins = Self {
            server: server.to_owned(),
            instructions: listing.instructions.clone(),
            tools: BTreeMap::new(),
        };
        pins.take_new(listing);
        pins
    }

    /// Adds tools that were never seen. Returns whether there was one.
    pub(crate) fn take_new(&mut self, listing: &Listing) -> bool {
        let before = self.tools.len();
        for (name, definition) in definitions(listing) {
            if self.tools.len() < MOST_TOOLS {
                self.tools.entry(name).or_insert(definition);
            }
        }
        self.tools.len() > before
    }

    /// Replaces what was seen before by the current listing: all of it, or these tools.
    pub(crate) fn approve(&mut self, listing: &Listing, tools: Option<&[String]>) {
        if tools.is_none() {
            self.instructions.clone_from(&listing.instructions);
        }
        for (name, definition) in definitions(listing) {
            if tools.is_none_or(|tools| tools.contains(&name)) {
                self.tools.insert(name, definition);
            }
        }
    }

    /// Returns how the listing differs from what was seen before.
    pub(crate) fn changes(&self, listing: &Listing) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.instructions != listing.instructions {
            changes.push(Change {
                tool: None,
                parts: vec![PartChange {
                    part: INSTRUCTIONS.to_owned(),
                    before: self.instructions.clone(),
                    now: listing.instructions.clone(),
                }],
            });
        }
        for (name, now) in definitions(listing) {
            let parts = match self.tools.get(&name) {
                Some(before) if *before == now => continue,
                Some(before) => differences(before, &now),
                None => Vec::new(),
            };
            changes.push(Change {
                tool: Some(name),
                parts,
            });
        }
        changes
    }
}

fn differences(before: &Definition, now: &Definition) -> Vec<PartChange> {
    let shown = |value: &str| serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
    let differing = PARTS
        .iter()
        .filter(|part| before.get(part) != now.get(part));
    let parts = differing.map(|part| PartChange {
        part: (*part).to_owned(),
        before: before.get(part).map(shown),
        now: now.get(part).map(shown),
    });
    parts.collect()
}

/// Returns the tools of a server with their parts. The parts are parsed, so that the order of members and the space between
/// them do not count.
fn definitions(listing: &Listing) -> impl Iterator<Item = (String, Definition)> {
    listing.tools.iter().filter_map(|tool| {
        let members = Members::read(tool.get()).ok()?;
        let name = text(members.get("name"))?;
        let part = |part: &&str| {
            let said = members.get(part)?;
            let value: Value = serde_json::from_str(said.get()).ok()?;
            let text = match has_exact_numbers(said.get()) {
                true => to_raw_value(&value).ok().filter(|_| !value.is_null())?,
                false => said.to_owned(),
            };
            Some(((*part).to_owned(), text))
        };
        Some((name, Definition(PARTS.iter().filter_map(part).collect())))
    })
}

/// Returns whether every number of this JSON is written back as it was after it was read. Other numbers are rounded when
/// they are read, so two different numbers could compare as equal.
fn has_exact_numbers(json: &str) -> bool {
    let mut rest = json;
    while let Some(at) = rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        rest = &rest[at..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = after_text(text);
            continue;
        }
        let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
        let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (number, after) = rest.split_at(length);
        let read = serde_json::from_str::<serde_json::Number>(number);
        if !read.is_ok_and(|read| read.to_string() == number) {
            return false;
        }
        rest = after;
    }
    true
}

/// Returns the rest after the end of a JSON string that has begun.
fn after_text(mut rest: &str) -> &str {
    while let Some(at) = rest.find(['"', '\\']) {
        if rest.as_bytes()[at] == b'"' {
            return &rest[at + 1..];
        }
        let mut escaped = rest[at + 1..].chars();
        escaped.next();
        rest = escaped.as_str();
    }
    ""
}

/// The number of tools of one server that are remembered. A tool beyond that number is never treated as known.
const MOST_TOOLS: usize = 4000;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listing(tools: &[Value]) -> Listing {
        let raw = |tool: &Value| to_raw_value(tool).unwrap();
        Listing {
            tools: tools.iter().map(raw).collect(),
            ..Listing::default()
        }
    }

    fn parts(change: &Change) -> Vec<&str> {
        change.parts.iter().map(|part| &*part.part).collect()
    }

    #[test]
    fn every_part_that_a_model_acts_upon_counts_and_nothing_else_does() {
        let tool = json!({ "name": "a", "title": "T", "description": "D", "inputSchema": { "type": "object", "x": 1 },
            "outputSchema": {}, "annotations": { "readOnlyHint": true }, "_meta": { "n": 1 } });
        let pins = Pins::of("s", &listing(std::slice::from_ref(&tool)));
        for (part, other) in [
            ("title", json!("X")),
            ("description", json!("X")),
            ("inputSchema", json!({ "type": "object", "x": 2 })),
            ("outputSchema", json!(null)),
            ("annotations", json!({ "readOnlyHint": false })),
        ] {
            let mut changed = tool.clone();
            changed[part] = other;
            let changes = pins.changes(&listing(&[changed]));
            assert_eq!(parts(&changes[0]), [part]);
        }
        let mut same = tool;
        same["_meta"] = json!({ "n": 2 });
        assert_eq!(pins.changes(&listing(&[same])), []);
        // The same members in another order, as some servers send at every start.
        let text = r#"{"inputSchema":{"x":1, "type":"object"},"annotations":{"readOnlyHint":true},"outputSchema":{},
            "description":"D","title":"T","name":"a"}"#;
        let mut other = listing(&[]);
        other.tools = vec![RawValue::from_string(text.to_owned()).unwrap()];
        assert_eq!(pins.changes(&other), []);
    }

    #[test]
    fn no_digit_of_a_number_changes_unseen() {
        let with = |number: &str| {
            let text = format!(r#"{{"name":"a","inputSchema":{{"const":{number},"x":"\"1e5"}}}}"#);
            let mut now = listing(&[]);
            now.tools = vec![RawValue::from_string(text).unwrap()];
            now
        };
        for (one, other) in [
            ("40817810099910004312", "40817810099910004999"),
            ("0.1", "0.1000000000000000000001"),
            ("9007199254740993.0", "9007199254740992.0"),
        ] {
            let pins = Pins::of("s", &with(one));
            assert_eq!(pins.changes(&with(one)), [], "{one}");
            assert_eq!(pins.changes(&with(other)).len(), 1, "{one} and {other}");
        }
        assert!(has_exact_numbers(
            r#"{"a":[1,-2.5,1e+30,"40817810099910004312"]}"#
        ));
    }

    #[test]
    fn what_was_first_seen_stays_until_somebody_approves_of_the_other() {
        let [one, two, three] =
            [1, 2, 3].map(|n| json!({ "name": "a", "description": n.to_string() }));
        let mut pins = Pins::of("s", &listing(&[one]));
        // The tool is gone for a while, and comes back with another definition.
        assert!(!pins.take_new(&listing(&[])));
        assert!(!pins.take_new(&listing(std::slice::from_ref(&two))));
        let change = &pins.changes(&listing(std::slice::from_ref(&two)))[0];
        assert_eq!(change.parts[0].before.as_deref(), Some("1"));
        assert_eq!(change.parts[0].now.as_deref(), Some("2"));
        pins.approve(
            &listing(std::slice::from_ref(&two)),
            Some(&["b".to_owned()]),
        );
        assert_eq!(pins.changes(&listing(std::slice::from_ref(&two))).len(), 1);
        pins.approve(
            &listing(std::slice::from_ref(&two)),
            Some(&["a".to_owned()]),
        );
        assert_eq!(pins.changes(&listing(&[two])), []);
        assert_eq!(pins.changes(&listing(&[three])).len(), 1);
    }

    #[test]
    fn new_tools_and_other_instructions_are_changes() {
        let tool = |name: &str| json!({ "name": name });
        let mut pins = Pins::of("s", &listing(&[tool("a")]));
        let mut now = listing(&[tool("a"), tool("b")]);
        now.instructions = Some("obey".to_owned());
        let changes = pins.changes(&now);
        assert_eq!(
            (&changes[0].tool, parts(&changes[0])),
            (&None, vec!["instructions"])
        );
        assert_eq!(changes[1].tool.as_deref(), Some("b"));
        assert!(changes[1].parts.is_empty());
        pins.approve(&now, None);
        assert_eq!(pins.changes(&now), []);
    }
}
