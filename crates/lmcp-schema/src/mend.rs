//! Reads a value that a schema refuses in the way that was clearly meant, so that a call does not fail for its form.
//!
//! Values that fit are not touched. A value is changed only where the schema refuses it:
//!
//! | sent | for | read as |
//! |---|---|---|
//! | `null`, `""`, `[]`, `{}` | an optional member whose schema refuses this value | absent |
//! | `0`, `"0"` | an optional number that must be larger | absent |
//! | `"10"`, `"true"`, `"[1]"`, `"{…}"` | a number, boolean, list or object | the value in the text |
//! | one value | a list of such values | a list of this value |
//! | `maxResults`, or an alias | a member of another name, where this one is refused | `max_results`, or the name that the alias means |
//! | `null` under one of two such names | a member whose other name has a value | the other value |
//! | `""`, `[]`, `{}` under a refused name | a member whose right name has a value | the other value |
//!
//! So an empty value keeps its meaning wherever the schema allows it: the content of a file may be `""`. An optional text that
//! must not be empty has `minLength: 1` in its schema, a list has `minItems: 1`.

use serde_json::Value;

use crate::{
    mismatch::{Mismatch, Mismatches},
    nearest,
    node::{ArrayCheck, Check, NodeId, ObjectCheck, Properties, ROOT},
    pointer,
    read::Object,
    schema::Schema,
    validate::Run,
};

/// Other names for the members of a schema, and names that are dropped.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    /// The other name, and the name that it stands for.
    others: Vec<(Box<str>, Box<str>)>,
    dropped: Vec<Box<str>>,
}

impl Aliases {
    /// Reads `other` as `name`, wherever a schema has a member of that name.
    pub fn add(&mut self, name: &str, other: &str) {
        self.others.push((other.into(), name.into()));
    }

    /// Drops a member of this name where a schema refuses it.
    pub fn drop_member(&mut self, name: &str) {
        self.dropped.push(name.into());
    }

    /// Returns each other name, with the name that it stands for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.others.iter();
        others.map(|(other, name)| (&**other, &**name))
    }

    /// Returns all names that are not those of members.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(|(other, _)| &**other);
        others.chain(self.dropped.iter().map(|name| &**name))
    }

    fn meant_by(&self, key: &str) -> impl Iterator<Item = &str> {
        let same = move |(other, _): &&(Box<str>, _)| nearest::is_same(other, key);
        self.others.iter().filter(same).map(|(_, name)| &**name)
    }

    fn drops(&self, key: &str) -> bool {
        self.dropped.iter().any(|name| nearest::is_same(name, key))
    }
}

impl Schema {
    /// Returns the value that was meant, if it is clear, else all mismatches.
    ///
    /// ```
    /// use lmcp_schema::{Aliases, Schema};
    /// use serde_json::json;
    ///
    /// let schema = Schema::compile_input(&json!({
    ///     "type": "object",
    ///     "properties": { "path": { "type": "string" }, "limit": { "type": "integer" } },
    ///     "required": ["path"],
    ///     "additionalProperties": false,
    /// }))?;
    /// let mut aliases = Aliases::default();
    /// aliases.add("path", "file_path");
    /// let meant = |sent| schema.mend(sent, &aliases);
    /// assert_eq!(meant(json!({ "file_path": "a", "limit": "5" })), Ok(json!({ "path": "a", "limit": 5 })));
    /// assert_eq!(meant(json!({ "path": "a", "limit": null })), Ok(json!({ "path": "a" })));
    /// assert!(meant(json!({ "path": null })).is_err());
    /// # Ok::<(), lmcp_schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Schema::validate`], for the value after all changes.
    pub fn mend(&self, mut instance: Value, aliases: &Aliases) -> Result<Value, Mismatches> {
        let mut mender = Mender {
            run: Run::new(self.nodes()),
            aliases,
            depth: 0,
            looks_left: MAX_LOOKS,
            twice: Vec::new(),
        };
        mender.value(ROOT, &mut instance);
        let twice = mender.twice;
        match self.validate(&instance) {
            Ok(()) => Ok(instance),
            Err(mut wrong) => {
                wrong
                    .0
                    .iter_mut()
                    .for_each(|wrong| name_both(wrong, &twice));
                Err(wrong)
            }
        }
    }
}

struct Mender<'s> {
    /// Bounds the work. When it gives up, nothing more is changed.
    run: Run<'s>,
    aliases: &'s Aliases,
    depth: usize,
    /// The number of refused names that may still be looked up.
    looks_left: usize,
    twice: Vec<Twice>,
}

