//! The compiled form of a schema: an arena of nodes, each a list of checks.

use std::fmt;

use regex_lite::Regex;
use serde_json::{Number, Value};

use crate::{number, text};

/// The checks that a value has to pass. The schema `true` has none.
pub(crate) type Node = Box<[Check]>;

/// The index of a node in its schema.
pub(crate) type NodeId = usize;

/// The node where validation starts.
pub(crate) const ROOT: NodeId = 0;

/// One assertion, or several that only make sense together.
#[derive(Debug)]
pub(crate) enum Check {
    /// The schema `false`.
    Never,
    Type(Types),
    /// `enum`, and `const` as an `enum` of one.
    Values(Box<[Value]>),
    Size(Measure, Limit, u64),
    Scalar(ScalarCheck),
    Array(ArrayCheck),
    Object(ObjectCheck),
    All(Box<[NodeId]>),
    Any(Box<[NodeId]>),
    One(Box<[NodeId]>),
    Not(NodeId),
    /// `if`, `then` and `else`.
    If(NodeId, Option<NodeId>, Option<NodeId>),
    /// A reference. Until the whole schema is read, the number is an index into the compiler's list of references.
    Ref(NodeId),
}

impl Check {
    /// The nodes that check the same value as this check.
    pub(crate) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::All(nodes) | Self::Any(nodes) | Self::One(nodes) => nodes.to_vec(),
            Self::Not(node)
            | Self::Ref(node)
            | Self::Object(ObjectCheck::DependentSchema(_, node)) => vec![*node],
            Self::If(test, then, or_else) => [Some(*test), *then, *or_else]
                .into_iter()
                .flatten()
                .collect(),
            Self::Never | Self::Type(_) | Self::Values(_) | Self::Size(..) => Vec::new(),
            Self::Scalar(_) | Self::Array(_) | Self::Object(_) => Vec::new(),
        }
    }
}

/// A check only for numbers or only for strings.
#[derive(Debug)]
pub(crate) enum ScalarCheck {
    MultipleOf(Number),
    Minimum(Number),
    Maximum(Number),
    ExclusiveMinimum(Number),
    ExclusiveMaximum(Number),
    Pattern(Regex),
}

/// A check only for arrays.
#[derive(Debug)]
pub(crate) enum ArrayCheck {
    /// `prefixItems` and `items`.
    Items {
        prefix: Box<[NodeId]>,
        rest: Option<NodeId>,
    },
    Contains {
        node: NodeId,
        least: u64,
        most: Option<u64>,
    },
    Unique,
    /// `owner` is the node that contains this check.
    Unevaluated {
        owner: NodeId,
        rest: NodeId,
    },
}

/// A check only for objects.
#[derive(Debug)]
pub(crate) enum ObjectCheck {
    /// `properties`, `patternProperties` and `additionalProperties`.
    Properties(Properties),
    Names(NodeId),
    Required(Box<[Box<str>]>),
    DependentRequired(Box<str>, Box<[Box<str>]>),
    DependentSchema(Box<str>, NodeId),
    /// `owner` is the node that contains this check.
    Unevaluated {
        owner: NodeId,
        rest: NodeId,
    },
}

#[derive(Debug)]
pub(crate) struct Properties {
    /// Sorted by name.
    pub(crate) named: Box<[(Box<str>, NodeId)]>,
    pub(crate) patterns: Box<[(Regex, NodeId)]>,
    pub(crate) rest: Option<NodeId>,
}

impl Properties {
    pub(crate) fn named(&self, name: &str) -> Option<NodeId> {
        let index = self
            .named
            .binary_search_by(|(other, _)| (**other).cmp(name))
            .ok()?;
        Some(self.named[index].1)
    }
}

/// The thing that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    Characters,
    Items,
    Properties,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast,
    AtMost,
}

/// A set of JSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Self = Self(0);

    /// Returns the type of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        TYPE_NAMES
            .iter()
            .position(|known| *known == name)
            .map(|bit| Self(1 << bit))
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn accepts(self, value: &Value) -> bool {
        let mask = match value {
            Value::Null => 1,
            Value::Bool(_) => 1 << 1,
            Value::Number(number) if number::is_integer(number) => 1 << 2 | 1 << 3,
            Value::Number(_) => 1 << 3,
            Value::String(_) => 1 << 4,
            Value::Array(_) => 1 << 5,
            Value::Object(_) => 1 << 6,
        };
        self.0 & mask != 0
    }
}

impl fmt::Display for Types {
    /// Writes `null` only if it is the only type: a caller that wants to send nothing leaves the value out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = if self.0 > 1 { self.0 & !1 } else { self.0 };
        let names: Vec<_> = (0..TYPE_NAMES.len())
            .filter(|bit| named & 1 << bit != 0)
            .map(|bit| TYPE_NAMES[bit])
            .collect();
        f.write_str(&text::either(&names))
    }
}

/// The names of the types, in the order of their bits.
pub(crate) const TYPE_NAMES: [&str; 7] = [
    "null", "boolean", "integer", "number", "string", "array", "object",
];
