//! The lists that clients see, made from the lists of all servers. No I/O.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use lmcp_core::Page;
use lmcp_wire::members::Members;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    config::ServerConfig,
    items::text,
    lazy::Sought,
    limits::{INSTRUCTIONS, NOTES},
    listing::Listing,
    names::{AllNames, Prefixes, fnv, marked},
    review::Review,
};

/// The part of the catalogue that comes from one server.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) name: &'a Arc<str>,
    /// The beginning of its names and URIs.
    pub(crate) prefix: &'a str,
    pub(crate) slug: &'a str,
    /// `None` for a mounted service: all its tools are offered.
    pub(crate) config: Option<&'a ServerConfig>,
    pub(crate) listing: &'a Listing,
    /// `Some` for a pinned server: a tool that differs from what somebody saw is not shown.
    pub(crate) review: Option<&'a Review>,
}

/// The server that has an item, and the name of the item there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) server: Arc<str>,
    pub(crate) own: String,
}

/// The names and lists that clients see.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) tools: HashMap<String, Place>,
    pub(crate) prompts: HashMap<String, Place>,
    /// Tools that are not shown until somebody approves them, each with the reason.
    pub(crate) held: HashMap<String, (Place, String)>,
    /// The tools one by one.
    pub(crate) items: Vec<Box<RawValue>>,
    /// The tools one by one, for a hub that offers them lazily.
    pub(crate) entries: Vec<Sought>,
    /// The schemas of tools whose clients repeat arguments in headers.
    pub(crate) mirrored: HashMap<String, Box<RawValue>>,
    pub(crate) lists: Lists,
    pub(crate) instructions: Option<String>,
    /// The items that were left out or mended, by server.
    pub(crate) notes: Vec<(Arc<str>, String)>,
}

/// The lists, each of them as finished text.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) tools: List,
    pub(crate) prompts: List,
    pub(crate) resources: List,
    pub(crate) templates: List,
}

#[derive(Debug)]
pub(crate) struct List {
    pub(crate) page: Page,
    /// A sum over the text of the list: if it differs, the list is another one.
    pub(crate) sum: u64,
}

impl View {
    pub(crate) fn new(parts: &[Part<'_>], prefixes: &Prefixes) -> Self {
        let mut merging = Merging {
            names: AllNames::new(prefixes),
            notes: Vec::new(),
            mirrored: HashMap::new(),
            held: HashMap::new(),
        };
        let (mut tools, mut prompts) = (Named::default(), Named::default());
        let (mut resources, mut templates) = (Vec::new(), Vec::new());
        let mut instructions = Vec::new();
        for part in parts {
            for words in &part.listing.left_out {
                merging.note(part, words.clone());
            }
            // The operator's name for a tool always wins, whatever other tools the server has.
            for (own, label) in part.config.iter().flat_map(|config| &config.rename) {
                merging.names.tools.give(part.prefix, own, label);
            }
            for tool in &part.listing.tools {
                merging.tool(part, tool, &mut tools);
            }
            for prompt in &part.listing.prompts {
                merging.prompt(part, prompt, &mut prompts);
            }
            resources.extend(merging.uris(part, &part.listing.resources, "uri"));
            templates.extend(merging.uris(part, &part.listing.templates, "uriTemplate"));
            if let Some(trouble) = part.review.and_then(|review| review.trouble.as_ref()) {
                merging.note(part, format!("nothing of it is shown: {trouble}"));
            }
            let is_vouched_for = part.review.is_none_or(Review::vouches_for_instructions);
            if let Some(said) = part
                .listing
                .instructions
                .as_ref()
                .filter(|_| is_vouched_for)
            {
                let said: String = said.trim().chars().take(INSTRUCTIONS).collect();
                instructions.push(format!("{}: {said}", part.name));
            }
        }
        Self {
            lists: Lists {
                tools: List::new("tools", &tools.items),
                prompts: List::new("prompts", &prompts.items),
                resources: List::new("resources", &resources),
                templates: List::new("resourceTemplates", &templates),
            },
            mirrored: merging.mirrored,
            held: merging.held,
            items: tools.items,
            entries: Vec::new(),
            tools: tools.places,
            prompts: prompts.places,
            instructions: (!instructions.is_empty()).then(|| instructions.join("\n\n")),
            notes: merging.notes,
        }
    }
}

impl List {
    fn new(member: &str, items: &[Box<RawValue>]) -> Self {
        let sum = items.iter().fold(0_u64, |sum, item| {
            sum.rotate_left(5).wrapping_mul(31) ^ fnv(item.get())
        });
        Self {
            page: Page::new(member, items, None),
            sum,
        }
    }
}

/// Items that have names, in their order.
#[derive(Default)]
struct Named {
    items: Vec<Box<RawValue>>,
    places: HashMap<String, Place>,
}

impl Named {
    fn add(&mut self, part: &Part<'_>, own: &str, name: String, item: &Members<'_>) {
        let Ok(item) = to_raw_value(item) else {
            return;
        };
        let place = Place {
            server: Arc::clone(part.name),
            own: own.to_owned(),
        };
        // If a server uses a name twice, only the first item gets it.
        if let Entry::Vacant(free) = self.places.entry(name) {
            free.insert(place);
            self.items.push(item);
        }
    }
}

struct Merging<'a> {
    names: AllNames<'a>,
    notes: Vec<(Arc<str>, String)>,
    mirrored: HashMap<String, Box<RawValue>>,
    held: HashMap<String, (Place, String)>,
}

