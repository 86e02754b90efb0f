//! The rules of the house that no lint holds: files stay short and say what they are, and crates keep their arrows.
//!
//! Functions past 80 lines are clippy's to report.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file past this many lines says why at its head, in a line with the word "long".
const LONG: usize = 600;

/// What each crate of ours may depend on.
const ARROWS: [(&str, &[&str]); 11] = [
    ("lmcp-wire", &[]),
    ("lmcp-schema", &[]),
    ("lmcp-private", &[]),
    ("lmcp-core", &["lmcp-wire", "lmcp-schema", "lmcp-private"]),
    ("lmcp-http", &["lmcp-wire", "lmcp-core"]),
    (
        "lmcp",
        &["lmcp-wire", "lmcp-core", "lmcp-embed", "lmcp-http"],
    ),
    ("lmcp-tools", &["lmcp-wire", "lmcp-core"]),
    ("lmcp-embed", &["lmcp-core", "lmcp-private", "lmcp-wire"]),
    ("lmcp-client", &["lmcp-wire"]),
    ("lmcp-proxy", &["lmcp-client", "lmcp-private", "lmcp-wire"]),
    (
        "lmcp-cli",
        &["lmcp", "lmcp-private", "lmcp-proxy", "lmcp-tools"],
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cases of the compile-error tests are shown to people as they are.
fn is_compile_error_case(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "ui")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).expect("the workspace can be read");
    for entry in entries.filter_map(Result::ok) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}
