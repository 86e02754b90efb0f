//! What a server offers, as an immutable snapshot that is swapped whole.
//!
//! Ordered by name or URI: lists are the same in every process, and cursors survive changes. Each first page is written once per snapshot.

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
    roles::Roles,
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
    pub(crate) offers: Offers,
    /// When each list last changed, in microseconds since 1970.
    changed: Changed,
    /// How many parts were ever added.
    added: u64,
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
            added,
        } = self;
        Self {
            tools: tools.clone(),
            unlisted: unlisted.clone(),
            prompts: prompts.clone(),
            resources: resources.clone(),
            templates: templates.clone(),
            offers: *offers,
            changed: *changed,
            added: *added,
        }
    }
}

/// Which lists there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// For whom each of the lists has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: ChangedFor,
    pub(crate) prompts: ChangedFor,
    /// Templates among them.
    pub(crate) resources: ChangedFor,
}

/// For whom a list has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangedFor {
    #[default]
    Nobody,
    /// Only what not everybody sees.
    Few,
    All,
}

impl ChangedFor {
    /// Something for these roles was added or removed.
    pub(crate) fn of(roles: &Roles) -> Self {
        if roles.is_everybody() {
            Self::All
        } else {
            Self::Few
        }
    }

    pub(crate) fn is_any(self) -> bool {
        self != Self::Nobody
    }

    pub(crate) fn join(&mut self, other: Self) {
        *self = other.max(*self);
    }
}

/// What one caller sees of what not everybody sees: another number when that has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Views {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
}

/// Bytes of a name, beyond which nobody meant another one.
const LONGEST_SLIP: usize = 512;

impl Catalog {
    /// Checks and takes in new parts. Nothing is replaced: two of one name are a mistake.
    pub(crate) fn add(&mut self, parts: Parts) -> Result<Lists, Error> {
        let mut changed = Lists::default();
        for tool in parts.tools {
            let mut tool = tool.check()?;
            tool.number = self.next_number();
            changed.tools.join(ChangedFor::of(tool.roles()));
            let list = match tool.beside() {
                Some(_) => &mut self.unlisted,
                None => &mut self.tools,
            };
            list.add("tool", tool.spec.name.clone(), tool)?;
        }
        for mut prompt in parts.prompts {
            prompt.check()?;
            prompt.number = self.next_number();
            changed.prompts.join(ChangedFor::of(&prompt.roles));
            self.prompts
                .add("prompt", prompt.spec.name.clone(), prompt)?;
        }
        for mut resource in parts.resources {
            resource.check()?;
            resource.number = self.next_number();
            changed.resources.join(ChangedFor::of(&resource.roles));
            let (shelf, kind) = match resource.template {
                Some(_) => (&mut self.templates, "resource template"),
                None => (&mut self.resources, "resource"),
            };
            shelf.add(kind, resource.spec.uri.clone(), resource)?;
        }
        self.offers.tools |= changed.tools.is_any();
        self.offers.prompts |= changed.prompts.is_any();
        self.offers.resources |= changed.resources.is_any();
        Ok(changed)
    }

    fn next_number(&mut self) -> u64 {
        self.added += 1;
        self.added
    }

    /// Notes that these lists are others from now on.
    pub(crate) fn mark(&mut self, lists: Lists) {
        let now = clock::micros();
        for (list, changed) in [
            (lists.tools, &mut self.changed.tools),
            (lists.prompts, &mut self.changed.prompts),
            (lists.resources, &mut self.changed.resources),
        ] {
            if list.is_any() {
                *changed = now;
            }
        }
    }

    /// The lists that a client does not know which listed them at this time.
    pub(crate) fn changed_since(&self, time: u64) -> Lists {
        let change = |changed: u64| {
            if changed > time {
                ChangedFor::All
            } else {
                ChangedFor::Nobody
            }
        };
        Lists {
            tools: change(self.changed.tools),
            prompts: change(self.changed.prompts),
            resources: change(self.changed.resources),
        }
    }

    /// Removes a tool: what changes by that. `None`: there was none.
    pub(crate) fn remove_tool(&mut self, name: &str) -> Option<Lists> {
        let tool = self.tools.remove(name)?;
        Some(Lists {
            tools: ChangedFor::of(tool.roles()),
            ..Lists::default()
        })
    }

    /// Removes a prompt: what changes by that. `None`: there was none.
    pub(crate) fn remove_prompt(&mut self, name: &str) -> Option<Lists> {
        let prompt = self.prompts.remove(name)?;
        Some(Lists {
            prompts: ChangedFor::of(&prompt.roles),
            ..Lists::default()
        })
    }

    /// Removes a resource or template: what changes by that. `None`: there was none.
    pub(crate) fn remove_resource(&mut self, uri: &str) -> Option<Lists> {
        let removed = self.resources.remove(uri);
        let removed = removed.or_else(|| self.templates.remove(uri))?;
        Some(Lists {
            resources: ChangedFor::of(&removed.roles),
            ..Lists::default()
        })
    }

