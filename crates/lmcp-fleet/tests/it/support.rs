//! Hosts behind the shells that there are here, each with a home of its own.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lmcp_core::{Client, Endpoint};
use lmcp_fleet::script::ScriptHost;
use lmcp_testkit::soon;
use lmcp_wire::CallToolResult;
use serde_json::Value;
use tempfile::TempDir;

/// A host, and its home.
pub(crate) struct Far {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) home: TempDir,
}

impl Far {
    /// A host with this `PATH`, or ours, behind this shell.
    fn new(name: &'static str, shell: &str, path: Option<&Path>) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::at(name, shell, path, home)
    }

    /// The same with a home that there is.
    fn at(name: &'static str, shell: &str, path: Option<&Path>, home: TempDir) -> Self {
        let host = ScriptHost::new(command(shell, path, home.path())).unwrap();
        let client = Endpoint::new(host).client();
        Self { name, client, home }
    }

    /// A host behind plain `sh`, which has all that this machine has.
    pub(crate) fn sh() -> Self {
        Self::new("sh", "sh", None)
    }

    /// The same host, as another hub sees it.
    pub(crate) fn again(self) -> Self {
        Self::sh_at(self.leave())
    }

    /// Gives up the connections to it, and leaves its home.
    pub(crate) fn leave(self) -> TempDir {
        self.home
    }

    /// A host behind plain `sh` with this home.
    pub(crate) fn sh_at(home: TempDir) -> Self {
        Self::at("sh", "sh", None, home)
    }

    /// The command lines of what commands on it have left running.
    pub(crate) fn processes(&self) -> Vec<String> {
        let home = format!("HOME={}\0", self.home.path().display());
        let processes = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let environment = String::from_utf8_lossy(&environment).into_owned();
                let is_ours =
                    environment.contains(&home) && environment.contains("LMCP_SCRIPT_JOB=");
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                (is_ours && !line.is_empty())
                    .then(|| String::from_utf8_lossy(&line).replace('\0', " "))
            });
        processes.collect()
    }

    /// Waits until commands have left nothing running, and nothing else.
    pub(crate) async fn nothing_left(&self) {
        while !self.processes().is_empty() || self.kept() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How many commands are kept on it.
    fn kept(&self) -> usize {
        let folder = self.home.path().join(".local/state/lmcp/script-jobs");
        let names = fs::read_dir(folder).unwrap().flatten();
        names
            .filter(|name| !name.file_name().to_str().unwrap().starts_with('.'))
            .count()
    }

    pub(crate) fn path(&self, below: &str) -> String {
        self.home.path().join(below).to_str().unwrap().to_owned()
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> CallToolResult {
        soon(self.client.call_tool(tool, args)).await.unwrap()
    }

    /// The structured part of a result that is no error.
    pub(crate) async fn value(&self, tool: &str, args: Value) -> Value {
        let result = self.call(tool, args).await;
        assert!(!result.is_error, "{}: {}", self.name, text(&result));
        result.structured_content.unwrap()
    }

    /// The words of an error.
    pub(crate) async fn error(&self, tool: &str, args: Value) -> String {
        let result = self.call(tool, args).await;
        assert!(result.is_error, "{}: {result:?}", self.name);
        text(&result)
    }
}

fn command(shell: &str, path: Option<&Path>, home: &Path) -> Vec<String> {
    let mut words = vec!["env".to_owned(), "-u".into(), "XDG_STATE_HOME".into()];
    words.push(format!("HOME={}", home.display()));
    let shell = match path {
        Some(path) => {
            words.push(format!("PATH={}", path.display()));
            path.join(shell).to_str().unwrap().to_owned()
        }
        None => shell.to_owned(),
    };
    words.push(shell);
    words
}

/// Every kind of host: bash for jobs, dash alone, and nothing but BusyBox, with base64 and checksums and without.
pub(crate) fn all() -> Vec<Far> {
    let mut hosts = vec![Far::sh()];
    let tools = without(&["bash", "perl", "python3"]);
    hosts.push(Far::new("dash without bash", "dash", Some(&tools)));
    match busybox() {
        Some([whole, little]) => {
            hosts.push(Far::new("busybox", "sh", Some(&whole)));
            hosts.push(Far::new("little busybox", "sh", Some(&little)));
        }
        None => skipped("there is no busybox"),
    }
    hosts
}

/// A folder with what PATH has, but for some programs.
fn without(names: &[&str]) -> PathBuf {
    let folder = tempfile::tempdir().unwrap().keep();
    for source in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(source).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_left_out = names
                .iter()
                .any(|left_out| name.to_str().is_some_and(|name| name.starts_with(left_out)));
            if !is_left_out {
                // What comes first in PATH stays.
                let _ = symlink(entry.path(), folder.join(name));
            }
        }
    }
    folder
}

/// Two folders with the programs of BusyBox: all of them, and without those that others can stand in for.
fn busybox() -> Option<[PathBuf; 2]> {
    let listed = Command::new("busybox").arg("--list").output().ok()?;
    let names = String::from_utf8(listed.stdout).ok()?;
    let program = ["/usr/bin/busybox", "/bin/busybox"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    let folders = [
        tempfile::tempdir().unwrap().keep(),
        tempfile::tempdir().unwrap().keep(),
    ];
    for name in names.lines() {
        symlink(program, folders[0].join(name)).unwrap();
        if !matches!(name, "base64" | "sha256sum" | "shasum" | "openssl") {
            symlink(program, folders[1].join(name)).unwrap();
        }
    }
    Some(folders)
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
