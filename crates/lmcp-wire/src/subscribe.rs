//! `basic/patterns/subscriptions`

use serde::{Deserialize, Serialize};

use crate::shape::object;

/// The changes that a listener wants to hear of, or will hear of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// New contents of these resources, or of resources below them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_subscriptions: Option<Vec<String>>,
    /// New states of these tasks (tasks extension).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ids: Option<Vec<String>>,
}

/// `params` of `subscriptions/listen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListenParams {
    /// The changes to hear of.
    #[serde(deserialize_with = "object")]
    pub notifications: SubscriptionFilter,
}

impl ListenParams {
    /// Asks for the changes that the filter names.
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications }
    }
}
