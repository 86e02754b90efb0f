//! HTTP+SSE, the transport of 2024-11-05, from the client's side: a stream with all messages of the server, and another
//! address for the messages of the client.
//!
//! The stream cannot be resumed: when it ends, the session ends, and another link must be opened.

use http::{HeaderMap, uri::PathAndQuery};
use lmcp_outbound::{Connection, Incoming};
use tokio::time::timeout;

use crate::{
    error::Error,
    server::Server,
    stream::{Opened, Reader},
};

/// An open stream.
pub(crate) struct Pair {
    /// The address for messages.
    pub(crate) inlet: PathAndQuery,
    pub(crate) reader: Reader,
    pub(crate) body: Incoming,
    _connection: Connection,
}

impl Pair {
    /// Opens the stream, and waits for the address for messages. `None`: the server does not speak HTTP+SSE, or the address
    /// belongs to another server.
    pub(crate) async fn open(server: &Server) -> Result<Option<Self>, Error> {
        let mut reader = Reader::new(server.message_bytes);
        let opening = async {
            let opened = reader.open(server, &HeaderMap::new()).await?;
            let Opened::Stream(mut body, connection) = opened else {
                return Ok(None);
            };
            let endpoint = reader.endpoint(&mut body).await;
            let endpoint = endpoint.and_then(|endpoint| std::str::from_utf8(endpoint).ok());
            let inlet = endpoint.and_then(|endpoint| server.inlet(endpoint.trim()));
            Ok::<_, Error>(inlet.map(|inlet| (inlet, body, connection)))
        };
        // A server of later revisions opens a stream, too, and may send nothing on it.
        let opened = timeout(server.connect_wait(), opening).await;
        let Some((inlet, body, _connection)) = opened.unwrap_or(Ok(None))? else {
            return Ok(None);
        };
        Ok(Some(Self {
            inlet,
            reader,
            body,
            _connection,
        }))
    }
}
