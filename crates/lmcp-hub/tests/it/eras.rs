//! Clients of every revision with the same server behind a bridge and behind a hub. The table in `docs/through.md` shows the
//! results.

use std::{fmt::Write as _, path::Path, time::Duration};

use lmcp_core::{
    Client, Endpoint, Tasks,
    client::{Change, Event},
    unix,
};
use lmcp_hub::Hub;
use lmcp_upstream::{Upstream, socket};
use lmcp_wire::{ProtocolVersion, input::InputRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::probe::server;

#[tokio::test]
async fn clients_of_every_revision_get_everything_through_a_bridge_and_a_hub() {
    let mut table = HEAD.to_owned();
    let far = Place::serving(server().start().expect("the server is sound").endpoint());
    for behind in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        for through in [Through::Bridge, Through::Hub] {
            let upstream = Upstream::builder(socket(far.path()).route()).version(behind);
            let near = Place::serving(through.endpoint(upstream.build()));
            for version in ProtocolVersion::ALL {
                let cells = Walk::new(&near, version, through).await.cells().await;
                let cells = cells.join(" | ");
                let _ = writeln!(table, "| {version} | {behind} | {through:?} | {cells} |");
            }
        }
    }
    expect_current(&format!("{table}\n{NOTE}\n"));
}

#[derive(Clone, Copy, Debug)]
enum Through {
    Bridge,
    Hub,
}

impl Through {
    fn endpoint(self, upstream: Upstream) -> Endpoint {
        match self {
            Self::Bridge => Endpoint::new(upstream),
            Self::Hub => {
                let hub = Hub::new("hub", "1.0.0");
                hub.mount("s", upstream);
                Endpoint::new(hub)
            }
        }
    }

    fn tool(self, name: &str) -> String {
        match self {
            Self::Bridge => name.to_owned(),
            Self::Hub => format!("s__{name}"),
        }
    }

    fn uri(self, uri: &str) -> String {
        match self {
            Self::Bridge => uri.to_owned(),
            Self::Hub => format!("s+{uri}"),
        }
    }
}

/// A server on a socket.
struct Place {
    folder: TempDir,
    /// Ends with the place.
    _serving: Tasks,
}

impl Place {
    fn serving(endpoint: Endpoint) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let listener = unix(folder.path().join("socket")).expect("a socket can be made");
        let serving = Tasks::default();
        serving.spawn(async move {
            let _ = endpoint.serve(listener).await;
        });
        Self {
            folder,
            _serving: serving,
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }
}

/// One row of the table.
struct Walk {
    client: Client,
    version: ProtocolVersion,
    through: Through,
}

impl Walk {
    async fn new(near: &Place, version: ProtocolVersion, through: Through) -> Self {
        let builder = Client::builder().named("test", "1").answering(answer);
        let connected = soon(builder.version(version).connect(socket(near.path()))).await;
        Self {
            client: connected.expect("it listens").expect("it is spoken with"),
            version,
            through,
        }
    }

    async fn cells(self) -> Vec<&'static str> {
        let can_be_asked = self.version >= ProtocolVersion::V2025_06_18;
        vec![
            mark(soon(self.calls()).await),
            mark(soon(self.hears_progress()).await),
            mark(soon(self.cancels()).await),
            match can_be_asked {
                true => mark(soon(self.says("greet", "Hello, Ann!")).await),
                false if soon(self.is_refused("greet")).await == Some(true) => "–",
                false => "✗",
            },
            mark(soon(self.says("sample", "parrot")).await),
            mark(soon(self.hears_of_changes()).await),
        ]
    }

    async fn calls(&self) -> bool {
        self.text("echo", json!({ "text": "x" })).await.as_deref() == Some("x")
    }

    async fn says(&self, tool: &str, expected: &str) -> bool {
        self.text(tool, json!({})).await.as_deref() == Some(expected)
    }

    /// Returns whether the call ends with an error.
    async fn is_refused(&self, tool: &str) -> bool {
        let tool = self.through.tool(tool);
        let called = self.client.call_tool(&tool, json!({})).await;
        called.map_or(true, |result| result.is_error)
    }

    async fn hears_progress(&self) -> bool {
        let mut calling = self
            .client
            .start_tool(&self.through.tool("work"), json!({}));
        // If several reports wait, the last one counts.
        let mut last = None;
        loop {
            match calling.next().await {
                Some(Event::Progress(report)) => last = Some(report.progress),
                Some(Event::Done(result)) => {
                    return result.is_ok() && last == Some(3.0);
                }
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Returns whether a cancelled call stops its work at the server itself.
    async fn cancels(&self) -> bool {
        let before = self.text("stopped", json!({})).await;
        let mut calling = self
            .client
            .start_tool(&self.through.tool("hang"), json!({}));
        let is_begun = matches!(calling.next().await, Some(Event::Progress(_)));
        drop(calling);
        while self.text("stopped", json!({})).await == before {}
        is_begun
    }

    async fn hears_of_changes(&self) -> bool {
        let uri = self.through.uri("probe://text");
        let Ok(mut changes) = self.client.subscribe([uri.as_str()]).await else {
            return false;
        };
        let heard = async {
            loop {
                match changes.next().await {
                    Some(Change::Resource(changed)) => return changed == uri,
                    Some(_) => {}
                    None => return false,
                }
            }
        };
        let touch = async {
            // The subscription reaches the server a moment after it is acknowledged, so once may be too early.
            loop {
                self.text("grow", json!({})).await;
            }
        };
        tokio::select! {
            heard = heard => heard,
            () = touch => false,
        }
    }

    async fn text(&self, tool: &str, arguments: Value) -> Option<String> {
        let tool = self.through.tool(tool);
        let result = self.client.call_tool(&tool, arguments).await.ok()?;
        let text = result.content.first()?.as_text()?;
        Some(text.to_owned())
    }
}

fn mark(done: Option<bool>) -> &'static str {
    match done {
        Some(true) => "✓",
        _ => "✗",
    }
}

fn answer(_: &str, asked: &InputRequest) -> Value {
    match asked {
        InputRequest::Elicit(_) => json!({ "action": "accept", "content": { "name": "Ann" } }),
        InputRequest::Sample(_) => {
            let content = json!({ "type": "text", "text": "word" });
            json!({ "role": "assistant", "content": content, "model": "parrot" })
        }
        _ => json!({ "roots": [] }),
    }
}

/// Stops a future that would hang. The time is not a measurement: nothing here takes a tenth of it.
async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .ok()
}

/// Compares the table with the section of the file, or writes it.
fn expect_current(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/through.md");
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let (before, rest) = text.split_once(BEGIN).expect("the section begins");
    let (old, after) = rest.split_once(END).expect("the section ends");
    if std::env::var_os("UPDATE").is_some() {
        let new = format!("{before}{BEGIN}\n{table}{END}{after}");
        std::fs::write(&path, new).expect("the file can be written");
        return;
    }
    let hint = "UPDATE=1 cargo test -p lmcp-hub eras";
    assert_eq!(old.trim(), table.trim(), "docs/through.md is stale: {hint}");
}

const BEGIN: &str = "<!-- eras -->";
const END: &str = "<!-- end of eras -->";
const HEAD: &str = "\
| client | server | through | call | progress | cancel | elicitation | sampling | subscription |
|---|---|---|:-:|:-:|:-:|:-:|:-:|:-:|
";
const NOTE: &str =
    "–: the revision of the client has no such question; the call ends with an error that says so.";
