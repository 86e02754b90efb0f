//! Compiles a JSON value: walks over all subschemas, resolves references, and checks the bounds.
//!
//! The meaning of each keyword is in `keywords`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    error::SchemaError,
    node::{Check, Node, NodeId},
    pointer::{self, Reference},
    text,
};

/// The revision of JSON Schema that a document is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Draft7,
    Draft2020,
}

/// The state of compiling one document.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    root: &'a Value,
    pub(crate) dialect: Dialect,
    nodes: Vec<Node>,
    /// Every schema seen so far, by its pointer.
    places: BTreeMap<String, NodeId>,
    /// The pointer that each anchor stands for.
    pub(crate) anchors: BTreeMap<&'a str, String>,
    /// The pointer and the text of each `$ref`. Until all are resolved, [`Check::Ref`] is an index into this list.
    refs: Vec<(String, &'a str)>,
    /// The pointer of the schema that is being read.
    pub(crate) at: String,
    /// Whether headers may mirror values. Only the schema of a tool's arguments has that.
    pub(crate) has_headers: bool,
    depth: usize,
}

impl<'a> Compiler<'a> {
    pub(crate) fn for_any(root: &'a Value) -> Result<Self, SchemaError> {
        Ok(Self {
            root,
            dialect: Dialect::of(root)?,
            nodes: Vec::new(),
            places: BTreeMap::new(),
            anchors: BTreeMap::new(),
            refs: Vec::new(),
            at: String::new(),
            has_headers: false,
            depth: 0,
        })
    }

    pub(crate) fn for_input(root: &'a Value) -> Result<Self, SchemaError> {
        Ok(Self {
            has_headers: true,
            ..Self::for_any(root)?
        })
    }

    pub(crate) fn run(mut self) -> Result<Box<[Node]>, SchemaError> {
        self.schema(self.root)?;
        let mut targets = Vec::new();
        // A reference may lead to a place that no keyword leads to. That place is then read as a schema, and may add
        // references.
        while let Some((at, reference)) = self.refs.get(targets.len()) {
            let (pointer, value) = self.resolve(at, reference)?;
            self.at = pointer;
            targets.push(self.schema(value)?);
        }
        for check in self.nodes.iter_mut().flatten() {
            if let Check::Ref(node) = check {
                *node = targets[*node];
            }
        }
        self.refuse_loops()?;
        Ok(self.nodes.into())
    }

    /// Compiles the value at `tokens` below the current schema.
    pub(crate) fn child(
        &mut self,
        tokens: &[&str],
        value: &'a Value,
    ) -> Result<NodeId, SchemaError> {
        let length = self.at.len();
        for token in tokens {
            pointer::push(&mut self.at, token);
        }
        self.depth += 1;
        let node = self.schema(value)?;
        self.depth -= 1;
        self.at.truncate(length);
        Ok(node)
    }

    pub(crate) fn reference(&mut self, text: &'a str) -> Check {
        self.refs.push((format!("{}/$ref", self.at), text));
        Check::Ref(self.refs.len() - 1)
    }

    /// Makes the error about the value at `tokens` below the current schema.
    pub(crate) fn refuse<T>(
        &self,
        tokens: &[&str],
        rule: impl Into<String>,
    ) -> Result<T, SchemaError> {
        let mut at = self.at.clone();
        tokens
            .iter()
            .for_each(|token| pointer::push(&mut at, token));
        Err(SchemaError::new(at, rule))
    }