impl Merging<'_> {
    fn tool(&mut self, part: &Part<'_>, tool: &RawValue, tools: &mut Named) {
        let Some((own, mut members)) = named(tool) else {
            return self.note(part, "a tool without a name is left out".to_owned());
        };
        if part.config.is_some_and(|config| !config.offers(&own)) {
            return;
        }
        match mended(members.get("inputSchema")) {
            Mended::Good => {}
            Mended::With(schema) => {
                members.set("inputSchema", &schema);
                self.note(part, format!("the schema of `{own}` did not say `object`"));
            }
            Mended::Not => {
                let words = format!("`{own}` is left out: its schema is none of an object");
                return self.note(part, words);
            }
        }
        let label = part.config.map_or(&*own, |config| config.label(&own));
        let name = self.names.tools.give(part.prefix, &own, label);
        if let Some(why) = part.review.and_then(|review| review.against(&own)) {
            let server = Arc::clone(part.name);
            self.held.insert(name, (Place { server, own }, why));
            return;
        }
        members.set("name", &name);
        if let Some(schema) = members.get("inputSchema")
            && schema.get().contains("x-mcp-header")
        {
            self.mirrored.insert(name.clone(), schema.to_owned());
        }
        mark_page(&mut members, part.slug);
        tools.add(part, &own, name, &members);
    }

    fn prompt(&mut self, part: &Part<'_>, prompt: &RawValue, prompts: &mut Named) {
        let Some((own, mut members)) = named(prompt) else {
            return self.note(part, "a prompt without a name is left out".to_owned());
        };
        let name = self.names.prompts.give(part.prefix, &own, &own);
        members.set("name", &name);
        prompts.add(part, &own, name, &members);
    }

    fn uris(
        &mut self,
        part: &Part<'_>,
        items: &[Box<RawValue>],
        member: &'static str,
    ) -> Vec<Box<RawValue>> {
        let mut all = Vec::new();
        for item in items {
            let Ok(mut members) = Members::read(item.get()) else {
                continue;
            };
            let Some(own) = text(members.get(member)) else {
                self.note(part, format!("a resource without `{member}` is left out"));
                continue;
            };
            members.set(member, &marked(part.slug, &own));
            all.extend(to_raw_value(&members));
        }
        all
    }

    fn note(&mut self, part: &Part<'_>, words: String) {
        if self.notes.len() < NOTES {
            self.notes.push((Arc::clone(part.name), words));
        }
    }
}

/// Returns the name of an item of a list, and its members.
fn named(item: &RawValue) -> Option<(String, Members<'_>)> {
    let members = Members::read(item.get()).ok()?;
    let name = text(members.get("name")).filter(|name| !name.is_empty())?;
    Some((name, members))
}

enum Mended {
    Good,
    With(Box<RawValue>),
    Not,
}

/// Makes sure that a schema of arguments says `object`: a client that finds another schema may drop all tools.
fn mended(schema: Option<&RawValue>) -> Mended {
    let Some(schema) = schema else {
        return raw(&serde_json::json!({ "type": "object" }));
    };
    let Ok(mut members) = Members::read(schema.get()) else {
        return Mended::Not;
    };
    match members.get("type") {
        Some(kind) if kind.get() == "\"object\"" => Mended::Good,
        Some(_) => Mended::Not,
        None => {
            members.set("type", "object");
            raw(&members)
        }
    }
}

fn raw(schema: &impl Serialize) -> Mended {
    to_raw_value(schema).map_or(Mended::Not, Mended::With)
}

