//! The parts of a value that a schema has checked, for `unevaluatedProperties` and `unevaluatedItems`.

use serde_json::Value;

use crate::{
    node::{ArrayCheck, Check, NodeId, ObjectCheck},
    validate::{Run, text_cost},
};

/// A property or an item of the value.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

impl Run<'_> {
    /// Whether a schema in `node`, other than the `unevaluated…` of `asker`, applies to this part.
    ///
    /// This ends, because the compiler refuses references that lead back on the same value.
    pub(crate) fn evaluates(
        &mut self,
        node: NodeId,
        asker: NodeId,
        instance: &Value,
        part: Part<'_>,
    ) -> bool {
        if !self.spend(1) {
            return false;
        }
        let nodes = self.nodes();
        nodes[node]
            .iter()
            .any(|check| self.check_evaluates(check, asker, instance, part))
    }

    fn check_evaluates(
        &mut self,
        check: &Check,
        asker: NodeId,
        instance: &Value,
        part: Part<'_>,
    ) -> bool {
        let within = |run: &mut Self, node: NodeId| run.evaluates(node, asker, instance, part);
        match check {
            Check::Array(check) => match part {
                Part::Index(index) => self.array_evaluates(check, asker, instance, index),
                Part::Key(_) => false,
            },
            Check::Object(ObjectCheck::DependentSchema(name, node)) => {
                instance.get(&**name).is_some() && within(self, *node)
            }
            Check::Object(check) => match part {
                Part::Key(key) => self.object_evaluates(check, asker, key),
                Part::Index(_) => false,
            },
            Check::Ref(node) => within(self, *node),
            Check::All(nodes) => nodes.iter().any(|node| within(self, *node)),
            // Only an alternative that fits has checked its parts.
            Check::Any(nodes) | Check::One(nodes) => nodes
                .iter()
                .any(|node| within(self, *node) && self.quietly(*node, instance)),
            Check::If(test, then, or_else) => {
                if self.quietly(*test, instance) {
                    within(self, *test) || then.is_some_and(|then| within(self, then))
                } else {
                    or_else.is_some_and(|or_else| within(self, or_else))
                }
            }
            Check::Never
            | Check::Type(_)
            | Check::Values(_)
            | Check::Size(..)
            | Check::Scalar(_)
            | Check::Not(_) => false,
        }
    }

    fn array_evaluates(
        &mut self,
        check: &ArrayCheck,
        asker: NodeId,
        instance: &Value,
        index: usize,
    ) -> bool {
        match check {
            ArrayCheck::Items { prefix, rest } => rest.is_some() || index < prefix.len(),
            ArrayCheck::Contains { node, .. } => self.quietly(*node, &instance[index]),
            ArrayCheck::Unevaluated { owner, .. } => *owner != asker,
            ArrayCheck::Unique => false,
        }
    }

    fn object_evaluates(&mut self, check: &ObjectCheck, asker: NodeId, key: &str) -> bool {
        match check {
            ObjectCheck::Properties(properties) => {
                self.spend(properties.patterns.len() * (1 + text_cost(key)));
                properties.rest.is_some()
                    || properties.named(key).is_some()
                    || properties
                        .patterns
                        .iter()
                        .any(|(pattern, _)| pattern.is_match(key))
            }
            ObjectCheck::Unevaluated { owner, .. } => *owner != asker,
            ObjectCheck::Names(_) | ObjectCheck::Required(_) => false,
            ObjectCheck::DependentRequired(..) | ObjectCheck::DependentSchema(..) => false,
        }
    }
}
