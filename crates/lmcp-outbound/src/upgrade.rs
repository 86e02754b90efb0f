//! A connection that goes on in another protocol, if the server agrees (`101 Switching Protocols`).

use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::{
    connection::Stream,
    limits::{DECLINED_BYTES, HEAD_BYTES},
    whole,
};

/// The answer of a server to a request for another protocol.
#[non_exhaustive]
pub enum Upgrade {
    /// The server agrees: the headers of its answer, and the connection.
    Agreed(HeaderMap, Stream),
    /// The server does not agree: the status and the body of its answer.
    Declined(StatusCode, Bytes),
}

impl std::fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agreed(..) => f.write_str("Agreed"),
            Self::Declined(status, _) => f.debug_tuple("Declined").field(status).finish(),
        }
    }
}

/// Sends the request, and waits for the answer.
pub(crate) async fn ask(stream: Stream, request: Request<()>) -> hyper::Result<Upgrade> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let asking = async move {
        let request = request.map(|()| Empty::<Bytes>::new());
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let said = whole(response.into_body(), DECLINED_BYTES).await;
            return Ok(Upgrade::Declined(status, said.unwrap_or_default()));
        }
        let headers = response.headers().clone();
        let stream = hyper::upgrade::on(response).await?;
        Ok(Upgrade::Agreed(headers, Box::new(TokioIo::new(stream))))
    };
    let mut asking = pin!(asking);
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        // The connection was handed over or is broken. The answer to the request tells which.
        _ = connection.with_upgrades() => asking.await,
    }
}