    /// What a caller sees of that which not everybody sees.
    pub(crate) fn views(&self, visibility: Visibility<'_>) -> Views {
        let is_common = |tool: &CheckedTool| visibility.is_plain() && tool.roles().is_everybody();
        let tools = self.tools.values().filter(|tool| !is_common(tool));
        let tools = tools.filter(|tool| visibility.shows(tool));
        let is_seen = |roles: &Roles| !roles.is_everybody() && visibility.includes(roles);
        let prompts = self
            .prompts
            .values()
            .filter(|prompt| is_seen(&prompt.roles));
        let resources = self.resources.values().chain(self.templates.values());
        let resources = resources.filter(|resource| is_seen(&resource.roles));
        Views {
            tools: view(tools.map(|tool| tool.number)),
            prompts: view(prompts.map(|prompt| prompt.number)),
            resources: view(resources.map(|resource| resource.number)),
        }
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
    fn has_common_tools(&self, visibility: Visibility<'_>) -> bool {
        visibility.is_plain() && self.tools.values().all(|tool| tool.roles().is_everybody())
    }

    /// Is the list that this method asks for the same for everybody?
    pub(crate) fn is_common(&self, method: &str, visibility: Visibility<'_>) -> bool {
        let all = |list: &List<AnyResource>| list.values().all(|each| each.roles.is_everybody());
        match method {
            request::TOOLS_LIST => self.has_common_tools(visibility),
            request::PROMPTS_LIST => self.prompts.values().all(|each| each.roles.is_everybody()),
            request::RESOURCES_LIST => all(&self.resources),
            _ => all(&self.templates),
        }
    }

    /// The prompt of this name, if this caller may know of it.
    pub(crate) fn find_prompt(
        &self,
        name: &str,
        visibility: Visibility<'_>,
    ) -> Option<Arc<AnyPrompt>> {
        let prompt = self.prompts.get(name)?;
        visibility.includes(&prompt.roles).then_some(prompt)
    }

    /// The names of prompts that this caller may know of.
    pub(crate) fn prompt_names(&self, visibility: Visibility<'_>) -> impl Iterator<Item = &str> {
        let seen = self.prompts.values();
        let seen = seen.filter(move |prompt| visibility.includes(&prompt.roles));
        seen.map(|prompt| prompt.spec.name.as_str())
    }

    /// The same of templates.
    pub(crate) fn template_uris(&self, visibility: Visibility<'_>) -> impl Iterator<Item = &str> {
        let seen = self.templates.values();
        let seen = seen.filter(move |template| visibility.includes(&template.roles));
        seen.map(|template| template.spec.uri.as_str())
    }

    /// What this URI names, if this caller may know of it. What is hidden is not there, nor is another in its place.
    pub(crate) fn find_visible(
        &self,
        uri: &str,
        visibility: Visibility<'_>,
    ) -> Option<(Arc<AnyResource>, Variables)> {
        let found = self.find_resource(uri);
        found.filter(|(resource, _)| visibility.includes(&resource.roles))
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
            tool.write(&shown)
        };
        let list = request::TOOLS_LIST;
        if self.has_common_tools(wanted.visibility) {
            return self.tools.page(list, "tools", wanted, show);
        }
        let seen = self.tools.only(|tool| wanted.visibility.shows(tool));
        seen.page(list, "tools", wanted, show)
    }

    pub(crate) fn list_prompts(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |prompt: &AnyPrompt| json(&*(wanted.forms.prompt)(wanted.version, &prompt.spec));
        self.prompts.page_for(
            (request::PROMPTS_LIST, "prompts"),
            wanted,
            |prompt| &prompt.roles,
            show,
        )
    }

    pub(crate) fn list_resources(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |resource: &AnyResource| {
            json(&*(wanted.forms.resource)(wanted.version, &resource.spec))
        };
        self.resources.page_for(
            (request::RESOURCES_LIST, "resources"),
            wanted,
            |resource| &resource.roles,
            show,
        )
    }

    pub(crate) fn list_templates(&self, wanted: Wanted<'_>) -> Result<Page, RpcError> {
        let show = |resource: &AnyResource| {
            json(&*(wanted.forms.template)(
                wanted.version,
                &resource.as_template(),
            ))
        };
        self.templates.page_for(
            (request::RESOURCE_TEMPLATES_LIST, "resourceTemplates"),
            wanted,
            |template| &template.roles,
            show,
        )
    }
}

fn view(numbers: impl Iterator<Item = u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    numbers.for_each(|number| number.hash(&mut hasher));
    hasher.finish()
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

    /// A page of what a caller may see, by the roles that each is for.
    fn page_for(
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
