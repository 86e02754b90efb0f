//! What the tests of writing share: a folder, a server on it, and a few words to call it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use lmcp_core::{Server, client::Client};
use lmcp_tools::{HostTools, Settings};
use serde_json::Value;

/// A server and a folder of its own.
pub(crate) struct Bench {
    pub(crate) client: Client,
    folder: tempfile::TempDir,
}

/// What a call came to.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) failed: bool,
    pub(crate) text: String,
    pub(crate) value: Value,
}

impl Bench {
    /// Without roots.
    pub(crate) fn open() -> Self {
        Self::with(|_, _| {})
    }

    /// Confined to the folder `root` in it.
    pub(crate) fn confined() -> Self {
        Self::with(|settings, folder| settings.roots = vec![folder.join("root")])
    }

    pub(crate) fn with(decide: impl FnOnce(&mut Settings, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        let mut settings = Settings::default();
        decide(&mut settings, folder.path());
        let tools = HostTools::new(settings).unwrap();
        let client = tools
            .add_to(Server::new("t", "0"))
            .start()
            .unwrap()
            .client();
        Self { client, folder }
    }

    /// A path below the folder `root`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    /// A path beside it.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join("outside").join(name)
    }

    /// A file below the folder `root`.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Called {
        let result = self.client.call_tool(tool, arguments).await.unwrap();
        Called {
            failed: result.is_error,
            text: result.content[0].as_text().unwrap().to_owned(),
            value: result.structured_content.unwrap_or_default(),
        }
    }
}

impl Called {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(!self.failed, "{}", self.text);
        self
    }

    /// A failure whose text has these words.
    #[track_caller]
    pub(crate) fn refused(self, words: &str) -> String {
        assert!(self.failed, "not refused: {}", self.text);
        assert!(
            self.text.contains(words),
            "`{words}` is not in: {}",
            self.text
        );
        self.text
    }
}

/// Names in a folder that a write left behind.
pub(crate) fn leftovers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".lmcp-")).collect()
}
