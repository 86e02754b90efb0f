//! L9: does a path lie in one of the client's folders? By what it is, not by how it is written.

use std::{io, os::unix::fs::symlink, path::PathBuf};

use lmcp_core::roots::covers;
use lmcp_wire::roots::Root;
use serde_json::json;

use crate::support::Folder;

#[test]
fn what_lies_inside_is_covered_and_nothing_else() {
    let (folder, inside) = tree().unwrap();
    let roots = [root(&format!("file://{}", inside.display()))];
    for (path, expected) in [
        (inside.clone(), true),
        (inside.join("file"), true),
        (inside.join("deep/file"), true),
        (inside.join("not/there/yet"), true),
        (inside.join("deep/../file"), true),
        // A name that only begins alike.
        (folder.join("home/abc"), false),
        (folder.join("home/abc/file"), false),
        (folder.join("home"), false),
        (inside.join(".."), false),
        (inside.join("../abc/file"), false),
        (inside.join("../../secret"), false),
        (inside.join("deep/../../abc/file"), false),
        // Links lead where they lead.
        (inside.join("out"), false),
        (inside.join("out/file"), false),
        (inside.join("out/new"), false),
        (inside.join("in/file"), true),
        (folder.join("home/abc/back/file"), true),
        (PathBuf::from("/etc/shadow"), false),
        (PathBuf::from("/"), false),
    ] {
        let found = covers(&roots, &path).unwrap_or(false);
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn dots_behind_what_does_not_exist_lead_nowhere() {
    let (_folder, inside) = tree().unwrap();
    let roots = [root(&format!("file://{}", inside.display()))];
    for path in [
        "not/there/../../../abc/file",
        "none/../../abc/file",
        "dangling/x",
        "dangling",
    ] {
        let found = covers(&roots, &inside.join(path)).unwrap_or(false);
        assert!(!found, "{path}");
    }
}

#[test]
fn a_root_is_read_as_a_uri() {
    let (folder, inside) = tree().unwrap();
    let home = inside.parent().unwrap().display().to_string();
    let file = inside.join("file");
    for (uri, expected) in [
        (format!("file://{home}/a"), true),
        (format!("file://{home}/a/"), true),
        (format!("file://{home}/%61"), true),
        (format!("file://localhost{home}/a"), true),
        (format!("file://{home}/abc/../a"), true),
        (format!("file://{home}/%61bc"), false),
        (format!("file://elsewhere.example{home}/a"), false),
        (format!("file://{home}/none"), false),
        (format!("file://{home}/a%00"), false),
        (format!("file://{home}/a%2"), false),
        (format!("https://{home}/a"), false),
        (format!("{home}/a"), false),
        ("file://".into(), false),
        ("file:".into(), false),
        ("".into(), false),
    ] {
        assert_eq!(covers(&[root(&uri)], &file).unwrap(), expected, "{uri}");
    }
    assert!(!covers(&[], &file).unwrap(), "no folders cover nothing");
    let spaced = folder.join("two words");
    std::fs::create_dir(&spaced).unwrap();
    let uri = format!("file://{}", spaced.display()).replace(' ', "%20");
    assert!(covers(&[root("https://example"), root(&uri)], &spaced.join("x")).unwrap());
}

/// `home/a` with a file, a folder and links; `home/abc` beside it.
fn tree() -> io::Result<(Folder, PathBuf)> {
    let folder = Folder::new();
    let home = folder.path().canonicalize()?.join("home");
    std::fs::create_dir_all(home.join("a/deep"))?;
    std::fs::create_dir_all(home.join("abc"))?;
    for file in ["a/file", "a/deep/file", "abc/file", "../secret"] {
        std::fs::write(home.join(file), "text")?;
    }
    symlink(home.join("abc"), home.join("a/out"))?;
    symlink(home.join("a/deep"), home.join("a/in"))?;
    symlink(home.join("a"), home.join("abc/back"))?;
    symlink(home.join("abc/none"), home.join("a/dangling"))?;
    Ok((folder, home.join("a")))
}

fn root(uri: &str) -> Root {
    serde_json::from_value(json!({ "uri": uri })).expect("it is a root")
}
