//! A folder to search, and a server that searches it.

use std::{fs, path::Path};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use serde_json::Value;
use tempfile::TempDir;

/// A folder of files, and a server that is confined to it.
pub(crate) struct Host {
    pub(crate) dir: TempDir,
    pub(crate) client: Client,
}

impl Host {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let client = client(&[dir.path()], false);
        Self { dir, client }
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let host = Self::new();
        for (path, content) in files {
            host.write(path, content);
        }
        host
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) async fn call(&self, arguments: Value) -> CallToolResult {
        self.client
            .call_tool("search_files", arguments)
            .await
            .unwrap()
    }

    pub(crate) async fn search(&self, arguments: Value) -> Value {
        let result = self.call(arguments).await;
        assert!(!result.is_error, "{}", text(&result));
        result.structured_content.unwrap()
    }

    /// The paths that a search finds, and nothing else about them.
    pub(crate) async fn paths(&self, mut arguments: Value) -> Vec<String> {
        if arguments.get("mode").is_none() {
            arguments["mode"] = "files".into();
        }
        strings(&self.search(arguments).await["files"])
    }

    pub(crate) async fn fails(&self, arguments: Value) -> String {
        let result = self.call(arguments).await;
        assert!(result.is_error, "{result:?}");
        text(&result)
    }
}

pub(crate) fn client(roots: &[&Path], allow_hard_links: bool) -> Client {
    let mut settings = Settings::default();
    settings.roots = roots.iter().map(Into::into).collect();
    settings.allow_hard_links = allow_hard_links;
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("t", "0"));
    server.start().unwrap().client()
}

pub(crate) fn text(result: &CallToolResult) -> String {
    result.content[0].as_text().unwrap().to_owned()
}

pub(crate) fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}
