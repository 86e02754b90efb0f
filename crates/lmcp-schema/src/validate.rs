//! Checks a value against a compiled schema.
//!
//! One walk answers two questions: whether the value is valid (this stops at the first mismatch, and allocates nothing), and
//! what is wrong with it (this goes on, and writes sentences). Work and depth are bounded for every schema and every value. The
//! contents of arrays and objects are checked in `members`.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

use crate::{
    explain,
    mismatch::{Mismatch, Mismatches, Path},
    node::{Check, Limit, Measure, Node, NodeId, ScalarCheck},
    number,
    text::{self, Shown},
};

/// One walk over one value.
pub(crate) struct Run<'s> {
    nodes: &'s [Node],
    /// Collects mismatches. `None` while only the answer is wanted.
    found: Option<Vec<Mismatch>>,
    steps_left: usize,
    depth: usize,
    /// Set when a bound is reached. The answer is then no, even if a `not` has inverted it on the way up.
    gave_up: Option<&'static str>,
}

impl<'s> Run<'s> {
    pub(crate) fn new(nodes: &'s [Node]) -> Self {
        Self {
            nodes,
            found: None,
            steps_left: MAX_STEPS,
            depth: 0,
            gave_up: None,
        }
    }

    pub(crate) fn holds(mut self, node: NodeId, value: &Value) -> bool {
        self.node(node, value, &Path::Root) && self.gave_up.is_none()
    }

    pub(crate) fn explain(mut self, node: NodeId, value: &Value) -> Mismatches {
        let (_, mut found) = self.listening(|run| run.node(node, value, &Path::Root));
        if let Some(why) = self.gave_up {
            found.insert(0, Mismatch::says(&Path::Root, why));
        }
        found.truncate(MAX_MISMATCHES);
        Mismatches(found)
    }

    pub(crate) fn node(&mut self, node: NodeId, value: &Value, at: &Path<'_>) -> bool {
        if self.depth == MAX_DEPTH {
            self.gave_up
                .get_or_insert("cannot be checked: the schema nests too deeply");
        }
        let cost = 1 + value.as_str().map_or(0, text_cost);
        if !self.spend(cost) {
            return false;
        }
        self.depth += 1;
        let nodes = self.nodes;
        let mut holds = true;
        for check in &nodes[node] {
            if self.check(check, value, at) {
                continue;
            }
            holds = false;
            // Further mismatches of a value of the wrong type would not help.
            if self.is_done() || matches!(check, Check::Type(_) | Check::Values(_)) {
                break;
            }
        }
        self.depth -= 1;
        holds
    }

    /// Returns only the answer, without collecting mismatches.
    pub(crate) fn quietly(&mut self, node: NodeId, value: &Value) -> bool {
        let found = self.found.take();
        let holds = self.node(node, value, &Path::Root);
        self.found = found;
        holds
    }

    /// Returns the answer and the mismatches on the way. They are not added to the outer list.
    pub(crate) fn listening<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> (T, Vec<Mismatch>) {
        let outer = self.found.replace(Vec::new());
        let answer = walk(self);
        let found = std::mem::replace(&mut self.found, outer);
        (answer, found.unwrap_or_default())
    }

    /// Whether the check holds for every part. Goes on after a mismatch if more are wanted.
    pub(crate) fn every<T>(
        &mut self,
        parts: impl Iterator<Item = T>,
        mut holds: impl FnMut(&mut Self, T) -> bool,
    ) -> bool {
        let mut all = true;
        for part in parts {
            all &= holds(self, part);
            if !all && self.is_done() {
                break;
            }
        }
        all
    }

    /// Notes a mismatch, if mismatches are collected.
    pub(crate) fn fail(&mut self, mismatch: impl FnOnce() -> Mismatch) -> bool {
        if let Some(found) = &mut self.found
            && found.len() < MAX_MISMATCHES
        {
            found.push(mismatch());
        }
        false
    }

    /// Notes [`Mismatch::says`], if mismatches are collected.
    pub(crate) fn says(&mut self, at: &Path<'_>, sentence: impl fmt::Display) -> bool {
        self.fail(|| Mismatch::says(at, sentence))
    }

    /// Notes [`Mismatch::expected`], if mismatches are collected.
    pub(crate) fn expected(
        &mut self,
        at: &Path<'_>,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> bool {
        self.fail(|| Mismatch::expected(at, expected, got))
    }

    /// Pays for work that grows with both schema and value. `false` if no steps are left.
    pub(crate) fn spend(&mut self, steps: usize) -> bool {
        self.steps_left = self.steps_left.saturating_sub(steps);
        if self.steps_left == 0 {
            self.gave_up
                .get_or_insert("takes too many steps to check against the schema");
        }
        self.gave_up.is_none()
    }

