//! The knowledge about a server: what it offers, and how that differs from what was first seen of it.

use std::{io, sync::Arc};

use crate::{
    approvals::Approvals, listing::Listing, pins::Change, status::ToolChange, store::Stamp,
};

/// The knowledge about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Shared with the code that keeps and compares the listing beside the thread of callers, because it may be long.
    pub(crate) listing: Arc<Listing>,
    pub(crate) review: Review,
}

/// How a server differs from what was first seen of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Review {
    pub(crate) changes: Vec<ToolChange>,
    /// The reason why the listing could not be compared. Then nothing of a pinned server is shown.
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
        // The stamp is taken before the review, so an approval that comes meanwhile causes one more look.
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

    /// Returns why a tool of a pinned server is not shown, or `None` if it is shown.
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

    /// Returns whether the instructions of a pinned server are those that somebody saw.
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
