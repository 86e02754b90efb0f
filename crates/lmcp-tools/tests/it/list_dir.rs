//! `list_dir`: everything is listed once and in order, page by page, and no link leads anywhere.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::PathBuf,
    time::{Duration, SystemTime},
};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Bench {
    client: Client,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut settings = Settings::default();
        settings.roots = vec![folder.path().into()];
        let server = HostTools::new(settings)
            .unwrap()
            .add_to(Server::new("t", "0"));
        Self {
            client: server.start().unwrap().client(),
            folder,
        }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn call(&self, arguments: Value) -> CallToolResult {
        self.client.call_tool("list_dir", arguments).await.unwrap()
    }

    async fn list(&self, arguments: Value) -> Value {
        let result = self.call(arguments).await;
        assert!(!result.is_error, "{:?}", result.content[0].as_text());
        result.structured_content.unwrap()
    }

    async fn paths(&self, arguments: Value) -> Vec<String> {
        let listing = self.list(arguments).await;
        assert!(listing["next_cursor"].is_null());
        paths(&listing)
    }

    /// All pages, and how many they are.
    async fn follow(&self, mut arguments: Value) -> (Vec<String>, usize) {
        let (mut all, mut pages) = (Vec::new(), 0);
        loop {
            let listing = self.list(arguments.clone()).await;
            all.extend(paths(&listing));
            pages += 1;
            let cursor = listing["next_cursor"].clone();
            if cursor.is_null() {
                return (all, pages);
            }
            arguments["cursor"] = cursor;
        }
    }
}

fn paths(listing: &Value) -> Vec<String> {
    let entries = listing["entries"].as_array().unwrap();
    let path = |entry: &Value| entry["path"].as_str().unwrap().to_owned();
    entries.iter().map(path).collect()
}

