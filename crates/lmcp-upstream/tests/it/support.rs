//! Helpers of the tests: servers on every link, and a time limit for tests that would hang.

use std::path::{Path, PathBuf};

use lmcp_core::{
    Client, Endpoint, Error,
    client::{Builder, Calling, Event},
    unix,
};
use lmcp_upstream::{command, in_process, socket, url};
use lmcp_wire::{
    Content, ProtocolVersion,
    elicit::ElicitResult,
    input::InputRequest,
    roots::{ListRootsResult, Root},
    sampling::CreateMessageResult,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;

pub(crate) use lmcp_testkit::{soon, text};

use crate::server::server;

/// The link to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Url,
    /// HTTP+SSE.
    Pair,
    Socket,
    Command,
    /// A pipe in this process.
    Memory,
}

pub(crate) const EVERY: [By; 5] = [By::Url, By::Pair, By::Socket, By::Command, By::Memory];

impl By {
    /// Returns the revisions that can be spoken over this link.
    pub(crate) fn versions(self) -> impl Iterator<Item = ProtocolVersion> {
        let all = ProtocolVersion::ALL.into_iter();
        all.filter(move |version| self != Self::Pair || version.has_handshake())
    }
}

/// A running server, if its client does not start it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    address: String,
    endpoint: Endpoint,
    serving: JoinSet<Result<(), Error>>,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::serving(server().start().expect("the server is sound").endpoint()).await
    }

    pub(crate) async fn serving(endpoint: Endpoint) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let http = lmcp_http::bind("127.0.0.1:0")
            .await
            .expect("a port is free")
            .legacy_sse();
        let address = format!("http://{}", http.address());
        let mut place = Self {
            folder,
            address,
            endpoint: endpoint.clone(),
            serving: JoinSet::new(),
        };
        place.serve_socket(&endpoint);
        place
            .serving
            .spawn(async move { endpoint.serve(http).await });
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the address on which the server listens.
    pub(crate) fn host(&self) -> &str {
        self.address.trim_start_matches("http://")
    }

    pub(crate) fn serve_socket(&mut self, endpoint: &Endpoint) {
        let unix = unix(self.path()).expect("the socket can be made");
        let endpoint = endpoint.clone();
        self.serving
            .spawn(async move { endpoint.serve(unix).await });
    }

    /// Ends the server as a power cut does.
    pub(crate) async fn kill(&mut self) {
        self.serving.shutdown().await;
    }

    pub(crate) async fn connect(&self, by: By, builder: Builder) -> Client {
        let client = match by {
            By::Url => soon(builder.connect(url(format!("{}/mcp", self.address)))).await,
            By::Pair => soon(builder.connect(url(format!("{}/sse", self.address)))).await,
            By::Socket => soon(builder.connect(socket(self.path()))).await,
            By::Command => soon(builder.connect(command(probe()))).await,
            By::Memory => soon(builder.connect(in_process(self.endpoint.clone()))).await,
        };
        client.expect("the server is there")
    }
}

pub(crate) fn probe() -> PathBuf {
    let tests = std::env::current_exe().expect("tests are programs");
    let folder = tests.parent().and_then(Path::parent);
    let probe = folder
        .expect("tests lie in `deps`")
        .join("examples/upstream-probe");
    assert!(
        probe.exists(),
        "build it first: cargo build -p lmcp-upstream --examples"
    );
    probe
}

/// Answers any question.
pub(crate) fn answer(_: &str, asked: &InputRequest) -> Value {
    match asked {
        InputRequest::Elicit(_) => ElicitResult::accept([("name".to_owned(), "Ann".into())]).into(),
        InputRequest::Sample(_) => CreateMessageResult::new("parrot", Content::text("word")).into(),
        _ => ListRootsResult::new([Root::new("file:///here")]).into(),
    }
}

pub(crate) fn builder(version: ProtocolVersion) -> Builder {
    Client::builder()
        .named("test", "1")
        .answering(answer)
        .version(version)
}

/// Waits until a call has begun.
pub(crate) async fn begun(calling: &mut Calling) {
    match soon(calling.next()).await {
        Some(Event::Progress(_)) => {}
        event => panic!("{event:?}"),
    }
}
