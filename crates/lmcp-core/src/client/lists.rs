//! The lists of a server: every page, kept for as long as the server allows.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use lmcp_wire::{
    Prompt, Resource, ResourceTemplate, RpcError, Tool,
    method::{notification, request},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Client, Error};
use crate::outcome::value_bytes;

/// Lists that are still fresh, by their method.
#[derive(Default)]
pub(super) struct Lists {
    kept: HashMap<&'static str, Kept>,
    /// The number of changes that were announced. A list that was requested before the last of them may be stale.
    changes: u64,
}

struct Kept {
    items: Vec<Value>,
    until: Instant,
}

impl Lists {
    /// Drops the list that a change notification is about.
    pub(super) fn forget(&mut self, notification: &str) {
        let lists: &[&str] = match notification {
            notification::TOOLS_CHANGED => &[request::TOOLS_LIST],
            notification::PROMPTS_CHANGED => &[request::PROMPTS_LIST],
            notification::RESOURCES_CHANGED => {
                &[request::RESOURCES_LIST, request::RESOURCE_TEMPLATES_LIST]
            }
            _ => return,
        };
        self.changes += 1;
        for list in lists {
            self.kept.remove(list);
        }
    }
}

impl Client {
    /// Lists all tools. The list is kept for as long as the server allows, so a second call may need no request.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        self.list(request::TOOLS_LIST, "tools").await
    }

    /// Lists all prompts.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.list(request::PROMPTS_LIST, "prompts").await
    }

    /// Lists all resources that have one address. Families of resources are in [`list_templates`](Self::list_templates).
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, Error> {
        self.list(request::RESOURCES_LIST, "resources").await
    }

    /// Lists all families of resources, whose addresses have variables.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn list_templates(&self) -> Result<Vec<ResourceTemplate>, Error> {
        self.list(request::RESOURCE_TEMPLATES_LIST, "resourceTemplates")
            .await
    }

    /// Leaves out items that cannot be read: the others can still be used.
    async fn list<T: DeserializeOwned>(
        &self,
        method: &'static str,
        member: &str,
    ) -> Result<Vec<T>, Error> {
        let items = match self.kept(method) {
            Some(items) => items,
            None => self.fetch(method, member).await?,
        };
        let items = items.into_iter();
        Ok(items
            .filter_map(|item| serde_json::from_value(item).ok())
            .collect())
    }

    fn kept(&self, method: &str) -> Option<Vec<Value>> {
        let lists = self.shared.lists();
        let kept = lists.kept.get(method)?;
        (Instant::now() < kept.until).then(|| kept.items.clone())
    }

    async fn fetch(&self, method: &'static str, member: &str) -> Result<Vec<Value>, Error> {
        let changes = self.shared.lists().changes;
        let (mut items, mut good) = (Vec::new(), Duration::MAX);
        let (mut cursor, mut seen, mut bytes) = (None, HashSet::new(), 0);
        for _ in 0..MOST_PAGES {
            let params = match &cursor {
                Some(cursor) => json!({ "cursor": cursor }),
                None => json!({}),
            };
            let mut page = self.request(method, params).await?;
            let mut page_items = 0;
            if let Value::Array(more) = page[member].take() {
                page_items = more.len();
                items.extend(more);
            }
            good = good.min(Duration::from_millis(page["ttlMs"].as_u64().unwrap_or(0)));
            // An empty string is a cursor like any other.
            let Value::String(next) = page["nextCursor"].take() else {
                self.keep(method, &items, good, changes);
                return Ok(items);
            };
            if !seen.insert(next.clone()) {
                let words = format!("the pages of `{method}` lead back to each other");
                return Err(RpcError::internal(words).into());
            }
            let last = items.get(items.len() - page_items..).unwrap_or_default();
            bytes += last.iter().map(value_bytes).sum::<usize>();
            if bytes > MOST_BYTES {
                let words = format!("`{method}` has more than {MOST_BYTES} bytes");
                return Err(RpcError::internal(words).into());
            }
            cursor = Some(next);
        }
        let words = format!("`{method}` has more than {MOST_PAGES} pages");
        Err(RpcError::internal(words).into())
    }

    /// Keeps a list, unless a change was announced since it was requested. `changes` is the number of changes before the
    /// request.
    fn keep(&self, method: &'static str, items: &[Value], good: Duration, changes: u64) {
        if good.is_zero() {
            return;
        }
        let kept = Kept {
            items: items.to_vec(),
            until: Instant::now() + good.min(LONGEST_KEPT),
        };
        let mut lists = self.shared.lists();
        if lists.changes == changes {
            lists.kept.insert(method, kept);
        }
    }
}

/// The most pages of a list. No server has so many.
const MOST_PAGES: usize = 1000;

/// The most bytes of a list in memory. No server has so many. One page is as long as a message may be.
const MOST_BYTES: usize = 64 << 20;

/// The longest time that a list is kept, whatever the server allows.
const LONGEST_KEPT: Duration = Duration::from_secs(24 * 3600);
