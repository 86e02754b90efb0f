//! DuckDuckGo: its page for browsers without scripts. It needs no key and gives no promise: a client that asks
//! often meets a bot check.

use lmcp_core::{ToolError, ToolResult};
use lmcp_outbound::Url;

use super::{Hit, Query, SafeSearch, TimeRange, ask::Asker};
use crate::web::{
    html::{Token, tokens},
    http::Request,
};

pub(super) async fn search(asker: &Asker<'_>, query: &Query) -> ToolResult<Vec<Hit>> {
    let url = asker.url("https://html.duckduckgo.com/html/")?;
    let region = query.region.as_ref().map(super::Region::country_language);
    let mut parameters = vec![
        ("q", query.text.as_str()),
        ("kl", region.as_deref().unwrap_or("wt-wt")),
        (
            "kp",
            match query.safesearch {
                SafeSearch::Off => "-2",
                SafeSearch::Moderate => "-1",
                SafeSearch::Strict => "1",
            },
        ),
    ];
    let range = match query.time_range {
        TimeRange::Any => None,
        TimeRange::Day => Some("d"),
        TimeRange::Week => Some("w"),
        TimeRange::Month => Some("m"),
        TimeRange::Year => Some("y"),
    };
    parameters.extend(range.map(|range| ("df", range)));
    let response = asker
        .ask(Request::get(url.with_query(&parameters)), None)
        .await?;
    let page = String::from_utf8_lossy(&response.body);
    if matches!(response.status.as_u16(), 202 | 403 | 418) || is_bot_check(&page) {
        return Err(bot_check(asker));
    }
    asker.expect_ok(&response)?;
    let Results { hits, said_none } = read(&page);
    if hits.is_empty() && !said_none {
        return Err(asker.error("sent a page without a list of results").hint(
            "it may have changed, or this is a bot check; the operator can choose another backend",
        ));
    }
    Ok(hits)
}

fn is_bot_check(page: &str) -> bool {
    ["anomaly-modal", "anomaly.js", "challenge-form"]
        .iter()
        .any(|sign| page.contains(sign))
}

fn bot_check(asker: &Asker<'_>) -> ToolError {
    asker
        .error("wants proof that a person is asking (bot check)")
        .hint("wait a while, or let the operator choose a backend with a key or a SearXNG instance")
}

#[derive(Default)]
struct Results {
    hits: Vec<Hit>,
    /// Whether the page says that there are no results.
    said_none: bool,
}

/// Reads the list: links of class `result__a`, each followed by a `result__snippet`.
fn read(page: &str) -> Results {
    let mut results = Results::default();
    let mut reading: Option<(Piece, String)> = None;
    let mut title: Option<(String, String)> = None;
    for token in tokens(page) {
        match token {
            Token::Start(tag) if tag.has_class("no-results") => results.said_none = true,
            Token::Start(tag) if tag.name == "a" && tag.has_class("result__a") => {
                results.push(title.take(), "");
                let to = tag.get("href").unwrap_or_default().to_owned();
                reading = Some((Piece::Title(to), String::new()));
            }
            Token::Start(tag) if tag.has_class("result__snippet") => {
                reading = Some((Piece::Snippet(tag.name), String::new()));
            }
            Token::Text(text) => {
                if let Some((_, words)) = &mut reading {
                    words.push_str(&text);
                }
            }
            Token::End(name) => match reading.take() {
                Some((Piece::Title(to), words)) if name == "a" => title = Some((words, to)),
                Some((Piece::Snippet(own), words)) if name == own => {
                    results.push(title.take(), &words)
                }
                other => reading = other,
            },
            Token::Start(_) => {}
        }
    }
    results.push(title, "");
    results
}

/// The part of a result that a text belongs to.
enum Piece {
    /// The title, with the link's target.
    Title(String),
    /// The snippet, with the name of its element.
    Snippet(String),
}

impl Results {
    fn push(&mut self, title: Option<(String, String)>, snippet: &str) {
        if let Some((title, to)) = title
            && let Some(url) = target(&to)
        {
            self.hits.extend(Hit::new(&title, &url, snippet, None));
        }
    }
}

/// Returns where a result leads, without the address that counts clicks. `None` for advertisements.
fn target(to: &str) -> Option<String> {
    let base = Url::parse("https://duckduckgo.com/").ok()?;
    let url = base.join(to).ok()?;
    let counted = url.host() == base.host();
    match url.target().split('?').next() {
        Some("/y.js") if counted => None,
        Some("/l/") if counted => url.parameter("uddg"),
        _ => Some(url.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_lead_where_they_lead_and_advertisements_are_left_out() {
        let page = r#"<div id="links">
            <div class="result result--ad"><a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x">Ad</a>
              <a class="result__snippet" href="y">Buy</a></div>
            <h2><a rel="nofollow" class="result__a"
              href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2Fx%3Fy%3D1%26z&amp;rut=1">One &amp; <b>two</b></a></h2>
            <a class="result__snippet" href="x">Some <b>words</b> &lt;here&gt;.</a>
            <h2><a class="result__a" href="https://b.example/">Three</a></h2></div>"#;
        let hits = read(page).hits;
        assert_eq!(hits.len(), 2);
        assert_eq!(hits[0].url, "https://a.example/x?y=1&z");
        assert_eq!(hits[0].title, "One & two");
        assert_eq!(hits[0].snippet, "Some words <here>.");
        assert_eq!(
            (hits[1].title.as_str(), hits[1].snippet.as_str()),
            ("Three", "")
        );
    }

    #[test]
    fn a_page_that_says_there_are_none_is_believed() {
        let none = read(r#"<div class="no-results">No results.</div>"#);
        assert!(none.said_none && none.hits.is_empty());
        assert!(!read("<html></html>").said_none);
    }
}