#[tokio::test]
async fn an_entry_says_what_it_is() {
    let bench = Bench::new();
    bench.file("a.txt", "12345").file("folder/x", "");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = fs::File::options().write(true).open(bench.path("a.txt"));
    file.unwrap().set_modified(time).unwrap();
    fs::set_permissions(bench.path("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("nowhere/else", bench.path("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = bench.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();

    let result = bench.call(json!({})).await;
    let text = result.content[0].as_text().unwrap();
    assert!(
        text.starts_with("0640 5 2023-11-14T22:13:20Z a.txt\n"),
        "{text}"
    );
    assert!(text.contains(" folder/\n") && text.contains(" link -> nowhere/else\n"));
    assert!(text.ends_with("[5 entries]\n"));
    let listing = result.structured_content.unwrap();
    let entries = &listing["entries"];
    let expected = json!({
        "path": "a.txt", "type": "file", "size_bytes": 5, "mtime": "2023-11-14T22:13:20Z", "mode": "0640",
    });
    assert_eq!(entries[0], expected);
    let types: Vec<_> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["type"])
        .collect();
    assert_eq!(types, ["file", "dir", "link", "fifo", "socket"]);
    assert_eq!(entries[2]["target"], "nowhere/else");
}

#[tokio::test]
async fn folders_are_followed_by_what_they_hold_down_to_the_depth() {
    let bench = Bench::new();
    bench
        .file("a/b/c/d", "")
        .file("a/z", "")
        .file("b", "")
        .file("a-b", "");
    assert_eq!(bench.paths(json!({})).await, ["a", "a-b", "b"]);
    assert_eq!(
        bench.paths(json!({ "path": "a", "depth": 2 })).await,
        ["b", "b/c", "z"]
    );
    let all = ["a", "a/b", "a/b/c", "a/b/c/d", "a/z", "a-b", "b"];
    assert_eq!(bench.paths(json!({ "depth": 16 })).await, all);
    assert!(bench.call(json!({ "depth": 17 })).await.is_error);
}

#[tokio::test]
async fn pages_of_every_size_hold_everything_once_in_order() {
    let bench = Bench::new();
    for folder in ["a", "a/b", "c", "empty/inner"] {
        for name in ["1", "2", "3"] {
            bench.file(&format!("{folder}/{name}"), name.repeat(folder.len()));
        }
    }
    for sort in ["name", "size", "mtime"] {
        let whole = bench.paths(json!({ "depth": 5, "sort": sort })).await;
        assert_eq!(whole.len(), 17);
        for limit in 1..=17 {
            let (all, pages) = bench
                .follow(json!({ "depth": 5, "sort": sort, "limit": limit }))
                .await;
            assert_eq!(all, whole, "{sort} {limit}");
            assert_eq!(pages, 17_usize.div_ceil(limit));
        }
    }
}

#[tokio::test]
async fn a_page_is_never_more_than_a_client_takes() {
    let bench = Bench::new();
    for number in 0..2000 {
        bench.file(&format!("{number:04}-{}", "x".repeat(100)), "");
    }
    let result = bench.call(json!({ "limit": 1_000_000 })).await;
    assert!(result.content[0].as_text().unwrap().len() < 26_000);
    assert!(result.structured_content.unwrap().to_string().len() < 26_000);
    let (all, pages) = bench.follow(json!({ "limit": 1_000_000 })).await;
    assert!(all.len() == 2000 && pages > 2);
    assert!(all.is_sorted());
}

#[tokio::test]
async fn entries_that_come_and_go_between_pages_disturb_nobody_else() {
    let bench = Bench::new();
    for name in ["a", "b", "c", "d"] {
        bench.file(&format!("{name}/x"), "");
    }
    let first = bench.list(json!({ "depth": 2, "limit": 4 })).await;
    assert_eq!(paths(&first), ["a", "a/x", "b", "b/x"]);
    fs::remove_dir_all(bench.path("b")).unwrap();
    bench.file("aa", "").file("bb", "");
    let rest = json!({ "depth": 2, "cursor": first["next_cursor"] });
    assert_eq!(bench.paths(rest).await, ["bb", "c", "c/x", "d", "d/x"]);
}

#[tokio::test]
async fn a_cursor_of_something_else_is_refused() {
    let bench = Bench::new();
    bench.file("a", "").file("b", "");
    let first = bench.list(json!({ "limit": 1 })).await;
    let other = json!({ "sort": "size", "cursor": first["next_cursor"] });
    assert!(bench.call(other).await.is_error);
    assert!(bench.call(json!({ "cursor": "nonsense" })).await.is_error);
}

#[tokio::test]
async fn the_largest_and_the_newest_come_first() {
    let bench = Bench::new();
    for (name, size, age) in [("a", 1, 30), ("b", 3, 20), ("c", 2, 10)] {
        bench.file(name, "x".repeat(size));
        let file = fs::File::options()
            .write(true)
            .open(bench.path(name))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
    }
    assert_eq!(
        bench.paths(json!({ "sort": "size" })).await,
        ["b", "c", "a"]
    );
    assert_eq!(
        bench.paths(json!({ "sort": "mtime" })).await,
        ["c", "b", "a"]
    );
}

#[tokio::test]
async fn what_is_hidden_or_ignored_is_left_out_unless_asked_for() {
    let bench = Bench::new();
    bench
        .file(".git/config", "")
        .file(".gitignore", "target/\n*.log\n!keep.log\n/top\n")
        .file("src/.gitignore", "!debug.log\n")
        .file("src/debug.log", "")
        .file("src/other.log", "")
        .file("src/top", "")
        .file("src/keep.log", "")
        .file("src/deep/.ignore", "secret\n")
        .file("src/deep/secret", "")
        .file("target/out", "")
        .file("top", "");
    let deep = [
        "src",
        "src/debug.log",
        "src/deep",
        "src/keep.log",
        "src/top",
    ];
    assert_eq!(bench.paths(json!({ "depth": 4 })).await, deep);
    // Who reads only the text learns it too.
    let told = async |arguments| {
        bench.call(arguments).await.content[0]
            .as_text()
            .unwrap()
            .contains("without ignored ones")
    };
    assert!(told(json!({ "depth": 4 })).await);
    assert!(!told(json!({ "depth": 4, "ignore": false })).await);
    assert!(!told(json!({ "path": "src/deep", "depth": 1 })).await);
    // The rules of the folders above count too.
    let below = ["debug.log", "deep", "keep.log", "top"];
    assert_eq!(
        bench.paths(json!({ "path": "src", "depth": 4 })).await,
        below
    );
    assert_eq!(bench.paths(json!({})).await, ["src", "target", "top"]);
    assert_eq!(bench.paths(json!({ "ignore": true })).await, ["src"]);
    // What is asked for by name is shown.
    assert_eq!(
        bench.paths(json!({ "path": "target", "depth": 2 })).await,
        ["out"]
    );
    let hidden = bench.paths(json!({ "hidden": true, "depth": 2 })).await;
    let expected = [
        ".git",
        ".gitignore",
        "src",
        "src/.gitignore",
        "src/debug.log",
    ];
    assert_eq!(hidden[..5], expected);
    let all = bench
        .paths(json!({ "hidden": true, "depth": 2, "ignore": false }))
        .await;
    assert!(all.contains(&".git/config".into()) && all.contains(&"target/out".into()));
}

#[tokio::test]
async fn links_are_shown_and_never_followed() {
    let bench = Bench::new();
    bench.file("folder/file", "");
    symlink("..", bench.path("folder/up")).unwrap();
    symlink("self", bench.path("self")).unwrap();
    symlink("folder", bench.path("other")).unwrap();
    let all = ["folder", "folder/file", "folder/up", "other", "self"];
    assert_eq!(bench.paths(json!({ "depth": 16 })).await, all);
    // Unless it is what was asked for.
    assert_eq!(
        bench.paths(json!({ "path": "other" })).await,
        ["file", "up"]
    );
}

#[tokio::test]
async fn odd_names_are_shown_and_marked() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join(OsStr::from_bytes(b"bad\xff")), "").unwrap();
    bench.file("line\nbreak", "");
    let result = bench.call(json!({})).await;
    let text = result.content[0].as_text().unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.contains("bad\u{fffd} (name is not UTF-8)\n"), "{text}");
    assert!(text.contains("line\\nbreak\n"), "{text}");
    let listing = result.structured_content.unwrap();
    assert_eq!(paths(&listing), ["bad\u{fffd}", "line\nbreak"]);
    assert_eq!(listing["entries"][0]["lossy_name"], true);
    assert!(listing["entries"][1]["lossy_name"].is_null());
}