/// A member that was sent under two names, with different values.
struct Twice {
    /// The name that is refused.
    key: String,
    /// The other name, as it was sent.
    taken: String,
}

/// Replaces the words of a mismatch at a refused name: they tell which other name means the same.
fn name_both(wrong: &mut Mismatch, twice: &[Twice]) {
    let is_here = |twice: &&Twice| {
        let mut end = String::new();
        pointer::push(&mut end, &twice.key);
        wrong.path.ends_with(&end)
    };
    if let Some(Twice { key, taken }) = twice.iter().find(is_here) {
        let words = "mean the same, and their values differ";
        wrong.say(format_args!("and `{taken}` {words}; drop `{key}`"));
    }
}

impl Mender<'_> {
    fn value(&mut self, node: NodeId, value: &mut Value) {
        if self.depth == MAX_DEPTH || self.run.quietly(node, value) {
            return;
        }
        self.depth += 1;
        if let Some(read) = self.out_of_text(node, value) {
            *value = read;
        } else if let Some(list) = self.list_of_one(node, value) {
            *value = list;
        } else {
            for check in &self.run.nodes()[node] {
                self.check(node, check, value);
            }
        }
        self.depth -= 1;
    }

    fn check(&mut self, node: NodeId, check: &Check, value: &mut Value) {
        match (check, value) {
            (Check::Ref(other), value) => self.value(*other, value),
            (Check::All(nodes), value) => nodes.iter().for_each(|node| self.value(*node, value)),
            (Check::Any(nodes) | Check::One(nodes), value) => self.alternative(nodes, value),
            (Check::Object(ObjectCheck::Properties(schema)), Value::Object(members)) => {
                self.members(node, schema, members);
            }
            (Check::Array(ArrayCheck::Items { prefix, rest }), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(node) = prefix.get(index).copied().or(*rest) {
                        self.value(node, item);
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads a value as the first alternative that fits after a change.
    fn alternative(&mut self, nodes: &[NodeId], value: &mut Value) {
        if nodes.iter().any(|node| self.run.quietly(*node, value)) {
            return;
        }
        for node in nodes {
            if !self.run.spend(size(value)) {
                return;
            }
            let mut meant = value.clone();
            self.value(*node, &mut meant);
            if self.run.quietly(*node, &meant) {
                *value = meant;
                return;
            }
        }
    }

    fn members(&mut self, node: NodeId, schema: &Properties, members: &mut Object) {
        self.leave_out(node, schema, members);
        self.rename(schema, members);
        // Some members have their right name only now.
        self.leave_out(node, schema, members);
        for (key, value) in members.iter_mut() {
            if let Some(node) = schema.named(key).or(schema.rest) {
                self.value(node, value);
            }
        }
    }

    /// Removes optional members whose empty value the schema refuses.
    fn leave_out(&mut self, node: NodeId, schema: &Properties, members: &mut Object) {
        let is_required = |key: &str, run: &Run<'_>| {
            run.nodes()[node].iter().any(|check| match check {
                Check::Object(ObjectCheck::Required(names)) => {
                    names.iter().any(|name| **name == *key)
                }
                _ => false,
            })
        };
        members.retain(|key, value| {
            let refused = schema.named(key).is_some_and(|node| {
                let is_nothing = is_empty(value) || is_zero(value) && self.wants(node, &0.into());
                is_nothing && !self.run.quietly(node, value)
            });
            !refused || is_required(key, &self.run)
        });
    }

    /// Renames members whose names are refused, if it is clear which names were meant.
    fn rename(&mut self, schema: &Properties, members: &mut Object) {
        // The new names of renamed members, with their former names.
        let mut sent: Vec<(String, String)> = Vec::new();
        let mut twice = Vec::new();
        let is_closed = |node: Option<NodeId>| node.is_some_and(|node| self.run.is_closed(node));
        let is_refused = |key: &str| match schema.named(key) {
            Some(node) => is_closed(Some(node)),
            None => {
                let matches = schema
                    .patterns
                    .iter()
                    .any(|(pattern, _)| pattern.is_match(key));
                is_closed(schema.rest) && !matches
            }
        };
        let refused: Vec<String> = members
            .keys()
            .filter(|key| is_refused(key))
            .cloned()
            .collect();
        let looks = refused.len().min(MAX_RENAMED).min(self.looks_left);
        self.looks_left -= looks;
        for key in refused.into_iter().take(looks) {
            let open = |name: &&str| {
                schema
                    .named(name)
                    .is_some_and(|node| !is_closed(Some(node)))
            };
            let known = schema.named.iter().map(|(name, _)| &**name);
            let same = known.filter(|name| nearest::is_same(name, &key));
            let meant = same.chain(self.aliases.meant_by(&key)).find(open);
            // Under another name, an empty value means as little as `null`: a caller that must fill all names that it knows
            // sends it.
            let is_right = |name: &str| *name != *key && !sent.iter().any(|(now, _)| now == name);
            let said = |name: &str| {
                let is_nothing = |value: &Value| match is_right(name) {
                    true => value.is_null(),
                    false => is_empty(value),
                };
                members.get(name).filter(|value| !is_nothing(value))
            };
            let is_taken = meant.is_some_and(|name| said(name).is_some());
            let is_there = |name: &str| members.get(name).is_some_and(|value| !value.is_null());
            match meant {
                Some(name) if is_there(name) && said(&key).is_none() => drop(members.remove(&key)),
                // If the values are equal, one can be dropped. If they differ, the schema refuses the member.
                Some(name) if is_taken && said(name) != said(&key) => {
                    let was = sent.iter().rev().find(|(now, _)| now == name);
                    let taken = was.map_or(name, |(_, was)| was).to_owned();
                    twice.push(Twice { key, taken });
                }
                Some(_) if is_taken => drop(members.remove(&key)),
                Some(name) => {
                    let value = members.remove(&key).unwrap_or_default();
                    members.insert(name.to_owned(), value);
                    sent.push((name.to_owned(), key));
                }
                None if self.aliases.drops(&key) => drop(members.remove(&key)),
                None => {}
            }
        }
        let room = MAX_RENAMED.saturating_sub(self.twice.len());
        self.twice.extend(twice.into_iter().take(room));
    }

    /// Returns a list with this one value, if a list is wanted.
    fn list_of_one(&mut self, node: NodeId, value: &Value) -> Option<Value> {
        if value.is_array() || value.is_null() || !self.wants(node, &Value::Array(Vec::new())) {
            return None;
        }
        if !self.run.spend(size(value)) {
            return None;
        }
        let mut list = Value::Array(vec![value.clone()]);
        self.value(node, &mut list);
        let wanted = list.is_array() && self.run.quietly(node, &list);
        wanted.then_some(list)
    }

    /// Whether a value of this type is wanted.
    fn wants(&self, node: NodeId, value: &Value) -> bool {
        self.run.nodes()[node].iter().any(|check| match check {
            Check::Type(types) => types.accepts(value),
            Check::Ref(node) => self.wants(*node, value),
            Check::Any(nodes) | Check::One(nodes) => {
                nodes.iter().any(|node| self.wants(*node, value))
            }
            _ => false,
        })
    }

    /// Parses a text as JSON, if a value of another type is wanted and the parsed value fits.
    fn out_of_text(&mut self, node: NodeId, value: &Value) -> Option<Value> {
        let text = value.as_str()?.trim();
        if text.len() > MAX_JSON || !self.run.spend(1 + text.len()) {
            return None;
        }
        let mut read: Value = match text {
            "True" => true.into(),
            "False" => false.into(),
            _ => serde_json::from_str(text).ok()?,
        };
        if read.is_string() {
            return None;
        }
        self.value(node, &mut read);
        self.run.quietly(node, &read).then_some(read)
    }
}

/// Whether this is an empty value, or `null`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether this is zero, perhaps as text. A caller sends it that must send some number.
fn is_zero(value: &Value) -> bool {
    let number = match value {
        Value::String(text) if text.len() <= 8 => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    number == Some(0.0)
}

/// Returns the cost of copying a value, in steps.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / 16,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(|value| 1 + size(value)).sum::<usize>(),
    }
}

/// The most levels that are changed. Deeper values stay as they are.
const MAX_DEPTH: usize = 128;
/// The most members of one object that are renamed.
const MAX_RENAMED: usize = 64;

/// The most members of a whole value that are renamed: a list of many objects with one wrong name each would keep other callers
/// waiting.
const MAX_LOOKS: usize = 1024;
/// The most bytes of a text that is parsed as JSON. The parsed value may be fifty times as large.
const MAX_JSON: usize = 64 << 10;
