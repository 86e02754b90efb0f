//! Ignore files: `list_dir`, `search_files` and ripgrep's own walk leave out the same.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;
use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder of files, and a server that is confined to it or to nothing.
struct Bench {
    folder: TempDir,
    client: Client,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, |folder| vec![folder.to_owned()])
    }

    fn unconfined(files: &[(&str, &str)]) -> Self {
        Self::with(files, |_| Vec::new())
    }

    fn with(files: &[(&str, &str)], roots: impl Fn(&Path) -> Vec<PathBuf>) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, content) in files {
            write(&folder.path().join(path), content);
        }
        let mut settings = Settings::default();
        settings.roots = roots(folder.path());
        let server = HostTools::new(settings)
            .unwrap()
            .add_to(Server::new("t", "0"));
        Self {
            client: server.start().unwrap().client(),
            folder,
        }
    }

    /// The files below a folder that both tools show, if they agree.
    async fn files(&self, below: &str, hidden: bool) -> BTreeSet<PathBuf> {
        let path = self.folder.path().join(below);
        let listed = json!({ "path": path, "depth": 16, "hidden": hidden });
        let listed = self.call("list_dir", listed).await;
        let entries = listed["entries"].as_array().unwrap().iter();
        let files = entries.filter(|entry| entry["type"] == "file");
        let listed = files.map(|entry| entry["path"].as_str().unwrap().into());
        let listed: BTreeSet<PathBuf> = listed.collect();

        let search = json!({ "path": path, "pattern": "**", "mode": "names", "hidden": hidden, "limit": 1000 });
        let found = self.call("search_files", search).await;
        let found = found["files"].as_array().unwrap().iter();
        let found = found.map(|file| Path::new(file.as_str().unwrap()));
        let found = found.map(|file| file.strip_prefix(&path).unwrap().to_owned());
        // Whoever asks for hidden files finds those of version control by searching alone.
        let found = found.filter(|file| !file.iter().any(|name| name == ".git"));
        assert_eq!(listed, found.collect(), "list_dir and search_files");
        listed
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.client.call_tool(tool, arguments).await.unwrap();
        assert!(!result.is_error, "{result:?}");
        result.structured_content.unwrap()
    }

    /// The files that ripgrep would search: in a repository by itself, elsewhere with `--no-require-git`. That option takes no
    /// notice of where a repository begins, so nothing is known of a folder with a repository in it.
    fn by_ripgrep(&self, below: &str, hidden: bool) -> Option<BTreeSet<PathBuf>> {
        let path = self.folder.path().join(below);
        let mut folders = path
            .ancestors()
            .take_while(|folder| folder.starts_with(self.folder.path()));
        let in_repository = folders.any(|folder| folder.join(".git").exists());
        let mut all = WalkBuilder::new(&path).standard_filters(false).build();
        if !in_repository && all.any(|entry| entry.unwrap().file_name() == ".git") {
            return None;
        }
        let mut walk = WalkBuilder::new(&path);
        walk.hidden(!hidden)
            .git_global(false)
            .require_git(in_repository);
        walk.add_custom_ignore_filename(".rgignore");
        let entries = walk.build().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let files = files.map(|entry| entry.path().strip_prefix(&path).unwrap().to_owned());
        let files = files.filter(|file| !file.iter().any(|name| name == ".git"));
        Some(files.collect())
    }

    /// Removes what ripgrep heeds and a call does not: the lists of git in the folders above, outside of repositories.
    fn forget_lists_above(&self, below: &str) {
        let mut folder = self.folder.path().to_owned();
        for name in Path::new(below) {
            if folder.join(".git").exists() {
                return;
            }
            let _: io::Result<()> = fs::remove_file(folder.join(".gitignore"));
            folder.push(name);
        }
    }

    /// What all three of them show.
    async fn shown(&self, below: &str) -> Vec<String> {
        for hidden in [true, false] {
            if let Some(wanted) = self.by_ripgrep(below, hidden) {
                assert_eq!(self.files(below, hidden).await, wanted, "ripgrep");
            }
        }
        let files = self.files(below, false).await;
        let files = files.iter().map(|path| path.display().to_string());
        files.collect()
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn files_of_git_count_up_to_the_end_of_their_repository() {
    let bench = Bench::new(&[
        (".gitignore", "a\n"),
        ("a", ""),
        ("repository/.git/info/exclude", "b\n"),
        ("repository/.gitignore", "c\n"),
        ("repository/a", ""),
        ("repository/b", ""),
        ("repository/c", ""),
        ("repository/src/c", ""),
        ("repository/inner/.git/config", ""),
        ("repository/inner/c", ""),
    ]);
    let shown = ["repository/a", "repository/inner/c"];
    assert_eq!(bench.shown("").await, shown);
    assert_eq!(bench.shown("repository").await, ["a", "inner/c"]);
    assert!(bench.shown("repository/src").await.is_empty());
    assert_eq!(bench.shown("repository/inner").await, ["c"]);
}

#[tokio::test]
async fn outside_of_a_repository_a_list_of_git_counts_below_the_folder_that_a_call_begins_in() {
    let bench = Bench::new(&[
        (".gitignore", "build/\n"),
        ("build/a", ""),
        ("project/.gitignore", "target/\n"),
        ("project/build/a", ""),
        ("project/target/a", ""),
        ("project/src/target/a", ""),
    ]);
    assert!(bench.shown("").await.is_empty());
    let paths = async |below| bench.files(below, false).await;
    assert_eq!(paths("project").await, [PathBuf::from("build/a")].into());
    assert_eq!(
        paths("project/src").await,
        [PathBuf::from("target/a")].into()
    );
}

#[tokio::test]
async fn plain_ignore_files_count_everywhere_and_before_those_of_git() {
    let bench = Bench::new(&[
        (".ignore", "a\n!kept.log\n"),
        (".rgignore", "b\n"),
        ("a", ""),
        ("b", ""),
        ("c/a", ""),
        ("c/b", ""),
        ("repository/.git/config", ""),
        ("repository/.gitignore", "*.log\n!a\n"),
        ("repository/a", ""),
        ("repository/kept.log", ""),
        ("repository/other.log", ""),
        ("repository/src/.ignore", "!a\n"),
        ("repository/src/a", ""),
    ]);
    let shown = ["repository/kept.log", "repository/src/a"];
    assert_eq!(bench.shown("").await, shown);
    assert_eq!(bench.shown("repository").await, ["kept.log", "src/a"]);
    assert!(bench.shown("c").await.is_empty());
}

#[tokio::test]
async fn a_rule_takes_a_hidden_name_in_again() {
    let bench = Bench::new(&[
        (".ignore", ".*\n!.kept\n"),
        (".kept/a", ""),
        (".other/a", ""),
        ("b", ""),
    ]);
    assert_eq!(bench.shown("").await, [".kept/a", "b"]);
}

#[tokio::test]
async fn without_roots_the_rules_are_the_same() {
    let bench = Bench::unconfined(&[
        (".git/info/exclude", "excluded\n"),
        (".gitignore", "*.log\n"),
        ("src/.rgignore", "c\n"),
        ("src/a.log", ""),
        ("src/b", ""),
        ("src/c", ""),
        ("src/excluded", ""),
    ]);
    assert_eq!(bench.shown("src").await, ["b"]);
}

#[tokio::test]
async fn no_list_is_read_through_a_link() {
    let bench = Bench::new(&[("repository/.git/config", ""), ("repository/a", "")]);
    let outside = TempDir::new().unwrap();
    write(&outside.path().join("exclude"), "a\n");
    let info = bench.folder.path().join("repository/.git/info");
    std::os::unix::fs::symlink(outside.path(), info).unwrap();
    let shown = bench.files("", false).await;
    assert_eq!(shown, [PathBuf::from("repository/a")].into());
}

/// A path of up to three names, of a few that meet often.
const PATH: &str = "[ab](/[ab]){0,2}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_looks_the_same_to_all_three(
        files in prop::collection::btree_set("([ab]/){0,3}\\.?[abc]", 1..12),
        lists in prop::collection::btree_map(
            "([ab]/){0,2}\\.(git/info/exclude|gitignore|ignore|rgignore)",
            prop::collection::vec("!?/?(\\.?[abc*]|[ab]/[abc*])/?", 1..4),
            0..6,
        ),
        from in PATH,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Bench::new(&[]);
        for (path, content) in files
            .iter()
            .map(|path| (path, String::new()))
            .chain(lists.iter().map(|(path, rules)| (path, rules.join("\n"))))
        {
            let path = bench.folder.path().join(path);
            // Some are files where others want folders: then these are left out.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
                fs::write(path, content).unwrap();
            }
        }
        runtime.block_on(bench.shown(""));
        if bench.folder.path().join(&from).is_dir() {
            let before = runtime.block_on(bench.files(&from, false));
            bench.forget_lists_above(&from);
            runtime.block_on(bench.shown(&from));
            prop_assert_eq!(before, runtime.block_on(bench.files(&from, false)));
        }
    }
}