#[tokio::test]
async fn a_folder_that_may_not_be_read_is_marked_and_the_rest_is_listed() {
    let bench = Bench::new();
    bench.file("closed/x", "").file("open/x", "");
    fs::set_permissions(bench.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    // Whoever may do everything may read this too.
    let is_allowed = fs::read_dir(bench.path("closed")).is_ok();
    let listing = bench.list(json!({ "depth": 2 })).await;
    fs::set_permissions(bench.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    if is_allowed {
        assert_eq!(paths(&listing), ["closed", "closed/x", "open", "open/x"]);
    } else {
        assert_eq!(paths(&listing), ["closed", "open", "open/x"]);
        assert_eq!(listing["entries"][0]["error"], "permission denied");
    }
}

#[tokio::test]
async fn what_is_no_folder_is_refused() {
    let bench = Bench::new();
    bench.file("a", "");
    for (path, words) in [
        ("a", "is not a folder"),
        ("a/b", "no folder"),
        ("none", "does not exist"),
    ] {
        let result = bench.call(json!({ "path": path })).await;
        assert!(
            result.is_error && result.content[0].as_text().unwrap().contains(words),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_missing_folder_is_told_with_the_nearest_one_that_exists() {
    let bench = Bench::new();
    bench.file("here/file", "");
    let result = bench.call(json!({ "path": "here/none/deeper" })).await;
    let text = result.content[0].as_text().unwrap();
    let nearest = format!("`{}` exists", bench.path("here").display());
    assert!(result.is_error && text.contains(&nearest), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_tree_is_listed_once_whatever_the_pages(
        names in proptest::collection::btree_set("[a-c.-]{1,3}(/[a-c]{1,2}){0,3}", 1..30),
        limit in 1_usize..9,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Bench::new();
        for name in names {
            let path = bench.path(&name);
            // Some are files where others want folders, and some are `..`: then they are left out.
            if !name.starts_with('.') && fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
                fs::write(path, "").unwrap();
            }
        }
        let ask = json!({ "depth": 16, "ignore": false });
        let whole = runtime.block_on(bench.paths(ask.clone()));
        let mut paged = ask;
        paged["limit"] = json!(limit);
        let (all, _) = runtime.block_on(bench.follow(paged));
        prop_assert_eq!(&all, &whole);
        let by_steps = |path: &String| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        prop_assert!(whole.is_sorted_by_key(by_steps));
    }
}
