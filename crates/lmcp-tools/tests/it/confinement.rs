//! Nothing outside of the roots is ever read or listed, whatever paths, links and other processes try.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = "outside-secret";

/// `root` with a file of its own; beside it `outside` and `rootother`, each with a secret.
struct Bench {
    client: Client,
    top: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let top = TempDir::new().unwrap();
        for folder in ["root/folder", "outside/folder", "rootother"] {
            fs::create_dir_all(top.path().join(folder)).unwrap();
        }
        for file in [
            "outside/secret",
            "outside/folder/secret",
            "rootother/secret",
        ] {
            fs::write(top.path().join(file), SECRET).unwrap();
        }
        for file in ["root/mine", "root/folder/mine"] {
            fs::write(top.path().join(file), "inside").unwrap();
        }
        let mut settings = Settings::default();
        settings.roots = vec![top.path().join("root")];
        change(&mut settings);
        Self {
            client: client(settings),
            top,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.path(name)).unwrap();
    }

    async fn read(&self, path: impl AsRef<Path>) -> Result<String, String> {
        read(&self.client, path).await
    }

    async fn list(&self, arguments: Value) -> Result<Vec<String>, String> {
        list(&self.client, arguments).await
    }

    /// Neither tool gets there.
    async fn expect_refused(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let error = self.read(path).await.unwrap_err();
        assert!(
            !error.contains(SECRET) && !error.contains("is a folder"),
            "{error}"
        );
        assert!(
            !error.contains("does not exist"),
            "tells what is outside: {error}"
        );
        self.list(json!({ "path": path })).await.unwrap_err();
        self.list(json!({ "path": path, "depth": 3, "hidden": true }))
            .await
            .unwrap_err();
    }
}

fn client(settings: Settings) -> Client {
    let server = HostTools::new(settings)
        .unwrap()
        .add_to(Server::new("t", "0"));
    server.start().unwrap().client()
}

fn outcome(result: CallToolResult) -> Result<Value, String> {
    if result.is_error {
        return Err(result.content[0].as_text().unwrap().into());
    }
    Ok(result.structured_content.unwrap())
}

async fn read(client: &Client, path: impl AsRef<Path>) -> Result<String, String> {
    let arguments = json!({ "path": path.as_ref() });
    let result = outcome(client.call_tool("read_file", arguments).await.unwrap())?;
    Ok(result["files"][0]["content"].as_str().unwrap().into())
}

async fn list(client: &Client, arguments: Value) -> Result<Vec<String>, String> {
    let result = outcome(client.call_tool("list_dir", arguments).await.unwrap())?;
    let entries = result["entries"].as_array().unwrap();
    let path = |entry: &Value| entry["path"].as_str().unwrap().to_owned();
    Ok(entries.iter().map(path).collect())
}

#[tokio::test]
async fn what_is_inside_is_reached_by_every_honest_way() {
    let bench = Bench::new();
    bench.link("folder", "root/relative");
    bench.link("../mine", "root/folder/up");
    bench.link("relative/up", "root/twice");
    let paths = [
        "mine",
        "./mine",
        "folder/../mine",
        "folder/mine",
        "relative/mine",
        "folder/up",
        "twice",
    ];
    for path in paths {
        assert_eq!(bench.read(path).await.unwrap(), "inside", "{path}");
        let absolute = bench.path("root").join(path);
        assert_eq!(bench.read(absolute).await.unwrap(), "inside", "{path}");
    }
    assert_eq!(
        bench.list(json!({ "path": "relative" })).await.unwrap(),
        ["mine", "up"]
    );
}

#[tokio::test]
async fn dots_lead_nowhere() {
    let bench = Bench::new();
    for path in [
        "../outside/secret",
        "../outside",
        "..",
        "../root",
        "folder/../../outside/secret",
        "folder/../..",
        "./folder/.././../outside",
        "../../../../../../../../../../etc/passwd",
    ] {
        bench.expect_refused(path).await;
        bench.expect_refused(bench.path("root").join(path)).await;
    }
}

#[tokio::test]
async fn absolute_paths_outside_are_refused_even_if_the_name_begins_alike() {
    let bench = Bench::new();
    let paths = [
        "outside/secret",
        "outside",
        "rootother/secret",
        "rootother",
        "",
        "root/../outside/secret",
    ];
    for path in paths {
        bench.expect_refused(bench.path(path)).await;
    }
    bench.expect_refused("/").await;
    bench.expect_refused("/etc/passwd").await;
    bench.expect_refused("~").await;
    bench.expect_refused("~/.ssh").await;
}

