//! Hosts behind the shells of this machine, each with a home of its own.

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
    /// Its programs, if they are not all programs of this machine.
    _programs: Option<TempDir>,
}

impl Far {
    /// Returns a host behind this shell, with these programs or with those of this machine.
    fn new(name: &'static str, words: &[&str], programs: Option<TempDir>) -> Self {
        let home = Home(tempfile::tempdir().unwrap());
        Self::at(name, words, programs, home)
    }

    /// Does the same with an existing home.
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

    /// Returns a host behind plain `sh`, with all programs of this machine.
    pub(crate) fn sh() -> Self {
        Self::new("sh", &["sh"], None)
    }

    /// Returns the same host, as another hub sees it.
    pub(crate) fn again(self) -> Self {
        Self::sh_at(self.leave())
    }

    /// Returns a host behind a program that passes on its input to `sh`.
    pub(crate) fn behind_relay() -> Self {
        Self::new("relay", &["sh", "-c", "cat | sh"], None)
    }

    /// The same at the other end of a program that reads nothing after a call of this function, and goes when `hold` has been opened.
    pub(crate) fn deaf_after(function: &str) -> Self {
        let relay = format!(
            "mkfifo \"$HOME/hold\"; exec 3<&0 <&-; {{ exec <&3 3<&-; while IFS= read -r line; do \
               case $line in *\"'{function}'\"*) exec <&-;; esac; printf '%s\\n' \"$line\"; \
             done 2>/dev/null; read -r line <\"$HOME/hold\"; }} | {{ exec 3<&-; exec sh; }} & exec 3<&-; wait"
        );
        Self::new("deaf", &["sh", "-c", &relay], None)
    }

    /// Gives up the connections to it, and leaves its home.
    pub(crate) fn leave(self) -> Home {
        self.home
    }

    /// A host behind plain `sh` with this home.
    pub(crate) fn sh_at(home: Home) -> Self {
        Self::at("sh", &["sh"], None, home)
    }

    /// Returns the command lines of processes that commands have left running on the host.
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

    /// Returns the programs that pass on input to the host.
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

    /// Waits until no process of a command runs, and no command is kept.
    pub(crate) async fn nothing_left(&self) {
        while !self.processes().is_empty() || self.kept() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns how many commands are kept on the host.
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

    /// Returns the structured part of a result that is not an error.
    pub(crate) async fn value(&self, tool: &str, args: Value) -> Value {
        let result = self.call(tool, args).await;
        assert!(!result.is_error, "{}: {}", self.name, text(&result));
        result.structured_content.unwrap()
    }

    /// Returns the words of an error.
    pub(crate) async fn error(&self, tool: &str, args: Value) -> String {
        let result = self.call(tool, args).await;
        assert!(result.is_error, "{}: {result:?}", self.name);
        text(&result)
    }
}

/// The home of a host. Jobs outlive everything else, so jobs of a failed test are ended when this is dropped.
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
            let is_ours = environment.contains(&home);
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(process) = number.and_then(Pid::from_raw).filter(|_| is_ours) {
                // It may have ended just now.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// Returns every kind of host: with bash for jobs, with dash alone, and with only BusyBox, with and without base64 and
/// checksums.
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

/// Returns a folder with the programs of PATH, except some.
fn without(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for source in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(source).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_left_out = |left_out: &&str| name.to_string_lossy().starts_with(left_out);
            if !names.iter().any(is_left_out) {
                // The first program of a name in PATH wins.
                let _ = symlink(entry.path(), folder.path().join(&name));
            }
        }
    }
    folder
}

/// Returns a folder with the programs of BusyBox, except some.
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

/// Reports a part of a test that cannot run here, and the reason.
#[expect(clippy::print_stderr, reason = "whoever runs the tests reads it")]
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
