//! What a server offers, as an immutable snapshot that is swapped whole.
//!
//! Ordered by name or URI, so that lists are the same in every process and cursors survive changes. The first page of
//! each list is written once per snapshot.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Bound,
    sync::{Arc, OnceLock},
};

use lmcp_wire::{
    ProtocolVersion, RpcError, ServerCapabilities, capability::ListCapability, jsonrpc,
    method::request, task,
};
use serde::Serialize;

use super::{forms::Forms, visibility::Visibility};
use crate::{
    clock,
    error::Error,
    outcome::Page,
    paging,
    prompt::AnyPrompt,
    resource::{AnyResource, Variables},
    set::Parts,
    tool::CheckedTool,
};

/// Everything on offer at one moment.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tools: List<CheckedTool>,
    /// Tools that are there beside others, and in no list.
    unlisted: List<CheckedTool>,
    pub(crate) prompts: List<AnyPrompt>,
    pub(crate) resources: List<AnyResource>,
    pub(crate) templates: List<AnyResource>,
    /// What was ever there: a list that has become empty is still a list.
    pub(crate) offers: Lists,
    /// When each list last changed, in microseconds since 1970.
    changed: Changed,
    /// How many tools were ever added.
    tools_added: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    tools: u64,
    prompts: u64,
    resources: u64,
}

/// One list, by key, and its first page as JSON.
pub(crate) struct List<T> {
    items: BTreeMap<String, Arc<T>>,
    /// One for each revision, with output schemas and without.
    first_pages: [[OnceLock<Page>; 2]; ProtocolVersion::ALL.len()],
}

/// Which page of a list, how long, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) cursor: Option<&'a str>,
    pub(crate) most: usize,
    pub(crate) version: ProtocolVersion,
    /// With the schemas of structured results?
    pub(crate) structured: bool,
    pub(crate) visibility: Visibility<'a>,
    pub(crate) forms: &'static Forms,
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
    /// The same items; the page is written anew, because a copy is made to be changed.
    fn clone(&self) -> Self {
        Self {
            items: self.items.clone(),
            first_pages: Default::default(),
        }
    }
}

impl Clone for Catalog {
    fn clone(&self) -> Self {
        let Self {
            tools,
            unlisted,
            prompts,
            resources,
            templates,
            offers,
            changed,
            tools_added,
        } = self;
        Self {
            tools: tools.clone(),
            unlisted: unlisted.clone(),
            prompts: prompts.clone(),
            resources: resources.clone(),
            templates: templates.clone(),
            offers: *offers,
            changed: *changed,
            tools_added: *tools_added,
        }
    }
}

/// Some of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: bool,
    /// Of the tools, only some that not everybody sees.
    pub(crate) for_some: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// Bytes of a name, beyond which nobody meant another one.
const LONGEST_SLIP: usize = 512;

impl Catalog {
    /// Checks and takes in new parts. Nothing is replaced: two of one name are a mistake.
    pub(crate) fn add(&mut self, parts: Parts) -> Result<Lists, Error> {
        let mut changed = Lists {
            tools: !parts.tools.is_empty(),
            for_some: true,
            prompts: !parts.prompts.is_empty(),
            resources: !parts.resources.is_empty(),
        };
        for tool in parts.tools {
            let mut tool = tool.check()?;
            self.tools_added += 1;
            tool.number = self.tools_added;
            changed.for_some &= !tool.is_common();
            let list = match tool.beside() {
                Some(_) => &mut self.unlisted,
                None => &mut self.tools,
            };
            list.add("tool", tool.spec.name.clone(), tool)?;
        }
        for prompt in parts.prompts {
            prompt.check()?;
            self.prompts
                .add("prompt", prompt.spec.name.clone(), prompt)?;
        }
        for resource in parts.resources {
            resource.check()?;
            let (shelf, kind) = match resource.template {
                Some(_) => (&mut self.templates, "resource template"),
                None => (&mut self.resources, "resource"),
            };
            shelf.add(kind, resource.spec.uri.clone(), resource)?;
        }
        self.offers.tools |= changed.tools;
        self.offers.prompts |= changed.prompts;
        self.offers.resources |= changed.resources;
        Ok(changed)
    }

    /// Notes that these lists are others from now on.
    pub(crate) fn mark(&mut self, lists: Lists) {
        let now = clock::micros();
        for (list, changed) in [
            (lists.tools, &mut self.changed.tools),
            (lists.prompts, &mut self.changed.prompts),
            (lists.resources, &mut self.changed.resources),
        ] {
            if list {
                *changed = now;
            }
        }
    }

    /// The lists that a client does not know which listed them at this time.
    pub(crate) fn changed_since(&self, time: u64) -> Lists {
        Lists {
            tools: self.changed.tools > time,
            for_some: false,
            prompts: self.changed.prompts > time,
            resources: self.changed.resources > time,
        }
    }

    /// Removes a tool: what changes by that. `None`: there was none.
    pub(crate) fn remove_tool(&mut self, name: &str) -> Option<Lists> {
        let tool = self.tools.remove(name)?;
        Some(Lists {
            tools: true,
            for_some: !tool.is_common(),
            ..Lists::default()
        })
    }