#[tokio::test]
async fn links_that_lead_out_are_refused() {
    let bench = Bench::new();
    bench.link("../outside/secret", "root/file");
    bench.link(bench.path("outside/secret"), "root/file-absolute");
    bench.link("../outside", "root/dir");
    bench.link(bench.path("outside"), "root/dir-absolute");
    bench.link("file", "root/chain-1");
    bench.link("folder/../chain-1", "root/chain-2");
    bench.link("../dir", "root/folder/chain-3");
    bench.link("../../rootother/secret", "root/folder/other");
    bench.link("/proc/self/root", "root/proc");
    bench.link("../outside/none", "root/dangling");
    for path in [
        "file",
        "file-absolute",
        "dir",
        "dir/",
        "dir/.",
        "dir/secret",
        "dir/folder/secret",
        "dir/../outside/secret",
        "dir-absolute/secret",
        "chain-1",
        "chain-2",
        "folder/chain-3/secret",
        "folder/other",
        "proc/etc/passwd",
        "dangling",
    ] {
        bench.expect_refused(path).await;
    }
    // Shown as links, and not entered.
    let all = bench
        .list(json!({ "depth": 16, "hidden": true, "ignore": false }))
        .await
        .unwrap();
    assert!(
        all.contains(&"dir".into()) && !all.iter().any(|path| path.contains("secret")),
        "{all:?}"
    );
}

#[tokio::test]
async fn what_is_outside_is_not_even_told_to_exist() {
    let bench = Bench::new();
    bench.link("../outside/secret", "root/l");
    let there = bench.read("l").await.unwrap_err();
    fs::remove_file(bench.path("outside/secret")).unwrap();
    assert_eq!(bench.read("l").await.unwrap_err(), there);
    bench.link("../outside", "root/d");
    assert_eq!(
        bench
            .read("d/none")
            .await
            .unwrap_err()
            .replace("none", "folder"),
        bench.read("d/folder").await.unwrap_err(),
    );
}

#[tokio::test]
async fn links_of_the_kernel_are_not_followed_even_below_a_root() {
    let mut settings = Settings::default();
    settings.roots = vec!["/proc/self".into()];
    let client = client(settings);
    assert!(read(&client, "status").await.unwrap().starts_with("Name:"));
    let file = fs::File::open("/etc/passwd").unwrap();
    let descriptor = format!("fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    for path in [
        "root/etc/passwd",
        "cwd/Cargo.toml",
        "exe",
        &descriptor,
        "task/../root/etc/passwd",
    ] {
        let error = read(&client, path).await.unwrap_err();
        assert!(error.contains("may not be followed"), "{path}: {error}");
    }
    for path in ["root", "cwd", "root/etc"] {
        list(&client, json!({ "path": path })).await.unwrap_err();
    }
    // And not from where there is nothing of the kernel's at all.
    let bench = Bench::new();
    for path in [
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        &format!("/proc/self/{descriptor}"),
    ] {
        bench.expect_refused(path).await;
    }
}

#[tokio::test]
async fn a_root_may_be_given_through_a_link_and_is_known_by_both_names() {
    let bench = Bench::new();
    bench.link("root", "alias");
    let mut settings = Settings::default();
    settings.roots = vec![bench.path("alias")];
    let client = client(settings);
    for path in ["alias/mine", "root/mine", "alias/folder/../mine"] {
        assert_eq!(read(&client, bench.path(path)).await.unwrap(), "inside");
    }
    read(&client, bench.path("outside/secret"))
        .await
        .unwrap_err();
    // The link decides once, when the server starts.
    fs::remove_file(bench.path("alias")).unwrap();
    bench.link("outside", "alias");
    read(&client, bench.path("alias/secret")).await.unwrap_err();
    assert_eq!(
        read(&client, bench.path("alias/mine")).await.unwrap(),
        "inside"
    );
}

#[tokio::test]
async fn a_root_that_is_replaced_stays_what_it_was() {
    let bench = Bench::new();
    fs::rename(bench.path("root"), bench.path("moved")).unwrap();
    bench.link("outside", "root");
    assert_eq!(bench.read("mine").await.unwrap(), "inside");
    bench.read("secret").await.unwrap_err();
    bench.read(bench.path("root/secret")).await.unwrap_err();
}