    fn schema(&mut self, value: &'a Value) -> Result<NodeId, SchemaError> {
        if let Some(node) = self.places.get(&self.at) {
            return Ok(*node);
        }
        if self.depth > MAX_NESTING {
            return self.refuse(&[], format!("schemas nest more than {MAX_NESTING} deep"));
        }
        if self.nodes.len() == MAX_SUBSCHEMAS {
            return self.refuse(
                &[],
                format!("there are more than {MAX_SUBSCHEMAS} subschemas"),
            );
        }
        let node = self.nodes.len();
        self.nodes.push(Node::default());
        self.places.insert(self.at.clone(), node);
        let mut checks = Vec::new();
        match value {
            Value::Bool(true) => {}
            Value::Bool(false) => checks.push(Check::Never),
            Value::Object(object) => self.keywords(object, node, &mut checks)?,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let found = text::shown(value);
                return self.refuse(
                    &[],
                    format!("a schema is an object or a boolean, found {found}"),
                );
            }
        }
        self.nodes[node] = checks.into();
        Ok(node)
    }

    fn resolve(&self, at: &str, reference: &str) -> Result<(String, &'a Value), SchemaError> {
        let target = match Reference::parse(reference) {
            Reference::Pointer(pointer) => Ok(pointer),
            Reference::Anchor(name) => self
                .anchors
                .get(name)
                .cloned()
                .ok_or("is no anchor of this schema"),
            Reference::Remote => Err(REMOTE),
            Reference::Malformed => Err("has percent-escapes that are no text"),
        };
        let target = target.and_then(|pointer| match self.root.pointer(&pointer) {
            Some(value) => Ok((pointer, value)),
            None => Err("leads to nothing in this schema"),
        });
        let shown = text::shorten(reference, text::MAX_SHOWN);
        target.map_err(|rule| SchemaError::new(at, format!("`{shown}` {rule}")))
    }

    /// Refuses a schema that comes back to itself on the same value: its validation would never end.
    fn refuse_loops(&self) -> Result<(), SchemaError> {
        let mut heights = vec![Height::Unknown; self.nodes.len()];
        for node in 0..self.nodes.len() {
            self.height(node, 0, &mut heights)?;
        }
        Ok(())
    }

    /// Returns how many nodes follow one another on the same value, starting with this one.
    fn height(
        &self,
        node: NodeId,
        above: usize,
        heights: &mut [Height],
    ) -> Result<usize, SchemaError> {
        let height = match heights[node] {
            Height::Known(height) => height,
            Height::Unknown => 1,
            Height::Open => return Err(self.error_of(node, LOOP)),
        };
        if above + height > MAX_CHAIN {
            return Err(self.error_of(node, CHAIN));
        }
        if matches!(heights[node], Height::Known(_)) {
            return Ok(height);
        }
        heights[node] = Height::Open;
        let mut height = 1;
        for next in self.nodes[node].iter().flat_map(Check::in_place) {
            height = height.max(1 + self.height(next, above + 1, heights)?);
        }
        heights[node] = Height::Known(height);
        Ok(height)
    }

    fn error_of(&self, node: NodeId, rule: &str) -> SchemaError {
        let mut places = self.places.iter();
        let pointer = places.find_map(|(pointer, place)| (*place == node).then_some(&**pointer));
        SchemaError::new(pointer.unwrap_or_default(), rule)
    }
}

impl Dialect {
    /// Returns the dialect that a document declares.
    fn of(root: &Value) -> Result<Self, SchemaError> {
        let Some(declared) = root.get("$schema") else {
            return Ok(Self::Draft2020);
        };
        Self::declared(declared).ok_or_else(|| {
            let shown = text::shown(declared);
            let rule = format!("dialect {shown} is not supported; {DIALECTS} are");
            SchemaError::new("/$schema", rule)
        })
    }

    pub(crate) fn declared(value: &Value) -> Option<Self> {
        match value.as_str()?.trim_end_matches('#').split_once("://")? {
            ("http" | "https", "json-schema.org/draft/2020-12/schema") => Some(Self::Draft2020),
            ("http" | "https", "json-schema.org/draft-07/schema") => Some(Self::Draft7),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Height {
    Unknown,
    /// The height is being computed. If the node is met again, there is a loop.
    Open,
    Known(usize),
}

/// The most levels of schemas inside each other. JSON text is read to a depth of 128, and a property takes two levels of it.
const MAX_NESTING: usize = 64;
/// The most subschemas of one schema. The largest published tools have some hundreds.
const MAX_SUBSCHEMAS: usize = 4096;
/// The most nodes that follow one another on one value. This bounds the stack that validation needs per level of the value.
const MAX_CHAIN: usize = 64;
const DIALECTS: &str = "2020-12 (the default) and draft-07";
const REMOTE: &str =
    "is a remote reference; only references inside the schema (`#/…`) are resolved";
const LOOP: &str = "the schema refers to itself without going into the value";
const CHAIN: &str = "too many references and combinations follow one another on the same value";
