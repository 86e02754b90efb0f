//! Downloads an address, through redirects: every one of them is checked like the first.

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::{Scheme, Url};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Method, Render, kind::Kind};
use crate::{
    Host, image,
    web::{
        allow::Guard,
        html::one_line,
        http::{Deadline, Request, Response},
        no_url,
        settings::Web,
    },
};

/// The response, and the way to it.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) response: Response,
    pub(super) redirects: Vec<Redirect>,
    /// Whether a redirect led from `https` to `http`.
    pub(super) downgraded: bool,
}

/// One step of the way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Redirect {
    /// The HTTP status that redirected.
    status: u16,
    /// Where to.
    pub(super) url: String,
}

/// Sends the request, and follows redirects.
pub(super) async fn download(
    mut url: Url,
    method: Method,
    render: Render,
    user_agent: &str,
    host: &Host,
    deadline: Deadline,
    cx: &Cx,
) -> ToolResult<Download> {
    let settings = &host.settings.web;
    let guard = Guard {
        allow: &settings.allow,
    };
    let user_agent = HeaderValue::from_str(user_agent).map_err(|_| {
        ToolError::new("the user agent cannot be sent").hint("use plain text on one line")
    })?;
    let mut way = vec![url.to_string()];
    let mut redirects = Vec::new();
    let mut downgraded = false;
    loop {
        let mut request = Request::get(url.clone())
            .header(header::USER_AGENT, user_agent.clone())
            .header(header::ACCEPT, HeaderValue::from_static(accepted(render)));
        if method == Method::Head {
            request.method = ::http::Method::HEAD;
        }
        let appetite = |status, headers: &HeaderMap| wanted(settings, status, headers);
        let response = request
            .send(guard, &host.web.outbound, deadline, &appetite, cx)
            .await
            .map_err(|err| on_the_way(&err, &way))?;
        let Some(next) = redirect(&url, &response, &way)? else {
            return Ok(Download {
                url,
                method,
                response,
                redirects,
                downgraded,
            });
        };
        if redirects.len() == MOST_REDIRECTS {
            let err = ToolError::new(format!(
                "more than {MOST_REDIRECTS} redirects, the last one to `{next}`"
            ))
            .hint("they may go in a circle; fetch that address if not");
            return Err(on_the_way(&err, &way));
        }
        downgraded |= (url.scheme(), next.scheme()) == (Scheme::Https, Scheme::Http);
        redirects.push(Redirect {
            status: response.status.as_u16(),
            url: next.to_string(),
        });
        way.push(next.to_string());
        url = next;
    }
}

/// Adds the redirects on the way to a failure: the caller did not ask for the address that failed.
fn on_the_way(err: &ToolError, way: &[String]) -> ToolError {
    let words = err.to_string();
    let (what, hint) = match words.split_once("\nhint: ") {
        Some((what, hint)) => (what, Some(hint.to_owned())),
        None => (words.as_str(), None),
    };
    let mut err = match way {
        [_] => ToolError::new(what.to_owned()),
        _ => ToolError::new(format!("{what}, redirected from {}", way.join(" to "))),
    };
    if let Some(hint) = hint {
        err = err.hint(hint);
    }
    err
}

/// Returns where a response leads, if it is a redirect.
fn redirect(from: &Url, response: &Response, way: &[String]) -> ToolResult<Option<Url>> {
    if !is_redirect(response.status) {
        return Ok(None);
    }
    let Some(location) = response.headers.get(header::LOCATION) else {
        return Ok(None);
    };
    // Some servers write UTF-8 here, and browsers read it.
    let location = String::from_utf8_lossy(location.as_bytes());
    let next = from.join(&location).map_err(|flaw| {
        let way = [way, &[one_line(&location)]].concat();
        on_the_way(&no_url(&flaw, &location), &way)
    })?;
    Ok(Some(next.without_fragment()))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns how many bytes of a body are of use: none if it cannot be shown.
fn wanted(settings: &Web, status: StatusCode, headers: &HeaderMap) -> usize {
    if is_redirect(status) && headers.contains_key(header::LOCATION) {
        return 0;
    }
    match Kind::by_headers(headers) {
        Kind::Html | Kind::Json | Kind::Text | Kind::Unknown => settings.page_bytes,
        Kind::Image => settings.image_bytes.min(image::MOST_BYTES),
        Kind::Binary => 0,
    }
}

/// Returns the preferred media types. Some sites have Markdown for clients that ask for it.
fn accepted(render: Render) -> &'static str {
    match render {
        Render::Markdown => {
            "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, */*;q=0.5"
        }
        Render::Plain | Render::Html | Render::Raw => "text/html, application/xhtml+xml, */*;q=0.5",
    }
}

const MOST_REDIRECTS: usize = 5;
