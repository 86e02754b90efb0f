//! The files of a crate import each other in one direction: whoever reads one need not know who uses it.
//!
//! A folder's `mod.rs` and the files in it are one module, and may know each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::tidy::{root, sources};

/// The crates that this is true of. Others have pairs of files that are not apart yet.
const CRATES: [&str; 10] = [
    "lmcp-core",
    "lmcp-http",
    "lmcp-client",
    "lmcp-upstream",
    "lmcp-hub",
    "lmcp-proxy",
    "lmcp-outbound",
    "lmcp-heap",
    "lmcp-fleet",
    "lmcp-wiring",
];

#[test]
fn no_two_files_of_a_crate_import_each_other() {
    let complaints: Vec<_> = CRATES.into_iter().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn complaints(krate: &str) -> Vec<String> {
    let imports = imports(&root().join("crates").join(krate).join("src"));
    let mut complaints = Vec::new();
    for (file, imported) in &imports {
        let both_ways = imported.iter().filter(|other| {
            let back = imports.get(*other);
            file < *other && !are_one(file, other) && back.is_some_and(|back| back.contains(file))
        });
        complaints.extend(
            both_ways.map(|other| format!("{krate}: {file} and {other} import each other")),
        );
    }
    complaints
}

#[test]
fn a_tree_of_imports_is_read_as_the_compiler_reads_it() {
    let tree = "crate::{call::{self, Call}, super::ask, error::ToolError as Failed}";
    let mut found = Vec::new();
    expand("", tree, &mut found);
    assert_eq!(
        found,
        [
            "crate::call::self",
            "crate::call::Call",
            "crate::super::ask",
            "crate::error::ToolError as Failed"
        ]
    );
    let files = ["call", "session", "session::live"].map(str::to_owned);
    let files = files.into_iter().collect();
    let resolve = |path| resolve("session::live", path, &files);
    assert_eq!(resolve("crate::call::Call").as_deref(), Some("call"));
    assert_eq!(resolve("super::Session").as_deref(), Some("session"));
    assert_eq!(resolve("serde::Serialize"), None);
}

/// Is one of these the folder of the other?
fn are_one(file: &str, other: &str) -> bool {
    let is_below = |below: &str, above: &str| {
        let rest = below.strip_prefix(above);
        rest.is_some_and(|rest| rest.starts_with("::"))
    };
    is_below(file, other) || is_below(other, file)
}

/// What every file of a crate imports from its other files, all by their paths: `session::live`.
fn imports(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let texts: BTreeMap<_, _> = sources(folder)
        .iter()
        .map(|path| (name(folder, path), code(path)))
        .filter(|(name, _)| name != "lib")
        .collect();
    let files = texts.keys().cloned().collect();
    let imported = |file: &str, text: &str| {
        let mut paths = Vec::new();
        for import in text.split("use ").skip(1) {
            let tree = import.split(';').next().unwrap_or_default();
            expand("", tree, &mut paths);
        }
        let found = paths.iter().filter_map(|path| resolve(file, path, &files));
        found.filter(|other| other != file).collect()
    };
    let all = texts.iter();
    all.map(|(file, text)| (file.clone(), imported(file, text)))
        .collect()
}

/// The path of a file: that of `session/mod.rs` is `session`.
fn name(folder: &Path, path: &Path) -> String {
    let path = path.strip_prefix(folder).unwrap_or(path);
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts.filter(|part| part != "mod").collect();
    parts.join("::")
}

/// A file without its comments and its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file is text");
    let text = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of an import: `a::{b, c::D}` is `a::b` and `a::c::D`.
fn expand(before: &str, tree: &str, found: &mut Vec<String>) {
    let mut depth = 0;
    let is_between = |letter: char| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    };
    for part in tree.split(is_between).map(str::trim) {
        match part.split_once('{') {
            Some((path, rest)) => {
                let rest = rest.strip_suffix('}').unwrap_or(rest);
                expand(&format!("{before}{path}"), rest, found);
            }
            None if part.is_empty() => {}
            None => found.push(format!("{before}{part}")),
        }
    }
}

/// The file that a path leads to, seen from another.
fn resolve(file: &str, path: &str, files: &BTreeSet<String>) -> Option<String> {
    let mut place: Vec<_> = file.split("::").collect();
    let mut parts = path.split("::").map(str::trim).peekable();
    match *parts.peek()? {
        "crate" => place.clear(),
        "self" | "super" => {}
        child => {
            let child = format!("{file}::{child}");
            return files.contains(&child).then_some(child);
        }
    }
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => drop(place.pop()),
            part => place.push(part),
        }
    }
    while !place.is_empty() {
        let name = place.join("::");
        if files.contains(&name) {
            return Some(name);
        }
        place.pop();
    }
    None
}
