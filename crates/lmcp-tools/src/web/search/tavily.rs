//! Tavily: made for models, with a key.

use ::http::{HeaderValue, Method, header};
use lmcp_core::ToolResult;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Hit, Query, ask::Asker};
use crate::web::http::Request;

#[derive(Deserialize)]
struct TavilyResponse {
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct TavilyHit {
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    content: String,
    published_date: Option<String>,
}

pub(super) async fn search(asker: &Asker<'_>, query: &Query) -> ToolResult<Vec<Hit>> {
    let key = asker.key(asker.settings().tavily_key.as_ref(), "LMCP_TAVILY_KEY")?;
    let url = asker.url("https://api.tavily.com/search")?;
    let mut question = json!({ "query": query.text, "max_results": query.most.min(MOST) });
    if let Some(range) = query.time_range.name() {
        question["time_range"] = range.into();
    }
    let bearer = format!("Bearer {}", key.reveal());
    let mut bearer =
        HeaderValue::from_str(&bearer).map_err(|_| asker.error("has a key that cannot be sent"))?;
    bearer.set_sensitive(true);
    let mut request = Request::get(url)
        .header(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )
        .header(header::AUTHORIZATION, bearer);
    request.method = Method::POST;
    request.body = question.to_string().into();
    let response = asker.ask(request, Some(key)).await?;
    if matches!(response.status.as_u16(), 432 | 433) {
        return Err(asker
            .error("has used up its plan")
            .hint("the operator must raise the limit of the key"));
    }
    let answer: TavilyResponse = asker.json(&response)?;
    let hits = asker.each::<TavilyHit>(answer.results)?.into_iter();
    let hits = hits.filter_map(|found| {
        Hit::new(
            &found.title,
            &found.url,
            &found.content,
            found.published_date,
        )
    });
    Ok(hits.collect())
}

/// The most results that Tavily returns at once.
const MOST: usize = 20;
