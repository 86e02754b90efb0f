//! What is known of a server: what it offers, and how that differs from what was first seen of it.

use std::{io, sync::Arc};

use crate::{
    approvals::Approvals, listing::Listing, pins::Change, status::ToolChange, store::Stamp,
};

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Shared with whoever keeps and compares it, beside the thread of callers: it may be long.
    pub(crate) listing: Arc<Listing>,
    pub(crate) review: Review,
}

/// How a server differs from what was first seen of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Review {
    pub(crate) changes: Vec<ToolChange>,
    /// Why nobody can tell. Then nothing of a server that is pinned is shown.
    pub(crate) trouble: Option<String>,
    pub(crate) stamp: Stamp,
}

impl Review {
    pub(crate) fn of(
        approvals: &Approvals,
        server: &str,
        listing: &Listing,
        is_pinned: bool,
    ) -> Self {
        // Taken before: an approval that comes meanwhile is looked at once more.
        let stamp = approvals.stamp(server);
        match approvals.review(server, listing, is_pinned) {
            Ok(changes) => Self {
                changes: changes.into_iter().map(named).collect(),
                trouble: None,
                stamp,
            },
            Err(err) => Self::failed(&err),
        }
    }

    pub(crate) fn failed(err: &io::Error) -> Self {
        Self {
            trouble: Some(format!("what was approved cannot be read or kept: {err}")),
            ..Self::default()
        }
    }

    /// Why a tool of a pinned server is not shown, if it is not.
    pub(crate) fn against(&self, tool: &str) -> Option<String> {
        if let Some(trouble) = &self.trouble {
            return Some(trouble.clone());
        }
        let mut changes = self.changes.iter();
        let change = changes.find(|change| change.tool.as_deref() == Some(tool))?;
        Some(match &change.parts[..] {
            [] => "it is new".to_owned(),
            parts => format!("it has changed ({})", parts.join(", ")),
        })
    }

    /// Are the instructions of a pinned server those that somebody saw?
    pub(crate) fn vouches_for_instructions(&self) -> bool {
        let mut changes = self.changes.iter();
        self.trouble.is_none() && changes.all(|change| change.tool.is_some())
    }
}

fn named(change: Change) -> ToolChange {
    ToolChange {
        tool: change.tool,
        parts: change.parts.into_iter().map(|part| part.part).collect(),
        held: false,
    }
}
