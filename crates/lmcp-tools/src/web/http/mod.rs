//! One request, one connection, one answer: to an address that was checked, within limits and a deadline.
//!
//! There is no pool. A pool saves a handshake now and then, and would have to know which connection goes to which checked
//! address. Nothing is spawned either: dropping the future closes the connection.

mod body;
mod connect;
mod deadline;
mod memory;
mod tls;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request, response};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lmcp_core::{Cx, ToolError, ToolResult};

pub(crate) use deadline::Deadline;
pub(crate) use memory::Memory;
pub(crate) use tls::Tls;

use super::{allow::Guard, url::Url};
use connect::Stream;

/// What is asked of whom.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Decoded.
    pub(crate) body: Vec<u8>,
    /// Is that all of it?
    pub(crate) ending: Ending,
    /// Set aside for it.
    pub(crate) memory: Memory,
}

/// How a body ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Whole,
    /// There was more than the limit.
    TooLong,
    /// Time ran out, the connection broke, or what was compressed is broken.
    Broken(ToolError),
}

/// How much of a body is wanted, by what its head says. Nothing is read if that is 0.
pub(crate) type Appetite<'a> = &'a (dyn Fn(StatusCode, &HeaderMap) -> usize + Send + Sync);

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    #[must_use]
    pub(crate) fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends it and reads the answer.
    ///
    /// # Errors
    /// In words for the model: which step failed, and why.
    pub(crate) async fn send(
        self,
        guard: Guard<'_>,
        tls: &Tls,
        deadline: Deadline,
        appetite: Appetite<'_>,
        cx: &Cx,
    ) -> ToolResult<Response> {
        let stream = connect::connect(&self.url, guard, tls, deadline).await?;
        self.exchange(stream, deadline, appetite, cx).await
    }

    async fn exchange(
        self,
        stream: Stream,
        deadline: Deadline,
        appetite: Appetite<'_>,
        cx: &Cx,
    ) -> ToolResult<Response> {
        let host = self.url.authority();
        let failed = |err: hyper::Error| {
            ToolError::new(format!("`{host}` gave no valid answer")).source(err)
        };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(failed)?;
        let request = self.into_http()?;
        let exchange = async {
            let answer = sender.send_request(request);
            let answer = deadline
                .limit(&format!("waiting for the answer of `{host}`"), answer)
                .await?
                .map_err(failed)?;
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
        };
        tokio::pin!(exchange);
        tokio::select! {
            biased;
            done = &mut exchange => done,
            // The connection has ended; what it brought is still to be read. Why it ended is told there too.
            _ = connection => exchange.await,
        }
    }

    fn into_http(self) -> ToolResult<http::Request<Full<Bytes>>> {
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
        Ok(parts.body(Full::new(self.body))?)
    }
}

/// Status line and headers of an answer, together.
const HEAD_BYTES: usize = 64 * 1024;
