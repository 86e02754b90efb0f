//! The offers of a server, as an immutable snapshot that is replaced as a whole.
//!
//! Items are ordered by name or URI: so lists are the same in every process, and cursors survive changes. Each first page is
//! written once per snapshot.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use lmcp_wire::{
    RpcError, ServerCapabilities, capability::ListCapability, jsonrpc, method::request, task,
};
use serde::Serialize;

use super::{
    list::{List, Wanted},
    visibility::Visibility,
};
use crate::{
    clock,
    error::Error,
    outcome::Page,
    prompt::AnyPrompt,
    resource::{AnyResource, Variables},
    roles::Roles,
    set::Parts,
    tool::CheckedTool,
};

/// All offers at one moment.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tools: List<CheckedTool>,
    /// Tools that other tools bring along, and that no list shows.
    unlisted: List<CheckedTool>,
    pub(crate) prompts: List<AnyPrompt>,
    pub(crate) resources: List<AnyResource>,
    pub(crate) templates: List<AnyResource>,
    /// The kinds that were ever offered: a list that has become empty is still a list.
    pub(crate) offers: Offers,
    /// The time of each list's last change, in microseconds since 1970.
    changed: Changed,
    /// The number of parts that were ever added.
    added: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    tools: u64,
    prompts: u64,
    resources: u64,
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

/// The kinds of list that the server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

/// The callers for whom each of the lists has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: ChangedFor,
    pub(crate) prompts: ChangedFor,
    /// Includes templates.
    pub(crate) resources: ChangedFor,
}

/// The callers for whom a list has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangedFor {
    #[default]
    Nobody,
    /// Only for those who see an item that not everybody sees.
    Few,
    All,
}

impl ChangedFor {
    /// Returns who sees the change when an item for these roles is added or removed.
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

/// A number for each list, which changes when the items change that this caller sees and not everybody sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Views {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
}

/// The longest name, in bytes, for which a similar name is looked for.
const LONGEST_SLIP: usize = 512;

impl Catalog {
    /// Checks new parts and adds them. Nothing is replaced: a second part of the same name is an error.
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

    /// Checks a resource or template, and puts it in the place of the one with its URI, if there is one.
    pub(crate) fn set_resource(&mut self, mut resource: AnyResource) -> Result<Lists, Error> {
        resource.check()?;
        let uri = resource.spec.uri.clone();
        let mut changed = Lists::default();
        let (shelf, kind) = match resource.template {
            Some(_) => (&mut self.templates, "resource template"),
            None => (&mut self.resources, "resource"),
        };
        let before = shelf.remove(&uri);
        if let Some(same) = before.as_ref().filter(|before| resource.looks_like(before)) {
            resource.number = same.number;
        } else {
            self.added += 1;
            resource.number = self.added;
            let roles = before.iter().map(|before| &before.roles);
            roles
                .chain([&resource.roles])
                .for_each(|roles| changed.resources.join(ChangedFor::of(roles)));
        }
        self.offers.resources = true;
        shelf.add(kind, uri, resource)?;
        Ok(changed)
    }

    fn next_number(&mut self) -> u64 {
        self.added += 1;
        self.added
    }

    /// Notes that these lists have changed now.
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

    /// Returns the lists that have changed since a client listed them at this time.
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

    /// Removes a tool, and returns the lists that change. `None`: there was no such tool.
    pub(crate) fn remove_tool(&mut self, name: &str) -> Option<Lists> {
        let tool = self.tools.remove(name)?;
        Some(Lists {
            tools: ChangedFor::of(tool.roles()),
            ..Lists::default()
        })
    }

    /// Removes a prompt, and returns the lists that change. `None`: there was no such prompt.
    pub(crate) fn remove_prompt(&mut self, name: &str) -> Option<Lists> {
        let prompt = self.prompts.remove(name)?;
        Some(Lists {
            prompts: ChangedFor::of(&prompt.roles),
            ..Lists::default()
        })
    }

    /// Removes a resource or template, and returns the lists that change. `None`: there was none.
    pub(crate) fn remove_resource(&mut self, uri: &str) -> Option<Lists> {
        let removed = self.resources.remove(uri);
        let removed = removed.or_else(|| self.templates.remove(uri))?;
        Some(Lists {
            resources: ChangedFor::of(&removed.roles),
            ..Lists::default()
        })
    }

    /// Returns the numbers for the items that this caller sees and not everybody sees.
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

    /// Returns the capabilities to advertise. A kind that was never offered is left out: its methods answer *method not found*.
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

    /// Returns the tool of this name, if this caller may see it.
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

    /// Returns the tool that a caller of `name` may have meant, of those that this caller may see: a tool that other programs
    /// call `name`, else the one with the most similar spelling.
    pub(crate) fn near_tool(&self, name: &str, visibility: Visibility<'_>) -> Option<&str> {
        if name.len() > LONGEST_SLIP {
            return None;
        }
        // Clients put the name of the server before that of the tool, and models repeat the whole.
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

    /// Whether everybody sees the same tools.
    fn has_common_tools(&self, visibility: Visibility<'_>) -> bool {
        visibility.is_plain() && self.tools.values().all(|tool| tool.roles().is_everybody())
    }

    /// Whether the list that this method asks for is the same for everybody.
    pub(crate) fn is_common(&self, method: &str, visibility: Visibility<'_>) -> bool {
        let all = |list: &List<AnyResource>| list.values().all(|each| each.roles.is_everybody());
        match method {
            request::TOOLS_LIST => self.has_common_tools(visibility),
            request::PROMPTS_LIST => self.prompts.values().all(|each| each.roles.is_everybody()),
            request::RESOURCES_LIST => all(&self.resources),
            _ => all(&self.templates),
        }
    }

    /// Returns the prompt of this name, if this caller may see it.
    pub(crate) fn find_prompt(
        &self,
        name: &str,
        visibility: Visibility<'_>,
    ) -> Option<Arc<AnyPrompt>> {
        let prompt = self.prompts.get(name)?;
        visibility.includes(&prompt.roles).then_some(prompt)
    }

    /// Returns the names of the prompts that this caller may see.
    pub(crate) fn prompt_names(&self, visibility: Visibility<'_>) -> impl Iterator<Item = &str> {
        let seen = self.prompts.values();
        let seen = seen.filter(move |prompt| visibility.includes(&prompt.roles));
        seen.map(|prompt| prompt.spec.name.as_str())
    }

    /// Returns the templates that this caller may see.
    pub(crate) fn template_uris(&self, visibility: Visibility<'_>) -> impl Iterator<Item = &str> {
        let seen = self.templates.values();
        let seen = seen.filter(move |template| visibility.includes(&template.roles));
        seen.map(|template| template.spec.uri.as_str())
    }

    /// Returns the resource at this URI, if this caller may see it. If it is hidden, no other template is tried for the URI.
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

    /// Returns the resource at a URI: the one with this very URI, else the first template that matches.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<(Arc<AnyResource>, Variables)> {
        if let Some(resource) = self.resources.get(uri) {
            return Some((resource, Variables::new()));
        }
        self.matching(uri)
    }

    /// Returns the template with this text, or the one that a URI matches.
    pub(crate) fn find_template(&self, uri: &str) -> Option<Arc<AnyResource>> {
        let itself = self.templates.get(uri);
        itself.or_else(|| self.matching(uri).map(|(template, _)| template))
    }

    fn matching(&self, uri: &str) -> Option<(Arc<AnyResource>, Variables)> {
        // The text of another template is no URI, though its variables would pass for values.
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
