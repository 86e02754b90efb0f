//! `server/utilities/completion`

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{name::name, shape::object};

/// `params` of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteParams<'a> {
    /// The prompt or the template that the argument belongs to.
    #[serde(rename = "ref", borrow, deserialize_with = "object")]
    pub reference: Reference<'a>,
    /// The argument, and what is typed so far.
    #[serde(borrow, deserialize_with = "object")]
    pub argument: Argument<'a>,
    /// The arguments that were filled in before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

/// A prompt or a URI template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", expecting = "a reference to a prompt or a resource")]
#[non_exhaustive]
pub enum Reference<'a> {
    /// A prompt, by name.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The name of the prompt.
        #[serde(borrow, deserialize_with = "name")]
        name: Cow<'a, str>,
        /// The title of the prompt, which some clients repeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A URI template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template.
        #[serde(borrow, deserialize_with = "name")]
        uri: Cow<'a, str>,
    },
}

/// The argument to complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Argument<'a> {
    /// The name of the argument.
    #[serde(borrow, deserialize_with = "name")]
    pub name: Cow<'a, str>,
    /// The text that is typed so far.
    #[serde(borrow)]
    pub value: Cow<'a, str>,
}

/// The arguments that were filled in before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Context {
    /// Other arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
}

/// Suggestions, without the members every result has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The suggestions.
    pub completion: Completion,
}

/// Suggestions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most [`Completion::MAX_VALUES`].
    pub values: Vec<String>,
    /// The number of all suggestions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// Whether there are more suggestions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

impl<'a> CompleteParams<'a> {
    /// Asks for values of an argument, of which the user has typed a part.
    pub fn new(reference: Reference<'a>, argument: Argument<'a>) -> Self {
        Self {
            reference,
            argument,
            context: None,
        }
    }
}

impl<'a> Reference<'a> {
    /// A prompt, by its name.
    pub fn prompt(name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        Self::Prompt { name, title: None }
    }

    /// A URI template, as the server lists it.
    pub fn resource(uri: impl Into<Cow<'a, str>>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

impl<'a> Argument<'a> {
    /// The name of an argument, and what the user has typed so far.
    pub fn new(name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

impl Completion {
    /// The most values of one answer, by the specification.
    pub const MAX_VALUES: usize = 100;
}

impl CompleteResult {
    /// Makes an answer of the first hundred values. It also says how many there are.
    pub fn new(mut values: Vec<String>) -> Self {
        let total = values.len();
        values.truncate(Completion::MAX_VALUES);
        let has_more = Some(total > Completion::MAX_VALUES);
        Self {
            completion: Completion {
                values,
                total: Some(total),
                has_more,
            },
        }
    }
}
