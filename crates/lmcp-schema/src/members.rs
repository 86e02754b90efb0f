//! Checks the contents of arrays and objects.

use serde_json::Value;

use crate::{
    evaluated::Part,
    mismatch::{Mismatch, Path},
    nearest::nearest,
    node::{ArrayCheck, Check, Node, NodeId, ObjectCheck, Properties},
    number,
    read::Object,
    text,
    validate::{Run, text_cost},
};

impl Run<'_> {
    pub(crate) fn array(&mut self, check: &ArrayCheck, value: &Value, at: &Path<'_>) -> bool {
        let Value::Array(items) = value else {
            return true;
        };
        match check {
            ArrayCheck::Items { prefix, rest } => self.items(prefix, *rest, items, at),
            ArrayCheck::Contains { node, least, most } => {
                let hits = items
                    .iter()
                    .filter(|item| self.quietly(*node, item))
                    .count() as u64;
                let (words, count) = match most {
                    _ if hits < *least => ("at least", least),
                    Some(most) if hits > *most => ("at most", most),
                    Some(_) | None => return true,
                };
                let items = if *count == 1 { "item" } else { "items" };
                let expected = format_args!("{words} {count} {items} that `contains` describes");
                self.expected(at, expected, hits)
            }
            ArrayCheck::Unique => {
                self.spend(items.len());
                number::duplicate(items).is_none_or(|(one, two)| {
                    let got = format_args!("equal items {one} and {two}");
                    self.expected(at, "items that differ", got)
                })
            }
            ArrayCheck::Unevaluated { owner, rest } => {
                self.every(items.iter().enumerate(), |run, (index, item)| {
                    run.evaluates(*owner, *owner, value, Part::Index(index))
                        || run.node(*rest, item, &Path::Index(at, index))
                })
            }
        }
    }

    pub(crate) fn object(&mut self, check: &ObjectCheck, value: &Value, at: &Path<'_>) -> bool {
        let Value::Object(object) = value else {
            return true;
        };
        let has = |name: &str| object.contains_key(name);
        match check {
            ObjectCheck::Properties(schema) => self.every(object.iter(), |run, (key, value)| {
                run.property(schema, object, key, value, at)
            }),
            ObjectCheck::Names(node) => self.every(object.keys(), |run, key| {
                run.name(*node, key, &Path::Key(at, key))
            }),
            ObjectCheck::Required(names) => self.every(names.iter(), |run, name| {
                has(name) || run.says(&Path::Key(at, name), "is required")
            }),
            ObjectCheck::DependentRequired(trigger, _) if !has(trigger) => true,
            ObjectCheck::DependentRequired(trigger, names) => {
                self.every(names.iter(), |run, name| {
                    let trigger = text::shorten(trigger, text::MAX_SHOWN);
                    let sentence = format_args!("is required because `{trigger}` is given");
                    has(name) || run.says(&Path::Key(at, name), sentence)
                })
            }
            ObjectCheck::DependentSchema(trigger, node) => {
                !has(trigger) || self.node(*node, value, at)
            }
            ObjectCheck::Unevaluated { owner, rest } => {
                self.every(object.iter(), |run, (key, part)| {
                    let at = Path::Key(at, key);
                    if run.evaluates(*owner, *owner, value, Part::Key(key)) {
                        true
                    } else if run.is_closed(*rest) {
                        run.says(&at, "is not known")
                    } else {
                        run.node(*rest, part, &at)
                    }
                })
            }
        }
    }

    fn items(
        &mut self,
        prefix: &[NodeId],
        rest: Option<NodeId>,
        items: &[Value],
        at: &Path<'_>,
    ) -> bool {
        let most = prefix.len();
        if items.len() > most && rest.is_some_and(|rest| self.is_closed(rest)) {
            return self.expected(at, format_args!("at most {most} items"), items.len());
        }
        self.every(items.iter().enumerate(), |run, (index, item)| {
            let node = prefix.get(index).copied().or(rest);
            node.is_none_or(|node| run.node(node, item, &Path::Index(at, index)))
        })
    }

    fn property(
        &mut self,
        schema: &Properties,
        object: &Object,
        key: &str,
        value: &Value,
        at: &Path<'_>,
    ) -> bool {
        let at = Path::Key(at, key);
        let named = schema.named(key);
        let mut known = named.is_some();
        let mut holds = named.is_none_or(|node| self.node(node, value, &at));
        self.spend(schema.patterns.len() * (1 + text_cost(key)));
        for (pattern, node) in &schema.patterns {
            if pattern.is_match(key) {
                known = true;
                holds &= self.node(*node, value, &at);
            }
        }
        match schema.rest {
            Some(rest) if !known && self.is_closed(rest) => {
                let nodes = self.nodes();
                self.fail(|| unknown(nodes, schema, object, key, &at))
            }
            Some(rest) if !known => self.node(rest, value, &at),
            Some(_) | None => holds,
        }
    }

    /// Checks the name of a property. `at` is the place of the property.
    fn name(&mut self, node: NodeId, key: &str, at: &Path<'_>) -> bool {
        let name = Value::from(key);
        if self.quietly(node, &name) {
            return true;
        }
        let (_, found) = self.listening(|run| run.node(node, &name, &Path::Root));
        let why = found
            .first()
            .map_or("", |why| why.message.trim_start_matches("`/`"));
        self.says(at, format_args!("has a name that is not allowed{why}"))
    }

    /// Whether the node is the schema `false`.
    pub(crate) fn is_closed(&self, node: NodeId) -> bool {
        is_never(&self.nodes()[node])
    }
}

fn is_never(node: &Node) -> bool {
    matches!(**node, [Check::Never])
}

fn unknown(
    nodes: &[Node],
    schema: &Properties,
    object: &Object,
    key: &str,
    at: &Path<'_>,
) -> Mismatch {
    // A property that is never allowed is no useful hint.
    let allowed = |(_, node): &&(Box<str>, NodeId)| !is_never(&nodes[*node]);
    let names = || schema.named.iter().filter(allowed).map(|(name, _)| &**name);
    if let Some(name) = nearest(key, names().filter(|name| !object.contains_key(*name))) {
        return Mismatch::says(at, format_args!("is not known; did you mean `{name}`?"));
    }
    if names().next().is_none() {
        return Mismatch::says(at, "is not known");
    }
    let quoted = names().map(|name| format!("`{}`", text::shorten(name, text::MAX_SHOWN)));
    let known = text::list(&quoted.collect::<Vec<_>>());
    Mismatch::says(at, format_args!("is not known; known: {known}"))
}