    pub(crate) fn nodes(&self) -> &'s [Node] {
        self.nodes
    }

    /// Whether no further mismatch would be noted.
    fn is_done(&self) -> bool {
        let full = |found: &Vec<_>| found.len() >= MAX_MISMATCHES;
        self.gave_up.is_some() || self.found.as_ref().is_none_or(full)
    }

    fn check(&mut self, check: &'s Check, value: &Value, at: &Path<'_>) -> bool {
        match check {
            Check::Never => self.says(at, "is not allowed"),
            Check::Type(types) => {
                types.accepts(value) || self.fail(|| Mismatch::of_type(at, *types, value))
            }
            Check::Values(values) => self.values(values, value, at),
            Check::Size(measure, limit, count) => self.size(*measure, *limit, *count, value, at),
            Check::Scalar(check) => {
                self.spend(check.cost(value));
                check.holds(value) || self.expected(at, check, Shown(value))
            }
            Check::Array(check) => self.array(check, value, at),
            Check::Object(check) => self.object(check, value, at),
            Check::All(nodes) => self.every(nodes.iter(), |run, node| run.node(*node, value, at)),
            Check::Any(nodes) => {
                nodes.iter().any(|node| self.quietly(*node, value))
                    || self.no_alternative(nodes, value, at)
            }
            Check::One(nodes) => self.one(nodes, value, at),
            Check::Not(node) => {
                !self.quietly(*node, value)
                    || self.expected(at, "a value the schema does not exclude", Shown(value))
            }
            Check::If(test, then, or_else) => {
                let next = if self.quietly(*test, value) {
                    then
                } else {
                    or_else
                };
                next.is_none_or(|node| self.node(node, value, at))
            }
            Check::Ref(node) => self.node(*node, value, at),
        }
    }

    fn values(&mut self, values: &[Value], value: &Value, at: &Path<'_>) -> bool {
        self.spend(values.len());
        values.iter().any(|allowed| number::same(allowed, value))
            || self.fail(|| {
                let values = values.iter().map(text::shown).collect();
                Mismatch::of_values(at.pointer(), values, text::shown(value))
            })
    }

    fn size(
        &mut self,
        measure: Measure,
        limit: Limit,
        count: u64,
        value: &Value,
        at: &Path<'_>,
    ) -> bool {
        let (size, one, many) = match (measure, value) {
            (Measure::Characters, Value::String(text)) => {
                (text.chars().count(), "character", "characters")
            }
            (Measure::Items, Value::Array(items)) => (items.len(), "item", "items"),
            (Measure::Properties, Value::Object(map)) => (map.len(), "property", "properties"),
            // The check is for another type of value.
            _ => return true,
        };
        let (holds, words) = match limit {
            Limit::AtLeast => (size as u64 >= count, "at least"),
            Limit::AtMost => (size as u64 <= count, "at most"),
        };
        let unit = if count == 1 { one } else { many };
        holds || self.expected(at, format_args!("{words} {count} {unit}"), size)
    }

    fn one(&mut self, nodes: &'s [NodeId], value: &Value, at: &Path<'_>) -> bool {
        let mut fitting = nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| self.quietly(**node, value));
        match (fitting.next(), fitting.next()) {
            (Some(_), None) => true,
            (Some((one, _)), Some((two, _))) => {
                let got = format_args!("{} and {} fitting", one + 1, two + 1);
                self.expected(at, "exactly one alternative to fit", got)
            }
            (None, _) => self.no_alternative(nodes, value, at),
        }
    }

    /// Notes the mismatches of a value that no alternative accepts. That none does is known already.
    fn no_alternative(&mut self, nodes: &'s [NodeId], value: &Value, at: &Path<'_>) -> bool {
        if self.found.is_some() {
            let each = nodes
                .iter()
                .map(|node| self.listening(|run| run.node(*node, value, at)).1);
            for mismatch in explain::alternatives(each.collect(), at, value) {
                self.fail(|| mismatch);
            }
        }
        false
    }
}

impl ScalarCheck {
    /// Returns the cost of the check. A pattern walks through the text with all its states.
    fn cost(&self, value: &Value) -> usize {
        match (self, value) {
            (Self::Pattern(_), Value::String(text)) => text.len() / 2,
            _ => 0,
        }
    }

    fn holds(&self, value: &Value) -> bool {
        let number = value.as_number();
        let is = |limit, test: fn(Ordering) -> bool| {
            number.is_none_or(|number| test(number::compare(number, limit)))
        };
        match self {
            Self::MultipleOf(step) => number.is_none_or(|number| number::is_multiple(number, step)),
            Self::Minimum(limit) => is(limit, Ordering::is_ge),
            Self::Maximum(limit) => is(limit, Ordering::is_le),
            Self::ExclusiveMinimum(limit) => is(limit, Ordering::is_gt),
            Self::ExclusiveMaximum(limit) => is(limit, Ordering::is_lt),
            Self::Pattern(pattern) => value.as_str().is_none_or(|text| pattern.is_match(text)),
        }
    }
}

impl fmt::Display for ScalarCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MultipleOf(step) => write!(f, "a multiple of {step}"),
            Self::Minimum(limit) => write!(f, "at least {limit}"),
            Self::Maximum(limit) => write!(f, "at most {limit}"),
            Self::ExclusiveMinimum(limit) => write!(f, "more than {limit}"),
            Self::ExclusiveMaximum(limit) => write!(f, "less than {limit}"),
            Self::Pattern(pattern) => {
                let pattern = text::shorten(pattern.as_str(), text::MAX_LIST);
                write!(f, "text that matches `{pattern}`")
            }
        }
    }
}

/// Returns the cost of a text: a long text takes as long as many values.
pub(crate) fn text_cost(text: &str) -> usize {
    text.len() / 16
}

/// The most mismatches. More would not help to repair a call.
const MAX_MISMATCHES: usize = 10;
/// The most nested evaluations. Text is parsed to a depth of 128, and real schemas need less than four nodes for each level (a
/// reference, an alternative, a combination, the object). The stack of a thread with 2 MiB is enough for this.
const MAX_DEPTH: usize = 512;
/// The most evaluations of one value: more than a message of some MiB has members, and still done in about a second.
const MAX_STEPS: usize = 4_000_000;
