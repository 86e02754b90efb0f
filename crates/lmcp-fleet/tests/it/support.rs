//! Hosts behind the shells that there are here, each with a home of its own.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, time::Duration};

use lmcp_core::{Client, Endpoint};
use lmcp_fleet::script::ScriptHost;
use lmcp_testkit::soon;
use lmcp_wire::CallToolResult;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A host, and its home.
pub(crate) struct Far {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) home: Home,
    /// Its programs, if these are not all that there are here.
    _programs: Option<TempDir>,
}

impl Far {
    /// A host with these programs, or with ours, behind this shell.
    fn new(name: &'static str, words: &[&str], programs: Option<TempDir>) -> Self {
        let home = Home(tempfile::tempdir().unwrap());
        Self::at(name, words, programs, home)
    }

    /// The same with a home that there is.
    fn at(name: &'static str, words: &[&str], programs: Option<TempDir>, home: Home) -> Self {
        let mut command = vec!["env".to_owned(), "-u".into(), "XDG_STATE_HOME".into()];
        command.push(format!("HOME={}", home.path().display()));
        if let Some(programs) = &programs {
            command.push(format!("PATH={}", programs.path().display()));
        }
        command.extend(words.iter().map(|word| (*word).to_owned()));
        let host = ScriptHost::new(command).unwrap();
        Self {
            name,
            client: Endpoint::new(host).client(),
            home,
            _programs: programs,
        }
    }

    /// A host behind plain `sh`, which has all that this machine has.
    pub(crate) fn sh() -> Self {
        Self::new("sh", &["sh"], None)
    }

    /// The same host, as another hub sees it.
    pub(crate) fn again(self) -> Self {
        Self::sh_at(self.leave())
    }

    /// The same at the other end of a program that passes on what is said to it.
    pub(crate) fn behind_relay() -> Self {
        Self::new("relay", &["sh", "-c", "cat | sh"], None)
    }

    /// Gives up the connections to it, and leaves its home.
    pub(crate) fn leave(self) -> Home {
        self.home
    }

    /// A host behind plain `sh` with this home.
    pub(crate) fn sh_at(home: Home) -> Self {
        Self::at("sh", &["sh"], None, home)
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

    /// What passes on what is said to it.
    pub(crate) fn relays(&self) -> Vec<Pid> {
        let home = format!("HOME={}\0", self.home.path().display());
        let found = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let read = |name: &str| fs::read(entry.path().join(name)).ok();
                let environment = String::from_utf8(read("environ")?).ok()?;
                let is_relay = environment.contains(&home) && read("cmdline")? == b"cat\0";
                let number = entry.file_name().to_str()?.parse().ok()?;
                Pid::from_raw(number).filter(|_| is_relay)
            });
        found.collect()
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

/// The home of a host. Jobs outlive everything else; those of a test that fails end with this.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let home = format!("HOME={}\0", self.path().display());
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            let is_job = environment.contains(&home) && environment.contains("LMCP_SCRIPT_");
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(process) = number.and_then(Pid::from_raw).filter(|_| is_job) {
                // It may have ended just now.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// Every kind of host: bash for jobs, dash alone, and nothing but BusyBox, with base64 and checksums and without.
pub(crate) fn all() -> Vec<Far> {
    let mut hosts = vec![Far::sh()];
    let programs = without(&["bash", "perl", "python3"]);
    hosts.push(Far::new("dash without bash", &["dash"], Some(programs)));
    match busybox(&[]).zip(busybox(&["base64", "sha256sum", "shasum", "openssl"])) {
        Some((all, few)) => {
            hosts.push(Far::new("busybox", &["sh"], Some(all)));
            hosts.push(Far::new("little busybox", &["sh"], Some(few)));
        }
        None => skipped("there is no busybox"),
    }
    hosts
}

/// A folder with what PATH has, but for some programs.
fn without(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for source in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(source).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_left_out = |left_out: &&str| name.to_string_lossy().starts_with(left_out);
            if !names.iter().any(is_left_out) {
                // What comes first in PATH stays.
                let _ = symlink(entry.path(), folder.path().join(&name));
            }
        }
    }
    folder
}

/// A folder with the programs of BusyBox, but for some.
fn busybox(without: &[&str]) -> Option<TempDir> {
    let listed = Command::new("busybox").arg("--list").output().ok()?;
    let names = String::from_utf8(listed.stdout).ok()?;
    let program = ["/usr/bin/busybox", "/bin/busybox"];
    let program = program.into_iter().find(|path| Path::new(path).exists())?;
    let folder = tempfile::tempdir().unwrap();
    for name in names.lines().filter(|name| !without.contains(name)) {
        symlink(program, folder.path().join(name)).unwrap();
    }
    Some(folder)
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