#[test]
fn a_root_that_leads_out_of_another_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [outer, inner, secret] =
        ["outer", "outer/inner", "secret"].map(|name| folder.path().join(name));
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(&secret).unwrap();
    let start = || {
        let mut settings = Settings::default();
        settings.roots = vec![outer.clone(), inner.clone()];
        HostTools::new(settings).map(drop)
    };
    start().unwrap();
    fs::remove_dir(&inner).unwrap();
    symlink(&secret, &inner).unwrap();
    let words = start().unwrap_err().to_string();
    assert!(
        words.contains("outer/inner") && words.contains("secret"),
        "{words}"
    );
}

#[tokio::test]
async fn each_of_several_roots_is_its_own_world() {
    let bench = Bench::with(|settings| {
        let other = settings.roots[0].with_file_name("rootother");
        settings.roots.push(other);
    });
    assert_eq!(
        bench.read(bench.path("rootother/secret")).await.unwrap(),
        SECRET
    );
    bench.expect_refused("../rootother/secret").await;
    bench
        .expect_refused(bench.path("rootother/../outside/secret"))
        .await;
}

#[tokio::test]
async fn a_file_with_another_name_is_refused_unless_that_is_allowed() {
    let bench = Bench::new();
    fs::hard_link(bench.path("outside/secret"), bench.path("root/hard")).unwrap();
    let error = bench.read("hard").await.unwrap_err();
    assert!(
        error.contains("has another name") && !error.contains(SECRET),
        "{error}"
    );
    let allowing = Bench::with(|settings| settings.allow_hard_links = true);
    fs::hard_link(allowing.path("root/mine"), allowing.path("root/hard")).unwrap();
    assert_eq!(allowing.read("hard").await.unwrap(), "inside");
}

#[tokio::test]
async fn a_fifo_holds_nobody_up() {
    let bench = Bench::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for name in ["root/fifo", "root/.gitignore", "root/.ignore"] {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, bench.path(name), kind, mode, 0).unwrap();
    }
    assert!(bench.read("fifo").await.unwrap_err().contains("is a FIFO"));
    assert!(
        bench
            .list(json!({ "path": "fifo" }))
            .await
            .unwrap_err()
            .contains("is not a folder")
    );
    let all = bench.list(json!({ "ignore": true })).await.unwrap();
    assert_eq!(all, ["fifo", "folder", "mine"]);
}

#[tokio::test]
async fn rules_from_outside_have_no_say() {
    let bench = Bench::new();
    fs::create_dir(bench.path(".git")).unwrap();
    fs::write(bench.path(".gitignore"), "mine\n").unwrap();
    fs::write(bench.path("outside/rules"), "folder\n").unwrap();
    bench.link("../outside/rules", "root/.gitignore");
    let all = bench
        .list(json!({ "ignore": true, "depth": 2 }))
        .await
        .unwrap();
    assert_eq!(all, ["folder", "folder/mine", "mine"]);
}

#[tokio::test]
async fn rules_with_another_name_outside_have_no_say_unless_that_is_allowed() {
    for (allowed, seen) in [(false, &["folder", "mine"][..]), (true, &["folder"])] {
        let bench = Bench::with(|settings| settings.allow_hard_links = allowed);
        fs::write(bench.path("outside/rules"), "mine\n").unwrap();
        fs::hard_link(bench.path("outside/rules"), bench.path("root/.ignore")).unwrap();
        let listed = bench.list(json!({ "ignore": true })).await.unwrap();
        assert_eq!(listed, seen, "allowed: {allowed}");
    }
}

#[tokio::test]
async fn a_forged_cursor_leads_nowhere() {
    let bench = Bench::new();
    bench.link("../outside", "root/dir");
    // `n../outside/`, `n../`, `ndir/folder/`
    for cursor in ["bi4uL291dHNpZGUv", "bi4uLw", "bmRpci9mb2xkZXIv"] {
        let found = bench
            .list(json!({ "depth": 3, "cursor": cursor }))
            .await
            .unwrap();
        assert!(
            found
                .iter()
                .all(|path| path.contains("mine") || path == "folder" || path == "dir")
        );
    }
}

