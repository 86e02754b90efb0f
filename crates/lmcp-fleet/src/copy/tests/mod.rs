//! Copies between hosts of every kind: with lmcp, behind a shell, behind BusyBox; and over ways that lose messages.

mod cut_off;
mod evil;
mod refused;
mod whole;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_core::{Payload, Replies, Reply, Server, Service};
use lmcp_tools::{
    HostTools, Settings,
    elsewhere::{copy::PART_BYTES, new_id},
};
use tempfile::TempDir;

use super::*;
use crate::testing::call_of;
use crate::{
    config::{HostConfig, Times},
    path::{self, Way},
    script::ScriptHost,
};

/// Returns what happens to the step with this number.
type Trouble = Box<dyn Fn(usize, &str) -> Fate + Send + Sync>;

/// How a step goes.
enum Fate {
    Well,
    /// The step is not sent.
    Unsent,
    /// The step is done, and its answer is lost.
    Lost,
    /// Another part arrives than the one that was read.
    False,
}

/// A way that counts steps and loses some of them.
struct Shaky {
    service: Arc<dyn Service>,
    steps: Arc<AtomicUsize>,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

impl Service for Shaky {
    fn call(&self, request: Request) -> Replies {
        let number = self.steps.fetch_add(1, Ordering::AcqRel);
        let params: Value = request.params().unwrap();
        let what = params["arguments"]["what"].as_str().unwrap_or_default();
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = trouble.as_ref().map(|trouble| trouble(number, what));
        let lost = |began: bool| {
            let data = json!({ "fault": "transport", "began": began, "retriable": true });
            Replies::error(RpcError::internal("the way broke").with_data(data))
        };
        match fate.unwrap_or(Fate::Well) {
            Fate::Well => self.service.call(request),
            Fate::Unsent => lost(false),
            Fate::Lost => {
                let replies = self.service.call(request);
                Replies::later(async move {
                    let _ = end(replies).await;
                    let data = json!({ "fault": "transport", "began": true, "retriable": true });
                    Replies::error(RpcError::internal("the way broke").with_data(data))
                })
            }
            Fate::False => {
                let text = json!({ "data": "AAAA", "sha256": "" }).to_string();
                Replies::done(CallToolResult::new(vec![Content::text(text)]))
            }
        }
    }

    fn ping(&self) -> Pin<Box<dyn Future<Output = Result<(), RpcError>> + Send + '_>> {
        self.service.ping()
    }
}

async fn end(mut replies: Replies) -> Result<CallToolResult, RpcError> {
    loop {
        if let Reply::Done(outcome) = replies.next().await.expect("it ends") {
            return outcome.map(|outcome| match outcome.payload {
                Payload::CallTool(result) => result,
                other => panic!("{other:?}"),
            });
        }
    }
}

/// A host of one kind, with a folder of its own.
struct Far {
    kind: &'static str,
    name: String,
    host: Arc<Host>,
    folder: TempDir,
    steps: Arc<AtomicUsize>,
    trouble: Arc<Mutex<Option<Trouble>>>,
    _programs: Option<TempDir>,
}

impl Far {
    fn new(
        kind: &'static str,
        way: path::Kind,
        folder: TempDir,
        service: Arc<dyn Service>,
        programs: Option<TempDir>,
    ) -> Self {
        let (steps, trouble) = (Arc::default(), Arc::default());
        let (own_steps, own_trouble) = (Arc::clone(&steps), Arc::clone(&trouble));
        let make = Box::new(move || {
            Ok(Arc::new(Shaky {
                service: Arc::clone(&service),
                steps: Arc::clone(&own_steps),
                trouble: Arc::clone(&own_trouble),
            }) as Arc<dyn Service>)
        });
        let ways = vec![Way { kind: way, make }];
        let config = HostConfig::new();
        // Two hosts of one kind have different names.
        let name = format!("{}-{}", kind.replace(' ', "-"), new_id());
        Self {
            kind,
            host: Arc::new(Host::over(&name, config, Times::default(), ways)),
            name,
            folder,
            steps,
            trouble,
            _programs: programs,
        }
    }

