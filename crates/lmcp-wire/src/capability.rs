//! The capabilities of the two sides.
//!
//! A client declares its capabilities in every request; a server declares its own in `server/discover`. A capability counts as
//! declared if its member is present, even as `{}`.

use serde::{Deserialize, Serialize};

use crate::{Object, shape::some_object};

/// The capabilities of a client: what it can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// The client can ask the user.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_object"
    )]
    pub elicitation: Option<ElicitationCapability>,
    /// The client can ask the model.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_object"
    )]
    pub sampling: Option<SamplingCapability>,
    /// The client can be asked for the folders that it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Object>,
    /// Not standardised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions by id, each with its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

impl ClientCapabilities {
    /// Whether the client can show forms. `elicitation: {}` means forms, as in the revisions that had no other way.
    pub fn has_form(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }

    /// Whether the client can show links.
    pub fn has_url(&self) -> bool {
        self.elicitation
            .as_ref()
            .is_some_and(|modes| modes.url.is_some())
    }

    /// Whether the extension is declared.
    pub fn has_extension(&self, id: &str) -> bool {
        self.extensions
            .as_ref()
            .is_some_and(|extensions| extensions.contains_key(id))
    }
}

/// Ways of asking the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// By a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Object>,
    /// By a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Object>,
}

/// Ways of asking the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// With context of other servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Object>,
    /// With tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Object>,
}

/// The capabilities of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// Prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ListCapability>,
    /// Completions for arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Object>,
    /// Log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Object>,
    /// Not standardised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions by id, each with its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

/// A list that can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// Whether changes are announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Whether single items can be watched (resources only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
}

impl ListCapability {
    /// A list whose changes are announced.
    pub fn announced() -> Self {
        Self {
            list_changed: Some(true),
            subscribe: None,
        }
    }

    /// A list whose changes are announced, and whose items can be watched.
    pub fn watched() -> Self {
        Self {
            list_changed: Some(true),
            subscribe: Some(true),
        }
    }
}
