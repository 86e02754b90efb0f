//! SearXNG: an instance that the operator runs, asked for JSON.

use ::http::{HeaderValue, header};
use lmcp_core::ToolResult;
use lmcp_outbound::Url;
use serde::Deserialize;
use serde_json::Value;

use super::{Hit, Query, SafeSearch, TimeRange, ask::Asker};
use crate::web::http::Request;

#[derive(Deserialize)]
struct SearxngResponse {
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct SearxngHit {
    url: Option<String>,
    title: Option<String>,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published: Option<String>,
}

pub(super) async fn search(asker: &Asker<'_>, query: &Query) -> ToolResult<Vec<Hit>> {
    let Some(base) = &asker.settings().searxng_url else {
        return Err(asker
            .error("is chosen but has no address")
            .hint("the operator must set LMCP_SEARXNG_URL, or choose another backend"));
    };
    let base = Url::parse(base).map_err(|_| asker.error("has no usable address"))?;
    let language = query.region.as_ref().map(super::Region::locale);
    let mut parameters = vec![
        ("q", query.text.as_str()),
        ("format", "json"),
        (
            "safesearch",
            match query.safesearch {
                SafeSearch::Off => "0",
                SafeSearch::Moderate => "1",
                SafeSearch::Strict => "2",
            },
        ),
    ];
    parameters.extend(language.as_deref().map(|language| ("language", language)));
    parameters.extend(query.time_range.name().map(|range| ("time_range", range)));
    let request = Request::get(base.below("/search").with_query(&parameters))
        .header(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = asker.ask(request, None).await?;
    if response.status.as_u16() == 403 {
        return Err(asker.error("refuses to answer in JSON (403)").hint(
            "the operator must add `json` to `search.formats` in the instance's settings.yml",
        ));
    }
    let answer: SearxngResponse = asker.json(&response)?;
    let hits = asker.each::<SearxngHit>(answer.results)?.into_iter();
    let hits = hits.filter_map(|found| {
        let (title, snippet) = (
            found.title.unwrap_or_default(),
            found.content.unwrap_or_default(),
        );
        Hit::new(&title, &found.url?, &snippet, found.published)
    });
    Ok(hits.collect())
}

impl TimeRange {
    /// Returns the name of the range at SearXNG and Tavily.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::Day => Some("day"),
            Self::Week => Some("week"),
            Self::Month => Some("month"),
            Self::Year => Some("year"),
        }
    }
}
