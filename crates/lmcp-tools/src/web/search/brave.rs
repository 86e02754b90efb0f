//! Brave: an index of its own, with a key.

use ::http::{HeaderName, HeaderValue, header};
use lmcp_core::ToolResult;
use serde::Deserialize;
use serde_json::Value;

use super::{Hit, Query, SafeSearch, TimeRange, ask::Asker};
use crate::web::http::Request;

#[derive(Deserialize)]
struct BraveResponse {
    /// Absent if nothing was found.
    #[serde(default)]
    web: Web,
}

#[derive(Default, Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct BraveHit {
    url: String,
    #[serde(default)]
    title: String,
    /// A text with `<strong>` around the words that were searched for.
    #[serde(default)]
    description: String,
    age: Option<String>,
}

pub(super) async fn search(asker: &Asker<'_>, query: &Query) -> ToolResult<Vec<Hit>> {
    let key = asker.key(asker.settings().brave_key.as_ref(), "LMCP_BRAVE_KEY")?;
    let url = asker.url("https://api.search.brave.com/res/v1/web/search")?;
    let count = query.most.min(MOST).to_string();
    let country = query.region.as_ref().map(super::Region::country);
    let mut parameters = vec![
        ("q", query.text.as_str()),
        ("count", &count),
        (
            "safesearch",
            match query.safesearch {
                SafeSearch::Off => "off",
                SafeSearch::Moderate => "moderate",
                SafeSearch::Strict => "strict",
            },
        ),
    ];
    if let (Some(region), Some(country)) = (&query.region, &country) {
        parameters.push(("country", country));
        parameters.push(("search_lang", region.language()));
    }
    let freshness = match query.time_range {
        TimeRange::Any => None,
        TimeRange::Day => Some("pd"),
        TimeRange::Week => Some("pw"),
        TimeRange::Month => Some("pm"),
        TimeRange::Year => Some("py"),
    };
    parameters.extend(freshness.map(|range| ("freshness", range)));
    let mut token = HeaderValue::from_str(key.reveal())
        .map_err(|_| asker.error("has a key that cannot be sent"))?;
    token.set_sensitive(true);
    let request = Request::get(url.with_query(&parameters))
        .header(header::ACCEPT, HeaderValue::from_static("application/json"))
        .header(HeaderName::from_static("x-subscription-token"), token);
    let response = asker.ask(request, Some(key)).await?;
    let answer: BraveResponse = asker.json(&response)?;
    let hits = asker.each::<BraveHit>(answer.web.results)?.into_iter();
    let hits = hits.filter_map(|found| {
        Hit::from_html(&found.title, &found.url, &found.description, found.age)
    });
    Ok(hits.collect())
}

/// The most results that Brave returns at once.
const MOST: usize = 20;