/// Swaps pairs of names back and forth until told to stop.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicUsize>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(pairs: Vec<(PathBuf, PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicUsize::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&swaps));
        let swap = move || {
            while !stopped.load(Ordering::Relaxed) {
                for (a, b) in &pairs {
                    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        Self {
            stop,
            swaps,
            thread: Some(thread::spawn(swap)),
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || done.is_some_and(|done| done.is_ok()));
    }
}

#[tokio::test]
async fn somebody_who_swaps_folders_and_links_meanwhile_gains_nothing() {
    let bench = Bench::new();
    // Outside and inside have the same names, so that only the content tells them apart.
    fs::write(bench.path("outside/mine"), SECRET).unwrap();
    fs::create_dir(bench.path("outside/deep")).unwrap();
    fs::write(bench.path("outside/deep/outside-only"), SECRET).unwrap();
    fs::create_dir_all(bench.path("root/door/deep")).unwrap();
    fs::write(bench.path("root/door/mine"), "inside").unwrap();
    bench.link("../outside", "root/trap");
    bench.link("../outside/secret", "root/bait");
    for number in 0..300 {
        fs::write(bench.path(&format!("root/other-{number}")), "").unwrap();
    }
    let swapper = Swapper::start(vec![
        (bench.path("root/door"), bench.path("root/trap")),
        (bench.path("root/mine"), bench.path("root/bait")),
    ]);
    let (mut inside, mut refused) = (0, 0);
    let mut count = |outcome: Result<String, String>| match outcome {
        Ok(content) => {
            assert_eq!(content, "inside");
            inside += 1;
        }
        Err(error) => {
            assert!(!error.contains(SECRET), "{error}");
            refused += 1;
        }
    };
    let whole = json!({ "depth": 4, "limit": 20, "hidden": true, "ignore": false });
    let rules = json!({ "path": "door", "depth": 4 });
    // Goes on within `door`, long after it was seen to be a folder: there is much else to look at before.
    let resumed = json!({ "depth": 4, "limit": 10, "cursor": "bmRvb3Iv" });
    for _ in 0..400 {
        for path in [
            "door/mine",
            "mine",
            "door/../mine",
            "folder/../door/deep/../mine",
        ] {
            count(bench.read(path).await);
        }
        for arguments in [&whole, &rules, &resumed] {
            let found = bench.list(arguments.clone()).await.unwrap_or_default();
            let is_outside =
                |path: &String| path.contains("secret") || path.contains("outside-only");
            assert!(!found.iter().any(is_outside), "{found:?}");
        }
    }
    assert!(swapper.swaps.load(Ordering::Relaxed) > 0);
    drop(swapper);
    assert!(
        inside > 0 && refused > 0,
        "{inside} reads, {refused} refusals"
    );
}

#[tokio::test]
async fn a_file_that_turns_into_a_fifo_meanwhile_holds_nobody_up() {
    let bench = Bench::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = bench.path("root/fifo");
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let swapper = Swapper::start(vec![(bench.path("root/mine"), fifo)]);
    for _ in 0..2000 {
        match bench.read("mine").await {
            Ok(content) => assert_eq!(content, "inside"),
            Err(error) => assert!(error.contains("is a FIFO"), "{error}"),
        }
    }
    drop(swapper);
}

#[tokio::test]
async fn what_leads_outside_is_told_with_the_roots() {
    let bench = Bench::new();
    let error = bench.read("folder/../../outside/secret").await.unwrap_err();
    let root = bench.path("root");
    assert!(
        error.contains(&format!("stay below {}", root.display())),
        "{error}"
    );
}

#[tokio::test]
async fn a_path_below_two_roots_may_go_wherever_one_of_them_allows() {
    for order in [["root/folder", "root"], ["root", "root/folder"]] {
        let bench = Bench::new();
        bench.link("../mine", "root/folder/up");
        bench.link(bench.path("outside"), "root/folder/out");
        let mut settings = Settings::default();
        settings.roots = order.iter().map(|root| bench.path(root)).collect();
        let client = client(settings);
        for path in [
            "root/folder/../mine",
            "root/folder/up",
            "root/folder/mine",
            "root/mine",
        ] {
            assert_eq!(read(&client, bench.path(path)).await.unwrap(), "inside");
        }
        for path in ["root/folder/../../outside/secret", "root/folder/out/secret"] {
            read(&client, bench.path(path)).await.unwrap_err();
        }
    }
}
