//! `web_search`: finds pages, with the one search engine that the operator chose.
//!
//! If that engine fails, the call fails: asking another one would send the query where nobody expects it.

mod ask;
mod brave;
mod duckduckgo;
mod region;
mod searxng;
mod tavily;

use std::sync::Arc;

use lmcp_core::{Cx, Tool, ToolError, ToolResult};
use lmcp_outbound::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    html::{one_line, text_of},
    http::Deadline,
    settings::Backend,
};
use crate::{Host, answer::Answer, room::Room, schemas};
use ask::Asker;
use region::Region;

pub(crate) fn tool() -> Tool<Host> {
    schemas::tool("web_search", web_search)
        .title("Search the web")
        .about(
            "Search the web: titles, addresses and snippets, best first. Read a page itself with fetch.",
        )
        .alias("query", ["q", "search_query", "search_term"])
        .alias("max_results", ["num_results", "count", "limit"])
        .ignore(["description", "explanation"])
        .unlisted(["safesearch"])
        .also_called(["search_web", "google_search", "google_web_search", "brave_web_search"])
        .read_only()
        .open_world()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// Results at most.
    #[serde(default = "default_max_results")]
    #[schemars(range(min = 1, max = 25))]
    max_results: usize,
    /// Country and language, like `us-en`.
    #[serde(default)]
    region: String,
    /// How old a page may be.
    #[serde(default)]
    time_range: TimeRange,
    /// Default: moderate.
    safesearch: Option<SafeSearch>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TimeRange {
    #[default]
    #[serde(rename = "")]
    Any,
    Day,
    Week,
    Month,
    Year,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SafeSearch {
    Off,
    Moderate,
    Strict,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
struct WebResults {
    /// Who searched: duckduckgo, searxng, tavily or brave.
    backend: String,
    /// Best first. Empty if nothing was found.
    results: Vec<Hit>,
    /// Arguments that this backend has no way to heed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<&'static str>,
}

/// One page.
#[derive(Debug, Serialize, JsonSchema)]
struct Hit {
    /// Its title.
    title: String,
    /// Where it is.
    url: String,
    /// A few lines about it.
    snippet: String,
    /// How old it is, or from when, as the backend says.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<String>,
}

/// The question for a backend.
#[derive(Debug)]
struct Query {
    text: String,
    most: usize,
    region: Option<Region>,
    time_range: TimeRange,
    safesearch: SafeSearch,
}

async fn web_search(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<WebResults>> {
    let query = Query {
        text: args.query.trim().to_owned(),
        most: args.max_results,
        region: Region::parse(&args.region)?,
        time_range: args.time_range,
        safesearch: args.safesearch.unwrap_or(SafeSearch::Moderate),
    };
    if query.text.is_empty() {
        return Err(ToolError::new("the query is empty").hint("say what to look for"));
    }
    let backend = host.settings.web.search.backend;
    let asker = Asker::new(&host, backend, Deadline::after(TIMEOUT_S), &cx);
    let mut hits = match backend {
        Backend::DuckDuckGo => duckduckgo::search(&asker, &query).await?,
        Backend::Searxng => searxng::search(&asker, &query).await?,
        Backend::Tavily => tavily::search(&asker, &query).await?,
        Backend::Brave => brave::search(&asker, &query).await?,
    };
    hits.truncate(query.most);
    let mut ignored = Vec::new();
    if backend == Backend::Tavily {
        ignored.extend(query.region.as_ref().map(|_| "region"));
        ignored.extend(args.safesearch.map(|_| "safesearch"));
    }
    Ok(answer(backend, hits, ignored, Room::of(&cx)))
}

fn answer(
    backend: Backend,
    hits: Vec<Hit>,
    ignored: Vec<&'static str>,
    room: Room,
) -> Answer<WebResults> {
    let each = room.share(hits.len().max(1)).bytes;
    let results: Vec<Hit> = hits.into_iter().map(|hit| hit.shortened(each)).collect();
    let mut text = match results.len() {
        0 => format!("{backend} found nothing"),
        1 => format!("1 result from {backend}"),
        count => format!("{count} results from {backend}"),
    };
    if !ignored.is_empty() {
        text.push_str(&format!("; it does not know: {}", ignored.join(", ")));
    }
    for (at, hit) in results.iter().enumerate() {
        let age = hit
            .age
            .as_ref()
            .map(|age| format!(" ({age})"))
            .unwrap_or_default();
        text.push_str(&format!("\n\n{}. {}{age}\n{}", at + 1, hit.title, hit.url));
        if !hit.snippet.is_empty() {
            text.push_str(&format!("\n{}", hit.snippet));
        }
    }
    let found = WebResults {
        backend: backend.to_string(),
        results,
        ignored,
    };
    Answer::new(found, text)
}

impl Hit {
    /// Makes a hit from the HTML that a backend sent. `None` without an address of the web.
    fn from_html(title: &str, url: &str, snippet: &str, age: Option<String>) -> Option<Self> {
        Self::new(&text_of(title), url, &text_of(snippet), age)
    }

    /// Makes a hit from the text that a backend sent.
    fn new(title: &str, url: &str, snippet: &str, age: Option<String>) -> Option<Self> {
        let url = Url::parse(url).ok()?.to_string();
        let title = one_line(title);
        Some(Self {
            title: if title.is_empty() { url.clone() } else { title },
            url,
            snippet: one_line(snippet),
            age: age.filter(|age| !age.is_empty()),
        })
    }

    /// Shortens the snippet to the hit's share of the room. A long snippet is the backend's choice, and
    /// `fetch` has the page.
    fn shortened(mut self, bytes: usize) -> Self {
        let most = MOST_SNIPPET.min(bytes.saturating_sub(self.title.len() + self.url.len()));
        if self.snippet.len() > most {
            self.snippet
                .truncate(self.snippet.floor_char_boundary(most));
            self.snippet.push('…');
        }
        self
    }
}

fn default_max_results() -> usize {
    8
}

const TIMEOUT_S: u64 = 20;
const MOST_SNIPPET: usize = 1000;
