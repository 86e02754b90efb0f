//! A server with the host tools, and folders for it to work in.

use std::path::Path;

use lmcp_core::{Client, Handle, Server};
use lmcp_tools::{Helper, HostTools, Settings};
use lmcp_wire::CallToolResult;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and the folder where it keeps its jobs.
pub(crate) struct Host {
    pub(crate) server: Handle,
    pub(crate) state: TempDir,
}

/// Settings for commands, kept in this folder.
pub(crate) fn settings(state: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.helper = Some(Helper::program(env!("CARGO_BIN_EXE_lmcp-guard")));
    settings.state_dir = Some(state.to_owned());
    settings
}

/// A server with these settings.
pub(crate) fn start(settings: Settings) -> Handle {
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("host", "0"));
    server.start().unwrap()
}

impl Host {
    pub(crate) fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        Self {
            server: start(settings(state.path())),
            state,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }

    /// Calls a tool and gives what it returns.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> CallToolResult {
        self.client().call_tool(tool, args).await.unwrap()
    }

    /// The structured part of a result.
    pub(crate) async fn value(&self, tool: &str, args: Value) -> Value {
        let result = self.call(tool, args).await;
        result
            .structured_content
            .unwrap_or_else(|| panic!("{:?}", result.content))
    }

    pub(crate) async fn shell(&self, command: &str) -> Value {
        self.value("shell", json!({ "command": command })).await
    }
}

/// The text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    let texts = result
        .content
        .iter()
        .filter_map(|content| content.as_text());
    texts.collect::<Vec<_>>().join("\n")
}

/// Says what of a test cannot be done here, and why.
#[expect(clippy::print_stderr, reason = "whoever runs the tests reads it")]
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
