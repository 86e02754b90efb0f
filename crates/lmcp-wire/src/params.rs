//! The parameters of a request, cut into their members in one pass.
//!
//! These are all members that the methods that do work can have, each still raw. The code of a method decodes the members that
//! it needs, and can tell a wrong type from an absent member. The other methods have types of their own.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{meta::RequestMeta, shape::object_or_null};

/// The members of `params`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[non_exhaustive]
pub struct Params<'a> {
    /// `_meta`, also cut into members.
    #[serde(borrow, default, rename = "_meta", deserialize_with = "object_or_null")]
    pub meta: Option<RequestMeta<'a>>,
    /// The tool or prompt.
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    /// The resource.
    #[serde(borrow, default)]
    pub uri: Option<&'a RawValue>,
    /// The task.
    #[serde(borrow, default)]
    pub task_id: Option<&'a RawValue>,
    /// The arguments of the tool or prompt.
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    /// The answers to the questions of an earlier round, or of a task.
    #[serde(borrow, default)]
    pub input_responses: Option<&'a RawValue>,
    /// The state that an earlier round gave to the client.
    #[serde(borrow, default)]
    pub request_state: Option<&'a RawValue>,
}
