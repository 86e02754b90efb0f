//! The rules of the house that no lint holds: files stay short and say what they are, crates keep their arrows, and
//! SECURITY.md promises nothing without a test.
//!
//! Functions past 80 lines are clippy's to report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A file past this many lines says why at its head, in a line with the word "long".
const LONG: usize = 600;

/// What each crate of ours may depend on.
const ARROWS: [(&str, &[&str]); 18] = [
    ("lmcp-wire", &[]),
    ("lmcp-heap", &[]),
    ("lmcp-schema", &[]),
    ("lmcp-private", &[]),
    ("lmcp-wiring", &["lmcp-wire"]),
    ("lmcp-testkit", &["lmcp-core"]),
    ("lmcp-outbound", &[]),
    (
        "lmcp-core",
        &["lmcp-wire", "lmcp-schema", "lmcp-heap", "lmcp-private"],
    ),
    ("lmcp-http", &["lmcp-wire", "lmcp-core", "lmcp-private"]),
    (
        "lmcp",
        &[
            "lmcp-wire",
            "lmcp-core",
            "lmcp-embed",
            "lmcp-heap",
            "lmcp-http",
            "lmcp-hub",
            "lmcp-upstream",
            "lmcp-wiring",
        ],
    ),
    (
        "lmcp-tools",
        &["lmcp-wire", "lmcp-core", "lmcp-outbound", "lmcp-private"],
    ),
    ("lmcp-embed", &["lmcp-core", "lmcp-private", "lmcp-wire"]),
    (
        "lmcp-client",
        &["lmcp-outbound", "lmcp-private", "lmcp-schema", "lmcp-wire"],
    ),
    ("lmcp-upstream", &["lmcp-client", "lmcp-core", "lmcp-wire"]),
    (
        "lmcp-fleet",
        &[
            "lmcp-client",
            "lmcp-core",
            "lmcp-private",
            "lmcp-tools",
            "lmcp-upstream",
            "lmcp-wire",
        ],
    ),
    (
        "lmcp-hub",
        &["lmcp-client", "lmcp-core", "lmcp-upstream", "lmcp-wire"],
    ),
    ("lmcp-proxy", &["lmcp-client", "lmcp-private", "lmcp-wire"]),
    (
        "lmcp-cli",
        &[
            "lmcp",
            "lmcp-fleet",
            "lmcp-private",
            "lmcp-proxy",
            "lmcp-tools",
            "lmcp-wiring",
        ],
    ),
];

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut complaints = Vec::new();
    for path in sources(&root()) {
        let text = fs::read_to_string(&path).expect("a source file is text");
        let head: String = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        if head.is_empty() && !is_compile_error_case(&path) {
            complaints.push(format!(
                "{} does not open with a `//!` line",
                path.display()
            ));
        }
        let lines = text.lines().count();
        if lines > LONG && !head.contains("long") {
            complaints.push(format!(
                "{} has {lines} lines and does not say why",
                path.display()
            ));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn crates_keep_their_arrows() {
    for (name, allowed) in ARROWS {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).expect("every crate has a manifest");
        let dependencies = text
            .split("\n[")
            .find_map(|section| section.strip_prefix("dependencies]"))
            .unwrap_or_default();
        let ours = dependencies
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|dependency| dependency.starts_with("lmcp"));
        for dependency in ours {
            assert!(
                allowed.contains(&dependency),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn only_the_wire_crate_knows_error_codes_as_numbers() {
    for path in sources(&root().join("crates")) {
        let in_source = path.components().any(|part| part.as_os_str() == "src");
        if !in_source || path.ends_with("lmcp-wire/src/error.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file is text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(
            !code.contains("-320"),
            "{} writes an error code as a number",
            path.display()
        );
    }
}

#[test]
fn every_crate_but_the_one_for_it_forbids_unsafe_code() {
    let manifest = read(&root().join("Cargo.toml"));
    assert!(manifest.contains("\nunsafe_code = \"forbid\""));
    let members = manifest.split("\nmembers = [").nth(1);
    let members = members.and_then(|rest| rest.split("\n]").next());
    for line in members.expect("the workspace has members").lines().skip(1) {
        let member = line.split('"').nth(1).expect("each has a line of its own");
        if member == "crates/lmcp-heap" {
            continue;
        }
        let text = read(&root().join(member).join("Cargo.toml"));
        assert!(
            text.contains("\n[lints]\nworkspace = true"),
            "{member} does not keep the lints of the workspace"
        );
    }
}

#[test]
fn every_test_that_security_md_names_is_there() {
    let page = read(&root().join("SECURITY.md"));
    let mut complaints = Vec::new();
    for (place, names) in named_tests(&page) {
        let known = tests_in(&place);
        let missing = names.iter().filter(|name| !known.contains(*name));
        complaints.extend(missing.map(|name| format!("there is no test `{name}` in `{place}`")));
    }
    let mut sections = page.split("\n## ");
    let promises = sections.find_map(|section| section.strip_prefix("What lmcp promises\n"));
    let promises = promises.expect("there is a section of promises");
    for promise in promises.split("\n- ").skip(1) {
        if !promise.contains('[') {
            let words: Vec<_> = promise.split_whitespace().take(8).collect();
            complaints.push(format!("no test is named for `{} …`", words.join(" ")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The names in brackets, `[PLACE: NAME, NAME; PLACE: NAME]`, by their places.
fn named_tests(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let lists = page.split('[').skip(1);
    let lists = lists.filter_map(|rest| rest.split(']').next());
    for group in lists.flat_map(|list| list.split(';')) {
        let (place, names) = group.split_once(':').unwrap_or(("", group));
        // A module may stand before a name.
        let names = names.split(',').filter_map(|name| name.rsplit("::").next());
        let names = names.map(|name| name.trim().to_owned());
        named
            .entry(place.trim().to_owned())
            .or_default()
            .extend(names);
    }
    named
}

/// What can be named of a place: a crate, a suite, or the transcripts.
fn tests_in(place: &str) -> BTreeSet<String> {
    match place {
        "" => BTreeSet::new(),
        "transcripts" => files(&root().join("tests/transcripts"), ".txt")
            .iter()
            .map(|path| stem(path))
            .collect(),
        "lmcp-tests" => functions(&root().join("tests")),
        suite if suite.starts_with("suites/") => cases(&root().join(suite).join("cases")),
        name => functions(&root().join("crates").join(name)),
    }
}

fn functions(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in sources(folder) {
        let text = read(&path);
        let names = text.split("fn ").skip(1);
        let names = names.filter_map(|rest| Some(rest.split_once('(')?.0));
        found.extend(names.map(str::to_owned));
    }
    found
}

/// The cases of a suite: each by its name alone, with its topic, and all of a topic.
fn cases(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files(folder, ".py") {
        let (text, topic) = (read(&path), stem(&path));
        for case in text.split("\n@case(").skip(1) {
            let function = case.split("\ndef ").nth(1).unwrap_or_default();
            let name = function.split('(').next().unwrap_or_default();
            found.extend([
                name.to_owned(),
                format!("{topic}/{name}"),
                format!("{topic}/*"),
            ]);
        }
    }
    found
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cases of the compile-error tests are shown to people as they are.
fn is_compile_error_case(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "ui")
}

pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    files(folder, ".rs")
}

/// The files below a folder whose names end like this.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    for entry in entries.filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, end));
        } else if name.ends_with(end) {
            found.push(path);
        }
    }
    found
}