    /// Returns a host with lmcp.
    fn lmcp() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.roots = vec![folder.path().to_owned()];
        let tools = HostTools::new(settings).unwrap();
        let server = tools.add_to(Server::new("host", "0")).start().unwrap();
        Self::new("lmcp", path::Kind::Http, folder, Arc::new(server), None)
    }

    /// Returns a host behind a shell, with these programs or with those of this machine.
    fn shell(kind: &'static str, programs: Option<TempDir>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut words = vec!["env".to_owned(), "-u".into(), "XDG_STATE_HOME".into()];
        // Files of jobs are kept out of the way.
        words.push(format!("HOME={}/.home", folder.path().display()));
        if let Some(programs) = &programs {
            words.push(format!("PATH={}", programs.path().display()));
        }
        words.push("sh".to_owned());
        let host = Arc::new(ScriptHost::new(words).unwrap());
        Self::new(kind, path::Kind::Shell, folder, host, programs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trouble(&self, trouble: impl Fn(usize, &str) -> Fate + Send + Sync + 'static) {
        self.steps.store(0, Ordering::Release);
        *self.trouble.lock().unwrap() = Some(Box::new(trouble));
    }

    /// Returns the names in the folder, except the home.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_str().unwrap().to_owned());
        names.filter(|name| name != ".home").collect()
    }
}

/// Returns every kind of host that can run here.
fn all() -> Vec<Far> {
    let mut all = vec![Far::lmcp(), Far::shell("sh", None)];
    let programs = busybox(&[]);
    all.extend(programs.map(|programs| Far::shell("busybox", Some(programs))));
    all
}

/// Returns a host with very few programs: no checksums, and no base64.
fn little() -> Option<Far> {
    let programs = busybox(&["base64", "sha256sum", "shasum", "openssl"]);
    programs.map(|programs| Far::shell("little", Some(programs)))
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

/// Copies from a name of one host to a name of another.
async fn copy(from: (&Far, &str), to: (&Far, &str), more: Value) -> Result<Value, String> {
    let mut arguments = json!({
        "host": from.0.name, "path": from.0.path(from.1),
        "to_host": to.0.name, "to_path": to.0.path(to.1),
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    let mut hosts = [from.0, to.0].map(|far| Arc::clone(&far.host));
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    let plan = Plan::read(&json!({ "arguments": arguments }).to_string(), &hosts)?;
    let result = end(Replies::speaking(|say| {
        run(plan, call_of(COPY, &json!({})), say)
    }))
    .await;
    let result = result.unwrap();
    match result.is_error {
        true => Err(result.content[0].as_text().unwrap_or_default().to_owned()),
        false => Ok(result.structured_content.unwrap()),
    }
}

/// Returns bytes that are not text, and differ from block to block.
fn bytes(length: u64) -> Vec<u8> {
    (0..length)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a folder with entries of every kind.
fn tree(top: &Path) {
    fs::create_dir_all(top.join("a b/it's \"deep\"")).unwrap();
    fs::create_dir(top.join("closed")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("none"), "").unwrap();
    fs::write(top.join("a b/it's \"deep\"/ü\n$HOME"), "small").unwrap();
    fs::write(top.join("-n"), b"\0\xff\n\n").unwrap();
    fs::write(top.join("closed/large"), bytes(PART_BYTES + 5)).unwrap();
    symlink("../-n", top.join("closed/link")).unwrap();
    symlink("nowhere", top.join("dangling")).unwrap();
    let mode = |name: &str, mode| {
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("-n", 0o751);
    mode("none", 0o400);
    mode("closed", 0o555);
    for name in ["a b", "a b/it's \"deep\"", "empty"] {
        mode(name, 0o755);
    }
    mode("", 0o750);
}

/// Returns everything below a folder: the mode and the content of each entry.
fn seen(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            let content = match (about.is_symlink(), about.is_dir()) {
                (true, _) => fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
                (_, true) => {
                    folders.push(path.clone());
                    Vec::new()
                }
                _ => fs::read(&path).unwrap(),
            };
            let name = path.strip_prefix(top).unwrap().to_owned();
            seen.insert(name, (about.permissions().mode(), content));
        }
    }
    let own = fs::metadata(top).unwrap().permissions().mode();
    seen.insert(PathBuf::new(), (own, Vec::new()));
    seen
}
