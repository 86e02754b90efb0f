//! One request, one connection, one response: to an address that was checked, within limits and a
//! deadline.
//!
//! Dropping the future closes the connection.

mod body;
mod deadline;
mod memory;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request, response};
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::{Connection, Error, Failed, Outbound, Url};

pub(crate) use deadline::Deadline;
pub(crate) use memory::Memory;

use super::allow::Guard;

/// A request to an address.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) chosen_by: ChosenBy,
}

/// The one who chose the address, and so can change it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChosenBy {
    Model,
    Operator,
}

/// The response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The decoded body.
    pub(crate) body: Vec<u8>,
    /// Whether the body is complete.
    pub(crate) ending: Ending,
    /// The memory that is reserved for the body.
    pub(crate) memory: Memory,
}

/// How a body ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Whole,
    /// The body was longer than the limit.
    TooLong,
    /// Time ran out, the connection broke, or the compressed data is broken.
    Broken(ToolError),
}

/// Returns how many bytes of a body are wanted, by its status and headers. Nothing is read if that is 0.
pub(crate) type Appetite<'a> = &'a (dyn Fn(StatusCode, &HeaderMap) -> usize + Send + Sync);

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            chosen_by: ChosenBy::Model,
        }
    }

    /// Marks the request as one to an address that no model knows.
    #[must_use]
    pub(crate) fn by_operator(self) -> Self {
        Self {
            chosen_by: ChosenBy::Operator,
            ..self
        }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends the request and reads the response.
    ///
    /// # Errors
    /// In words for the model: the step that failed, and why.
    pub(crate) async fn send(
        self,
        guard: Guard<'_>,
        outbound: &Outbound,
        deadline: Deadline,
        appetite: Appetite<'_>,
        cx: &Cx,
    ) -> ToolResult<Response> {
        let connected = outbound.connect(&self.url, &guard, deadline.at()).await;
        let connection = connected.map_err(|err| self.no_way(&err, deadline))?;
        self.exchange(connection, deadline, appetite, cx).await
    }

    async fn exchange(
        self,
        mut connection: Connection,
        deadline: Deadline,
        appetite: Appetite<'_>,
        cx: &Cx,
    ) -> ToolResult<Response> {
        let host = self.url.authority();
        let request = self.into_http()?;
        let answer = connection.send(request, std::future::pending());
        let answer = deadline
            .limit(&format!("waiting for the answer of `{host}`"), answer)
            .await?
            .map_err(|err| match err {
                Failed::Refused(err) => ToolError::new(err.to_string()),
                err => ToolError::new(format!("`{host}` gave no valid answer")).source(err),
            })?;
        let (
            response::Parts {
                status, headers, ..
            },
            incoming,
        ) = answer.into_parts();
        let limit = appetite(status, &headers);
        let from = body::From {
            host: &host,
            deadline,
            cx,
        };
        let (body, ending, memory) = body::read(incoming, &headers, limit, from).await?;
        Ok(Response {
            status,
            headers,
            body,
            ending,
            memory,
        })
    }

    fn into_http(self) -> ToolResult<http::Request<Bytes>> {
        let uri = http::Uri::try_from(self.url.target().as_ref()).map_err(|err| {
            ToolError::new(format!("`{}` cannot be asked for", self.url)).source(err)
        })?;
        let host = HeaderValue::from_str(&self.url.authority())?;
        let mut parts = request::Builder::new().method(self.method).uri(uri);
        if let Some(headers) = parts.headers_mut() {
            headers.insert(header::HOST, host);
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            headers.insert(
                header::ACCEPT_ENCODING,
                HeaderValue::from_static("gzip, deflate"),
            );
            headers.extend(self.headers);
        }
        Ok(parts.body(self.body)?)
    }

    /// Returns why there is no connection, for the model.
    fn no_way(&self, err: &Error, deadline: Deadline) -> ToolError {
        let host = self.url.authority();
        let hint = match (err, self.chosen_by) {
            (Error::Late(step), _) => return deadline.over(step),
            (Error::Forbidden(_), _) => format!(
                "the operator can allow it with `--fetch-allow {host}`; where commands may run, `curl` in `shell` reaches it"
            ),
            (Error::Unchecked(_), _) => format!(
                "the operator can allow it with `--fetch-allow {host}`, or all names that only the proxy finds with `--fetch-allow proxy:*`"
            ),
            (Error::NotFound(_), ChosenBy::Model) => "check the host name, and whether this machine is online".into(),
            (Error::NotFound(_), ChosenBy::Operator) => "this machine may be offline; if it is not, the operator must check the address".into(),
            (Error::Insecure(_), _) => "the site's certificate may be wrong or unknown; the operator can trust more with SSL_CERT_FILE".into(),
            _ => return ToolError::new(err.to_string()),
        };
        ToolError::new(err.to_string()).hint(hint)
    }
}
