//! Replaces references by the schemas that they stand for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    normalise::{is_annotation, subschemas},
    pointer::{self, Reference},
    read::Object,
};

/// Whether the value has references, or definitions to refer to. All members are searched, also those that are no schemas.
pub(crate) fn has_references(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            name.starts_with('$') || name == "definitions" || has_references(value)
        }),
        Value::Array(items) => items.iter().any(has_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Replaces references inside the schema, except those that lead back to themselves.
pub(crate) fn inline(mut schema: Value) -> Value {
    let source = schema.clone();
    let mut inliner = Inliner {
        source: &source,
        recursive: BTreeMap::new(),
        left: MAX_INLINED,
    };
    inliner.expand(&mut schema);
    if inliner.left == 0 { source } else { schema }
}

/// Adds the assertions of `other` to a schema. The schema's own annotations have precedence.
pub(crate) fn absorb(schema: &mut Object, other: Value) {
    match other {
        Value::Bool(true) => {}
        Value::Object(other) if schema.keys().all(|keyword| is_annotation(keyword)) => {
            for (keyword, value) in other {
                schema.entry(keyword).or_insert(value);
            }
        }
        // The two sets of keywords could disturb each other.
        other => match schema.entry("allOf").or_insert_with(|| json!([])) {
            Value::Array(all) => all.push(other),
            malformed => *malformed = json!([other]),
        },
    }
}

/// Removes the definitions that nothing refers to.
pub(crate) fn drop_unused(schema: &mut Value) {
    let mut outside = schema.clone();
    if let Value::Object(outside) = &mut outside {
        KEYWORDS
            .iter()
            .for_each(|keyword| drop(outside.remove(*keyword)));
    }
    let used = reachable(schema, &outside);
    let Value::Object(root) = schema else { return };
    for keyword in KEYWORDS {
        let Some(Value::Object(definitions)) = root.get_mut(keyword) else {
            continue;
        };
        definitions.retain(|name, _| {
            let mut place = format!("/{keyword}");
            pointer::push(&mut place, name);
            used.iter().any(|reference| leads_into(reference, &place))
        });
        if definitions.is_empty() {
            root.remove(keyword);
        }
    }
}

struct Inliner<'a> {
    /// The schema before any change. Pointers name places in it.
    source: &'a Value,
    /// Whether a reference leads back to itself, for each reference.
    recursive: BTreeMap<String, bool>,
    left: usize,
}

impl Inliner<'_> {
    fn expand(&mut self, schema: &mut Value) {
        let Value::Object(schema) = schema else {
            return;
        };
        while let Some(target) = self.target(schema) {
            schema.remove("$ref");
            absorb(schema, target);
        }
        subschemas(schema, &mut |schema| self.expand(schema));
    }

    /// Returns the schema that replaces this schema's reference.
    fn target(&mut self, schema: &Object) -> Option<Value> {
        let reference = schema.get("$ref")?.as_str()?;
        let target = pointer::follow(self.source, reference)?;
        let source = self.source;
        let recursive = self
            .recursive
            .entry(reference.to_owned())
            .or_insert_with(|| reachable(source, target).contains(reference));
        if *recursive || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(target.clone())
    }
}

/// Returns all references that can be reached from a value.
fn reachable(source: &Value, from: &Value) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = references(from);
    while let Some(reference) = open.pop() {
        // The root contains everything, and where it matters the search starts from there.
        let target = pointer::follow(source, &reference).filter(|_| reference != "#");
        if seen.insert(reference) {
            open.extend(target.map(references).unwrap_or_default());
        }
    }
    seen
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(object) => {
            let own = object
                .get("$ref")
                .and_then(Value::as_str)
                .map(str::to_owned);
            own.into_iter()
                .chain(object.values().flat_map(references))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn leads_into(reference: &str, place: &str) -> bool {
    match Reference::parse(reference) {
        Reference::Pointer(pointer) => pointer
            .strip_prefix(place)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        // An anchor may be at any place.
        Reference::Anchor(_) => true,
        Reference::Remote | Reference::Malformed => false,
    }
}

const KEYWORDS: [&str; 2] = ["$defs", "definitions"];
/// The most references that are replaced in one schema: definitions that use each other twice would double it at every step.
const MAX_INLINED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn inlined(schema: Value) -> Value {
        let mut schema = inline(schema);
        drop_unused(&mut schema);
        schema
    }

    #[test]
    fn references_are_replaced_and_annotations_beside_them_win() {
        let schema = json!({
            "properties": { "a": { "$ref": "#/$defs/A", "description": "outer" }, "b": { "$ref": "#/$defs/B" } },
            "$defs": { "A": { "type": "string", "description": "inner" }, "B": { "items": { "$ref": "#/$defs/A" } } },
        });
        let expected = json!({ "properties": {
            "a": { "type": "string", "description": "outer" },
            "b": { "items": { "type": "string", "description": "inner" } },
        }});
        assert_eq!(inlined(schema), expected);
    }

    #[test]
    fn assertions_beside_a_reference_are_kept_apart() {
        let schema = json!({ "properties": { "a": {} }, "$ref": "#/$defs/A", "$defs": { "A": { "additionalProperties": false } } });
        assert_eq!(
            inlined(schema),
            json!({ "properties": { "a": {} }, "allOf": [{ "additionalProperties": false }] })
        );
    }

    #[test]
    fn recursive_references_keep_their_definitions_and_only_those() {
        let schema = json!({
            "properties": { "tree": { "$ref": "#/$defs/Tree" }, "leaf": { "$ref": "#/$defs/Leaf" } },
            "$defs": {
                "Tree": { "properties": { "kids": { "items": { "$ref": "#/$defs/Tree" } }, "leaf": { "$ref": "#/$defs/Leaf" } } },
                "Leaf": { "type": "string" },
                "Unused": { "$ref": "#/$defs/Tree" },
            },
        });
        let expected = json!({
            "properties": { "tree": { "$ref": "#/$defs/Tree" }, "leaf": { "type": "string" } },
            "$defs": { "Tree": { "properties": { "kids": { "items": { "$ref": "#/$defs/Tree" } }, "leaf": { "type": "string" } } } },
        });
        assert_eq!(inlined(schema), expected);
        let root = json!({ "properties": { "kids": { "items": { "$ref": "#" } } }, "$defs": { "Unused": true } });
        assert_eq!(
            inlined(root),
            json!({ "properties": { "kids": { "items": { "$ref": "#" } } } })
        );
    }

    #[test]
    fn a_schema_that_would_explode_is_left_alone() {
        let mut definitions = Object::new();
        for n in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
            definitions.insert(
                n.to_string(),
                json!({ "properties": { "a": next, "b": next } }),
            );
        }
        definitions.insert("30".to_owned(), json!({ "type": "string" }));
        let schema = json!({ "$ref": "#/$defs/0", "$defs": definitions });
        assert_eq!(inlined(schema.clone()), schema);
    }
}
