//! Keeps a list of a server, such as its tools, and writes the pages of the list as JSON.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use lmcp_wire::{ProtocolVersion, RpcError, jsonrpc};

use super::{forms::Forms, visibility::Visibility};
use crate::{error::Error, outcome::Page, paging, roles::Roles};

/// The items of a list by key, with their pages as JSON.
pub(crate) struct List<T> {
    items: BTreeMap<String, Arc<T>>,
    /// The pages: one for each revision, with output schemas and without.
    first_pages: [[OnceLock<Page>; 2]; ProtocolVersion::ALL.len()],
}

/// The page of a list that a caller wants, its length, and the parts that the caller may see.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) cursor: Option<&'a str>,
    pub(crate) most: usize,
    pub(crate) version: ProtocolVersion,
    /// Whether the schemas of structured results are included.
    pub(crate) structured: bool,
    pub(crate) visibility: Visibility<'a>,
    pub(crate) forms: &'static Forms,
}

impl<T> List<T> {
    pub(crate) fn get(&self, key: &str) -> Option<Arc<T>> {
        self.items.get(key).cloned()
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<T>> {
        self.items.remove(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    /// Returns the list of the items that may be shown.
    pub(super) fn only(&self, is_shown: impl Fn(&T) -> bool) -> Self {
        let items = self.items.iter().filter(|(_, item)| is_shown(item));
        Self {
            items: items
                .map(|(key, item)| (key.clone(), Arc::clone(item)))
                .collect(),
            first_pages: Default::default(),
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values()
    }

    /// Returns a page of the items that a caller may see. `roles` returns the roles of an item.
    pub(super) fn page_for(
        &self,
        (list, member): (&str, &str),
        wanted: Wanted<'_>,
        roles: impl Fn(&T) -> &Roles,
        show: impl Fn(&T) -> Vec<u8>,
    ) -> Result<Page, RpcError> {
        if self.values().all(|item| roles(item).is_everybody()) {
            return self.page(list, member, wanted, show);
        }
        let seen = self.only(|item| wanted.visibility.includes(roles(item)));
        seen.page(list, member, wanted, show)
    }

    pub(super) fn add(&mut self, kind: &str, key: String, item: T) -> Result<(), Error> {
        if self.items.contains_key(&key) {
            return Err(Error::config(format!(
                "{kind} `{key}`: there are two of this name"
            )));
        }
        self.items.insert(key, Arc::new(item));
        Ok(())
    }

    pub(super) fn page(
        &self,
        list: &str,
        member: &str,
        wanted: Wanted<'_>,
        show: impl Fn(&T) -> Vec<u8>,
    ) -> Result<Page, RpcError> {
        let after = match wanted.cursor {
            Some(cursor) => Bound::Excluded(paging::decode(list, cursor)?),
            None => Bound::Unbounded,
        };
        let write = || {
            let mut items = self.items.range((after, Bound::Unbounded)).peekable();
            let mut out = Vec::with_capacity(256);
            jsonrpc::append(&mut out, member);
            out.extend_from_slice(b":[");
            let mut last = None;
            for (index, (key, item)) in items.by_ref().take(wanted.most.max(1)).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&show(item));
                last = Some(key);
            }
            out.push(b']');
            let next = last
                .filter(|_| items.peek().is_some())
                .map(|key| paging::encode(list, key));
            Page::written(out, next, Some(wanted.version))
        };
        let kept = &self.first_pages.get(wanted.version.index());
        let kept = kept.map(|pages| &pages[usize::from(wanted.structured)]);
        Ok(match kept.filter(|_| wanted.cursor.is_none()) {
            Some(page) => page.get_or_init(write).clone(),
            None => write(),
        })
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            first_pages: Default::default(),
        }
    }
}

impl<T> Clone for List<T> {
    /// Copies the items. The pages are written again, because a copy is made to be changed.
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            first_pages: Default::default(),
        }
    }
}