/// Rewrites the URI of the page that shows what a tool does. The page is a resource of its server.
fn mark_page(tool: &mut Members<'_>, slug: &str) {
    let Some(meta) = tool.get("_meta").map(ToOwned::to_owned) else {
        return;
    };
    let Ok(mut meta) = Members::read(meta.get()) else {
        return;
    };
    if let Some(uri) = text(meta.get("ui/resourceUri")) {
        meta.set("ui/resourceUri", &marked(slug, &uri));
    }
    let page = meta.get("ui").map(ToOwned::to_owned);
    if let Some(mut page) = page
        .as_ref()
        .and_then(|page| Members::read(page.get()).ok())
        && let Some(uri) = text(page.get("resourceUri"))
    {
        page.set("resourceUri", &marked(slug, &uri));
        meta.set("ui", &page);
    }
    tool.set("_meta", &meta);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn listing(tools: &[Value], resources: &[Value]) -> Listing {
        let all = |items: &[Value]| {
            items
                .iter()
                .map(|item| to_raw_value(item).unwrap())
                .collect()
        };
        Listing {
            tools: all(tools),
            resources: all(resources),
            ..Listing::default()
        }
    }

    fn view(servers: &[(&str, Option<ServerConfig>, Listing)]) -> View {
        let names: Vec<Arc<str>> = servers.iter().map(|(name, ..)| Arc::from(*name)).collect();
        let parts: Vec<_> = servers
            .iter()
            .zip(&names)
            .map(|((slug, config, listing), name)| Part {
                name,
                prefix: slug,
                slug,
                config: config.as_ref(),
                listing,
                review: None,
            })
            .collect();
        View::new(&parts, &Prefixes::new(parts.iter().map(|part| part.prefix)))
    }

    #[test]
    fn the_tools_of_all_are_one_list_and_lead_back() {
        let tool = json!({ "name": "log", "inputSchema": { "type": "object" }, "x": [1] });
        let view = view(&[
            ("a", None, listing(std::slice::from_ref(&tool), &[])),
            ("b", None, listing(&[tool], &[])),
        ]);
        let place = &view.tools["b__log"];
        assert_eq!((&*place.server, &*place.own), ("b", "log"));
        assert_eq!(view.tools.len(), 2);
        let text = format!("{:?}", view.lists.tools.page);
        assert!(!text.is_empty() && view.notes.is_empty());
    }

    #[test]
    fn a_broken_schema_is_mended_or_its_tool_left_out_and_that_is_said() {
        let tools = [
            json!({ "name": "none" }),
            json!({ "name": "untyped", "inputSchema": { "properties": {} } }),
            json!({ "name": "text", "inputSchema": { "type": "string" } }),
            json!({ "name": "no", "inputSchema": 1 }),
            json!({ "inputSchema": {} }),
        ];
        let view = view(&[("a", None, listing(&tools, &[]))]);
        let mut names: Vec<_> = view.tools.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["a__none", "a__untyped"]);
        assert_eq!(view.notes.len(), 5, "{:?}", view.notes);
    }

    #[test]
    fn filters_and_other_labels_hold() {
        let mut config = ServerConfig::new(crate::Reach::Socket("/x".into()));
        config.tools = vec!["-drop".to_owned()];
        config.rename = [("keep".to_owned(), "kept".to_owned())].into();
        let tools = ["keep", "drop"]
            .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
        let view = view(&[("a", Some(config), listing(&tools, &[]))]);
        assert_eq!(view.tools.keys().collect::<Vec<_>>(), ["a__kept"]);
        assert_eq!(view.tools["a__kept"].own, "keep");
    }

    /// Many clients read the last of two members with the same name.
    #[test]
    fn an_item_that_says_something_twice_is_left_out_and_that_is_said() {
        for tool in [
            r#"{"name":"a","description":"seen","description":"other"}"#,
            r#"{"name":"a","description":"seen","descripti\u006fn":"other"}"#,
            r#"{"name":"a","name":"two__a"}"#,
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"title":"1","title":"other"}}}}"#,
            r#"{"name":"a","inputSchema":{"type":"object","enum":[{"a":1,"a":2}]}}"#,
            r#"{"name":"a","description":"\ud800"}"#,
            r#"{"name":"a","inputSchema":{"type":"object","default":1e999}}"#,
        ] {
            let kept = format!(
                r#"{{"tools":[{tool},{{"name":"b"}}],"resources":[{{"uri":"x://1","uri":"two+x://1","name":"n"}}]}}"#
            );
            let listing: Listing = serde_json::from_str(&kept).unwrap();
            let view = view(&[("one", None, listing)]);
            assert_eq!(view.tools.keys().collect::<Vec<_>>(), ["one__b"], "{tool}");
            let shown = format!("{:?}{:?}", view.items, view.lists);
            assert!(!shown.contains("two"), "{shown}");
            let (_, words) = &view.notes[0];
            assert!(words.contains("`a` is left out"), "{words}");
        }
    }

    #[test]
    fn a_list_that_differs_has_another_sum() {
        let [one, two] = ["x://1", "x://2"].map(|uri| json!({ "uri": uri, "name": "n" }));
        let sum = |all: &[Value]| view(&[("a", None, listing(&[], all))]).lists.resources.sum;
        assert_eq!(
            sum(&[one.clone(), two.clone()]),
            sum(&[one.clone(), two.clone()])
        );
        assert_ne!(sum(&[one.clone(), two.clone()]), sum(&[two, one]));
    }
}
