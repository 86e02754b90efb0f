//! `fetch`: reads a page, an image or JSON from the web.

mod cache;
mod charset;
mod follow;
mod json;
mod kind;
mod page;
mod report;

use std::sync::Arc;

use lmcp_core::{Cx, Tool, ToolResult};
use lmcp_outbound::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use cache::Cache;

use super::{http::Deadline, no_url};
use crate::{Host, answer::Answer, blocking::blocking, schemas};
use page::Draft;
use report::{Continuity, Fetched, Part};

pub(crate) fn tool() -> Tool<Host> {
    schemas::tool("fetch", fetch)
        .title("Fetch a web page")
        .about(
            "Get a web page, JSON or image by http(s), as readable text; long ones in parts. Public addresses only, without \
             cookies. To find pages use web_search.",
        )
        .alias("url", ["uri", "link", "href", "address"])
        .alias("max_bytes", ["max_length"])
        .alias("start", ["start_index"])
        .alias("timeout_s", ["timeout", "timeout_seconds"])
        .ignore(["prompt", "description", "explanation"])
        .unlisted(["method", "max_bytes", "timeout_s", "user_agent"])
        .also_called(["web_fetch", "fetch_url", "curl", "wget", "http_get", "get_url", "read_url"])
        .read_only()
        .open_world()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    url: String,
    /// GET, or HEAD for the status and headers alone.
    #[serde(default)]
    method: Method,
    /// How HTML comes; `html` is without scripts.
    #[serde(default)]
    render: Render,
    /// Bytes of text in one part.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 256, max = 1_048_576))]
    max_bytes: usize,
    /// `next_start`, to go on.
    #[serde(default)]
    start: usize,
    /// How long everything may take, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 120))]
    timeout_s: u64,
    /// How to introduce ourselves to the site.
    #[schemars(length(min = 1, max = 512))]
    user_agent: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
enum Method {
    #[default]
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "HEAD")]
    Head,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Render {
    #[default]
    Plain,
    Html,
    Raw,
    Markdown,
}

async fn fetch(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Fetched>> {
    let settings = &host.settings.web;
    let url = Url::parse(&args.url).map_err(|flaw| no_url(&flaw, &args.url))?;
    let url = url.without_fragment();
    let user_agent = args.user_agent.as_ref().unwrap_or(&settings.user_agent);
    let cache = &host.web.cache;
    let key = cache.key(&cx, &url, args.method, args.render, user_agent);
    // The first part is always fetched anew; the other parts belong to that download.
    let known = match args.start {
        0 => None,
        _ => cache.find(&key),
    };
    let part = Part {
        start: args.start,
        max_bytes: args.max_bytes,
        cached: true,
        continuity: Continuity::Same,
    };
    if let Some(page) = known.as_ref().and_then(|known| known.page.as_ref()) {
        return Ok(report::answer(page, part, &cx).0);
    }
    let deadline = Deadline::after(args.timeout_s);
    let download = follow::download(
        url,
        args.method,
        args.render,
        user_agent,
        &host,
        deadline,
        &cx,
    )
    .await?;
    let limit = settings.page_bytes.min(settings.cache_bytes);
    let mut draft = blocking(&cx, move || Draft::of(download, limit)).await?;
    draft.make_room(&cx).await;
    let page = blocking(&cx, move || draft.finish(args.render, limit, deadline)).await?;
    let page = Arc::new(page);
    let continuity = match &known {
        _ if args.start == 0 => Continuity::Same,
        Some(known) if known.fingerprint == page.fingerprint() => Continuity::Same,
        Some(_) => Continuity::Changed,
        None => Continuity::Unknown,
    };
    let part = Part {
        cached: false,
        continuity,
        ..part
    };
    let (answer, is_whole) = report::answer(&page, part, &cx);
    cache.forget(&key);
    if !is_whole {
        cache.keep(key, page);
    }
    Ok(answer)
}

fn default_max_bytes() -> usize {
    65536
}

fn default_timeout() -> u64 {
    20
}
