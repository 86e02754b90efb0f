//! A copy that is refused says why, and leaves no file with the final name.

use std::{fs, sync::Arc};

use lmcp_core::Server;
use lmcp_tools::{HostTools, Settings, elsewhere::copy::PART_BYTES};
use serde_json::{Value, json};

use super::{Far, Fate, all, bytes, copy, path};

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_told_and_nothing_has_its_name() {
    for from in all() {
        let to = Far::shell("target", None);
        for (name, size) in [("small", 9), ("large", 2 * PART_BYTES + 9)] {
            fs::write(from.path(name), bytes(size)).unwrap();
            let path = from.path(name);
            from.trouble(move |_, what| {
                if what == "read" {
                    fs::write(&path, bytes(size + 1)).unwrap();
                }
                Fate::Well
            });
            let words = copy((&from, name), (&to, name), json!({}))
                .await
                .unwrap_err();
            assert!(
                words.contains("was changed while it was copied"),
                "{}: {words}",
                from.kind
            );
            assert!(!to.path(name).exists(), "{}", from.kind);
        }
        // In a folder, a file may also appear or disappear during the copy.
        fs::create_dir(from.path("tree")).unwrap();
        fs::write(from.path("tree/x"), "x").unwrap();
        let path = from.path("tree/y");
        from.trouble(move |_, what| {
            if what == "read" {
                fs::write(&path, "y").unwrap();
            }
            Fate::Well
        });
        let words = copy((&from, "tree"), (&to, "tree"), json!({}))
            .await
            .unwrap_err();
        assert!(
            words.contains("was changed while it was copied"),
            "{}: {words}",
            from.kind
        );
        assert!(!to.path("tree").exists(), "{}", from.kind);
    }
}

#[tokio::test]
async fn bytes_that_are_not_those_of_the_file_are_noticed() {
    for to in all() {
        let from = Far::shell("source", None);
        fs::write(from.path("a"), "abc").unwrap();
        from.trouble(|_, what| {
            if what == "read" {
                Fate::False
            } else {
                Fate::Well
            }
        });
        let words = copy((&from, "a"), (&to, "a"), json!({})).await.unwrap_err();
        assert!(words.contains("has another hash"), "{}: {words}", to.kind);
        assert_eq!(to.names(), Vec::<String>::new(), "{}", to.kind);
    }
}

#[tokio::test]
async fn what_is_no_file_is_refused_before_anything_is_copied() {
    for from in all() {
        let to = Far::shell("target", None);
        fs::create_dir(from.path("tree")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        for name in ["tree/pipe", "pipe"] {
            rustix::fs::mknodat(rustix::fs::CWD, from.path(name), fifo, mode, 0).unwrap();
        }
        let words = copy((&from, "tree"), (&to, "tree"), json!({}))
            .await
            .unwrap_err();
        assert!(words.contains("`pipe` is a FIFO"), "{}: {words}", from.kind);
        let words = copy((&from, "pipe"), (&to, "x"), json!({}))
            .await
            .unwrap_err();
        assert!(
            words.contains("is a FIFO, not a file"),
            "{}: {words}",
            from.kind
        );
        assert_eq!(to.names(), Vec::<String>::new(), "{}", from.kind);
    }
}

#[tokio::test]
async fn a_host_whose_lmcp_knows_no_copies_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let tools = HostTools::new(Settings::default()).unwrap();
    let server = tools.add_to(Server::new("host", "0")).start().unwrap();
    server.remove_tool("read_file");
    let old = Far::new("old", path::Kind::Http, folder, Arc::new(server), None);
    let to = Far::shell("target", None);
    fs::write(old.path("a"), "a").unwrap();
    let words = copy((&old, "a"), (&to, "a"), json!({})).await.unwrap_err();
    assert!(words.contains("does not offer `read_file`"), "{words}");
}

#[tokio::test]
async fn arguments_that_mean_nothing_are_refused() {
    let (from, to) = (Far::lmcp(), Far::shell("target", None));
    fs::create_dir(from.path("a")).unwrap();
    for (more, words) in [
        (json!({ "host": "lmcp*" }), "a copy comes from one host"),
        (json!({ "to_host": "nobody" }), "there is no host `nobody`"),
        (json!({ "to_host": Value::Null }), "`to_host` is missing"),
        (json!({ "form": "x" }), "unknown field `form`"),
        (
            json!({ "to_host": from.name, "to_path": from.path("a/b") }),
            "into itself",
        ),
        (
            json!({ "to_host": from.name, "to_path": from.path("a") }),
            "onto or into itself",
        ),
    ] {
        let said = copy((&from, "a"), (&to, "x"), more).await.unwrap_err();
        assert!(said.contains(words), "{said}");
    }
}
