//! Asks a backend one question, and handles the ways in which it may fail.

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Host,
    web::{
        allow::{Allow, Guard},
        html::one_line,
        http::{Deadline, Ending, Request, Response},
        no_url,
        settings::{Backend, Search, Secret},
    },
};

pub(super) struct Asker<'a> {
    host: &'a Host,
    backend: Backend,
    deadline: Deadline,
    cx: &'a Cx,
}

impl<'a> Asker<'a> {
    pub(super) fn new(host: &'a Host, backend: Backend, deadline: Deadline, cx: &'a Cx) -> Self {
        Self {
            host,
            backend,
            deadline,
            cx,
        }
    }

    pub(super) fn settings(&self) -> &'a Search {
        &self.host.settings.web.search
    }

    /// Returns the address of the backend.
    pub(super) fn url(&self, usual: &str) -> ToolResult<Url> {
        let text = self.settings().base_url.as_deref().unwrap_or(usual);
        Url::parse(text).map_err(|flaw| {
            self.error("has no usable address")
                .source_text(&no_url(&flaw, text))
        })
    }

    /// Returns the key for the backend.
    pub(super) fn key(&self, key: Option<&'a Secret>, variable: &str) -> ToolResult<&'a Secret> {
        key.ok_or_else(|| {
            let hint = format!("the operator must set {variable}, or choose another backend");
            self.error("is chosen but has no key").hint(hint)
        })
    }

    /// Sends the request, and returns the response. Redirects are not followed: they would carry the key away.
    pub(super) async fn ask(&self, request: Request, key: Option<&Secret>) -> ToolResult<Response> {
        // The operator chose this address, so it may be a private one.
        let mut allow = self.host.settings.web.allow.clone();
        if self.backend == Backend::Searxng || self.settings().base_url.is_some() {
            allow.push(Allow::exactly(&request.url));
        }
        // No model chose the address, so a proxy may look up a name that is not found here.
        allow.push(Allow::by_proxy());
        let guard = Guard { allow: &allow };
        let request = request
            .by_operator()
            .header(header::USER_AGENT, HeaderValue::from_static(USER_AGENT))
            .header(
                header::ACCEPT_LANGUAGE,
                HeaderValue::from_static("en;q=0.5, *;q=0.1"),
            );
        let appetite = |_: StatusCode, _: &HeaderMap| MOST_BYTES;
        let sent = request
            .send(
                guard,
                &self.host.web.outbound,
                self.deadline,
                &appetite,
                self.cx,
            )
            .await;
        let mut response =
            sent.map_err(|err| self.error("could not be asked").source_text(&err))?;
        if let Some(key) = key {
            redact(&mut response.body, key.reveal().as_bytes());
        }
        match &response.ending {
            Ending::Whole => Ok(response),
            Ending::TooLong => Err(self.error("sent more than any list of results holds")),
            Ending::Broken(err) => Err(self.error("could not be asked").source_text(err)),
        }
    }

    /// Reads the body of a response with status 200 as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self, response: &Response) -> ToolResult<T> {
        self.expect_ok(response)?;
        serde_json::from_slice(&response.body)
            .map_err(|err| self.error("sent no JSON that can be read").source(err))
    }

    /// Reads each result by itself: one that cannot be read is left out. Fails only if none can be read.
    pub(super) fn each<T: DeserializeOwned>(&self, results: Vec<Value>) -> ToolResult<Vec<T>> {
        let (mut read, mut failed) = (Vec::with_capacity(results.len()), None);
        for result in results {
            match serde_json::from_value(result) {
                Ok(result) => read.push(result),
                Err(err) => failed = Some(err),
            }
        }
        match failed {
            Some(err) if read.is_empty() => {
                Err(self.error("sent no result that can be read").source(err))
            }
            _ => Ok(read),
        }
    }

    /// Fails for any status but 200.
    pub(super) fn expect_ok(&self, response: &Response) -> ToolResult<()> {
        let status = response.status.as_u16();
        let said = excerpt(&response.body);
        Err(match status {
            200 => return Ok(()),
            429 => self
                .error("was asked too often (429)")
                .hint("wait a while before the next search"),
            401 | 403 => self
                .error(format!("refused the request ({status}){said}"))
                .hint("the operator must check the key or the instance"),
            300..=399 => {
                let to = response
                    .headers
                    .get(header::LOCATION)
                    .map(|to| one_line(&String::from_utf8_lossy(to.as_bytes())));
                self.error(format!(
                    "redirects ({status}) to `{}`",
                    to.unwrap_or_default()
                ))
                .hint("the operator must configure the final address")
            }
            _ => self.error(format!("answered with status {status}{said}")),
        })
    }

    /// Returns an error that begins with the backend: `the search backend brave …`.
    pub(super) fn error(&self, what: impl std::fmt::Display) -> ToolError {
        ToolError::new(format!("the search backend {} {what}", self.backend))
    }
}

/// Adds a cause as words, if it is no `std::error::Error`.
trait SourceText {
    fn source_text(self, cause: &ToolError) -> ToolError;
}

impl SourceText for ToolError {
    fn source_text(self, cause: &ToolError) -> ToolError {
        Self::new(format!("{self}: {cause}"))
    }
}

/// Returns the beginning of a backend's words about an error.
fn excerpt(body: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&body[..body.len().min(2000)]);
    let words = crate::web::html::text_of(&begin);
    let words: String = words.chars().take(200).collect();
    if words.is_empty() {
        words
    } else {
        format!(": {words}")
    }
}

/// Removes a key from a response that repeats it.
fn redact(body: &mut Vec<u8>, key: &[u8]) {
    let mut from = 0;
    while let Some(at) = body[from..]
        .windows(key.len().max(1))
        .position(|window| window == key)
    {
        let at = from + at;
        body.splice(at..at + key.len(), b"[key]".iter().copied());
        from = at + b"[key]".len();
    }
}

/// An honest name, in the form that sites expect of clients that are no browsers.
const USER_AGENT: &str = concat!(
    "Mozilla/5.0 (compatible; lmcp/",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// The most bytes of a response. 2 MiB: ten times what the largest backend sends.
const MOST_BYTES: usize = 2 * 1024 * 1024;