    /// A number for what a caller sees of those tools that not everybody sees: another one when that has changed.
    pub(crate) fn view(&self, visibility: Visibility<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        let for_some = |tool: &&Arc<CheckedTool>| !(visibility.is_plain() && tool.is_common());
        let seen = self.tools.values().filter(for_some);
        for tool in seen.filter(|tool| visibility.shows(tool)) {
            tool.number.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What can be advertised. What never was there is not: its methods answer *method not found*.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::default();
        capabilities.logging = Some(lmcp_wire::Object::new());
        if self.offers.tools {
            capabilities.tools = Some(ListCapability::announced());
        }
        if self.offers.prompts {
            capabilities.prompts = Some(ListCapability::announced());
        }
        if self.offers.resources {
            capabilities.resources = Some(ListCapability::watched());
        }
        if self.has_completions() {
            capabilities.completions = Some(lmcp_wire::Object::new());
        }
        let tasks = (task::EXTENSION.to_owned(), serde_json::json!({}));
        capabilities.extensions = Some([tasks].into_iter().collect());
        capabilities
    }

    /// The tool of this name, if this caller may know of it.
    pub(crate) fn find_tool(
        &self,
        name: &str,
        visibility: Visibility<'_>,
    ) -> Option<Arc<CheckedTool>> {
        let listed = self.tools.get(name).filter(|tool| visibility.shows(tool));
        listed.or_else(|| {
            let tool = self.unlisted.get(name)?;
            let beside = self.tools.get(tool.beside()?)?;
            visibility.shows(&beside).then_some(tool)
        })
    }

    /// The tool that somebody who calls `name` may have meant: one that is called so elsewhere, else the nearest by its
    /// spelling, of those that this caller may know of.
    pub(crate) fn near_tool(&self, name: &str, visibility: Visibility<'_>) -> Option<&str> {
        if name.len() > LONGEST_SLIP {
            return None;
        }
        // Clients put the server's name before the tool's, and models repeat what they see.
        let bare = name.rsplit("__").next().unwrap_or(name);
        let bare = bare.rsplit(['.', '/', ':']).next().unwrap_or(bare);
        let seen = self.tools.values().filter(|tool| visibility.shows(tool));
        let names: Vec<(&str, &str)> = seen
            .flat_map(|tool| {
                let own = tool.spec.name.as_str();
                tool.habits
                    .names()
                    .chain([own])
                    .map(move |name| (name, own))
            })
            .collect();
        let known = |wanted: &str| names.iter().find(|(name, _)| *name == wanted);
        let same = names
            .iter()
            .find(|(name, _)| lmcp_schema::is_same(name, bare));
        let near = || lmcp_schema::nearest(bare, names.iter().map(|(name, _)| *name));
        same.or_else(|| known(near()?)).map(|(_, own)| *own)
    }

    /// Does everybody see the same tools?
    pub(crate) fn is_common(&self, visibility: Visibility<'_>) -> bool {
        visibility.is_plain() && self.tools.values().all(|tool| tool.is_common())
    }

    pub(crate) fn has_completions(&self) -> bool {
        self.prompts
            .values()
            .any(|prompt| !prompt.completions.is_empty())
            || self
                .templates
                .values()
                .any(|template| !template.completions.is_empty())
    }

    /// The resource at a URI: one of that very URI, else the first template that matches.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<(Arc<AnyResource>, Variables)> {
        if let Some(resource) = self.resources.get(uri) {
            return Some((resource, Variables::new()));
        }
        self.matching(uri)
    }

    /// The template itself, or the one that a URI belongs to.
    pub(crate) fn find_template(&self, uri: &str) -> Option<Arc<AnyResource>> {
        let itself = self.templates.get(uri);
        itself.or_else(|| self.matching(uri).map(|(template, _)| template))
    }

    fn matching(&self, uri: &str) -> Option<(Arc<AnyResource>, Variables)> {
        // Another template is no URI, though its variables would pass for values.
        if uri.contains(['{', '}']) {
            return None;
        }
        self.templates.values().find_map(|resource| {
            let template = resource.template.as_ref()?.as_ref().ok()?;
            Some((Arc::clone(resource), template.matches(uri)?))
        })
    }

    pub(crate) fn list_tools(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |tool: &CheckedTool| {
            let mut shown = (wanted.forms.tool)(wanted.version, &tool.spec);
            if !wanted.structured && shown.output_schema.is_some() {
                shown.to_mut().output_schema = None;
            }
            json(&*shown)
        };
        let list = request::TOOLS_LIST;
        if self.is_common(wanted.visibility) {
            return self.tools.page(list, "tools", wanted, show);
        }
        let seen = self.tools.only(|tool| wanted.visibility.shows(tool));
        seen.page(list, "tools", wanted, show)
    }

    pub(crate) fn list_prompts(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |prompt: &AnyPrompt| json(&*(wanted.forms.prompt)(wanted.version, &prompt.spec));
        self.prompts
            .page(request::PROMPTS_LIST, "prompts", wanted, show)
    }

    pub(crate) fn list_resources(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |resource: &AnyResource| {
            json(&*(wanted.forms.resource)(wanted.version, &resource.spec))
        };
        self.resources
            .page(request::RESOURCES_LIST, "resources", wanted, show)
    }

    pub(crate) fn list_templates(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |resource: &AnyResource| {
            json(&*(wanted.forms.template)(
                wanted.version,
                &resource.as_template(),
            ))
        };
        let list = request::RESOURCE_TEMPLATES_LIST;
        self.templates.page(list, "resourceTemplates", wanted, show)
    }
}

fn json(item: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    jsonrpc::append(&mut out, item);
    out
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

    /// Those of them that are to be seen.
    fn only(&self, is_shown: impl Fn(&T) -> bool) -> Self {
        let items = self.items.iter().filter(|(_, item)| is_shown(item));
        Self {
            items: items
                .map(|(key, item)| (key.clone(), Arc::clone(item)))
                .collect(),
            first_pages: Default::default(),
        }
    }

    fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values()
    }

    fn add(&mut self, kind: &str, key: String, item: T) -> Result<(), Error> {
        if self.items.contains_key(&key) {
            return Err(Error::config(format!(
                "{kind} `{key}`: there are two of this name"
            )));
        }
        self.items.insert(key, Arc::new(item));
        Ok(())
    }

    fn page(
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
