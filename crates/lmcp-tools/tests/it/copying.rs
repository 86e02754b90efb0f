//! `copy_out` and `copy_in`, which a fleet copies files with: they are in no list, and obey all that confines other tools.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::writing::{Bench, Called};

/// The hash of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const KEY: &str = "0123456789ab";

fn said(called: &Called) -> Value {
    assert!(!called.failed, "{}", called.text);
    serde_json::from_str(&called.text).unwrap()
}

async fn look(bench: &Bench, name: &str) -> Value {
    let look = json!({ "what": "look", "path": bench.path(name) });
    said(&bench.call("copy_out", look).await)
}

fn finish(bench: &Bench, name: &str) -> Value {
    json!({
        "what": "finish", "path": bench.path(name), "key": KEY, "size": 5, "sha256": HELLO, "mode": 0o640,
        "data": STANDARD.encode("hello"),
    })
}

fn names(bench: &Bench) -> Vec<String> {
    let entries = fs::read_dir(bench.path("")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_str().unwrap().to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_is_read_in_parts_while_it_stays_what_it_was() {
    let bench = Bench::confined();
    let file = bench.file("a", "hello");
    let found = look(&bench, "a").await;
    assert_eq!(
        (&found["kind"], &found["size"]),
        (&json!("file"), &json!(5))
    );
    let read = |length: u64, stamp: &Value| json!({ "what": "read", "path": file, "length": length, "stamp": stamp });
    let part = said(&bench.call("copy_out", read(5, &found["stamp"])).await);
    assert_eq!(
        part,
        json!({ "data": STANDARD.encode("hello"), "sha256": HELLO })
    );
    let hash = json!({ "what": "hash", "path": file, "stamp": found["stamp"] });
    let hash = said(&bench.call("copy_out", hash).await);
    assert_eq!(hash["sha256"], HELLO);
    // It has more than that, or less.
    for length in [4, 6] {
        let stamp = &found["stamp"];
        let called = bench.call("copy_out", read(length, stamp)).await;
        match length {
            4 => assert!(!called.failed),
            _ => drop(called.refused("was changed")),
        }
    }
    fs::write(&file, "hullo!").unwrap();
    for what in [
        read(5, &found["stamp"]),
        json!({ "what": "hash", "path": file, "stamp": found["stamp"] }),
    ] {
        bench.call("copy_out", what).await.refused("was changed");
    }
    let large = read((1 << 20) + 1, &found["stamp"]);
    bench.call("copy_out", large).await.refused("at most");
}

#[tokio::test]
async fn what_is_made_up_when_it_is_read_is_not_copied_as_nothing() {
    let bench = Bench::open();
    let path = "/proc/self/status";
    let found = said(
        &bench
            .call("copy_out", json!({ "what": "look", "path": path }))
            .await,
    );
    assert_eq!(found["size"], 0);
    let read = json!({ "what": "read", "path": path, "length": 0, "stamp": found["stamp"] });
    assert!(bench.call("copy_out", read).await.failed);
}

#[tokio::test]
async fn a_folder_is_listed_with_links_and_without_following_them() {
    let bench = Bench::confined();
    fs::create_dir_all(bench.path("top/sub")).unwrap();
    bench.file("top/sub/x", "hello");
    symlink("../../outside", bench.path("top/out")).unwrap();
    let list = json!({ "what": "list", "path": bench.path("top") });
    let listed = said(&bench.call("copy_out", list).await);
    let mut found: Vec<_> = listed.as_array().unwrap().clone();
    found.sort_by_key(|entry| entry["path"].as_str().unwrap().to_owned());
    let kinds: Vec<_> = found
        .iter()
        .map(|entry| (&entry["path"], &entry["kind"]))
        .collect();
    assert_eq!(
        kinds,
        [
            (&json!("out"), &json!("link")),
            (&json!("sub"), &json!("folder")),
            (&json!("sub/x"), &json!("file")),
        ]
    );
    assert_eq!(found[0]["target"], "../../outside");
}

#[tokio::test]
async fn nobody_but_its_owner_may_write_to_a_file_that_was_copied() {
    let bench = Bench::confined();
    let part = json!({ "what": "write", "path": bench.path("a"), "key": KEY, "offset": 0, "data": STANDARD.encode("hello") });
    said(&bench.call("copy_in", part).await);
    let mut end = finish(&bench, "a");
    end["mode"] = json!(0o777);
    said(&bench.call("copy_in", end).await);
    let mode = fs::metadata(bench.path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7722, 0o700, "{mode:o}");
}

#[tokio::test]
async fn a_file_takes_its_name_when_its_hash_is_right() {
    let bench = Bench::confined();
    let part = |offset: u64, text: &str| json!({ "what": "write", "path": bench.path("a"), "key": KEY, "offset": offset, "data": STANDARD.encode(text) });
    said(&bench.call("copy_in", part(0, "hel")).await);
    bench
        .call("copy_in", part(4, "o"))
        .await
        .refused("behind the end");
    // The next call finds what is there.
    let begin = json!({ "what": "begin", "path": bench.path("a"), "key": KEY, "size": 5 });
    assert_eq!(said(&bench.call("copy_in", begin.clone()).await)["kept"], 3);
    assert_eq!(names(&bench), [format!(".a.lmcp-{KEY}")]);
    let mut end = finish(&bench, "a");
    end["data"] = Value::Null;
    said(&bench.call("copy_in", part(3, "LO")).await);
    assert_eq!(
        said(&bench.call("copy_in", end.clone()).await)["differs"],
        true
    );
    assert_eq!(names(&bench), Vec::<String>::new());
    said(&bench.call("copy_in", part(0, "hello")).await);
    // The second time, the first answer was lost.
    for _ in 0..2 {
        said(&bench.call("copy_in", end.clone()).await);
        said(&bench.call("copy_in", finish(&bench, "a")).await);
    }
    assert_eq!(names(&bench), ["a"]);
    assert_eq!(fs::read(bench.path("a")).unwrap(), b"hello");
    let mode = fs::metadata(bench.path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    bench.call("copy_in", begin).await.refused("exists already");
    fs::write(bench.path("a"), "theirs").unwrap();
    bench
        .call("copy_in", finish(&bench, "a"))
        .await
        .refused("exists already");
    assert_eq!(fs::read(bench.path("a")).unwrap(), b"theirs");
    let mut over = finish(&bench, "a");
    over["overwrite"] = true.into();
    said(&bench.call("copy_in", over).await);
    assert_eq!(fs::read(bench.path("a")).unwrap(), b"hello");
}

#[tokio::test]
async fn a_folder_grows_where_nobody_looks() {
    let bench = Bench::confined();
    let begin = json!({ "what": "begin", "kind": "folder", "path": bench.path("new"), "key": KEY });
    let begun = said(&bench.call("copy_in", begin.clone()).await);
    assert_eq!(begun["is_draft"], true);
    let work = begun["work"].as_str().unwrap();
    let sub = format!("{work}/sub");
    let folder = json!({ "what": "folder", "path": sub, "top": work, "mode": 0o500 });
    // The second time, the first answer was lost.
    for _ in 0..2 {
        let made = said(&bench.call("copy_in", folder.clone()).await);
        assert_eq!(made["is_growing"], true);
    }
    let link = json!({ "what": "link", "path": format!("{sub}/l"), "top": work, "target": "../x", "key": KEY });
    said(&bench.call("copy_in", link.clone()).await);
    said(&bench.call("copy_in", link).await);
    let mode = json!({ "what": "mode", "path": sub, "top": work, "mode": 0o500 });
    for _ in 0..2 {
        said(&bench.call("copy_in", mode.clone()).await);
    }
    let settle = json!({ "what": "settle", "path": bench.path("new"), "key": KEY, "mode": 0o750 });
    for _ in 0..2 {
        said(&bench.call("copy_in", settle.clone()).await);
    }
    assert_eq!(names(&bench), ["new"]);
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("new"), mode("new/sub")), (0o750, 0o500));
    assert_eq!(
        fs::read_link(bench.path("new/sub/l")).unwrap().to_str(),
        Some("../x")
    );
    bench.call("copy_in", begin).await.refused("exists already");
    fs::set_permissions(bench.path("new/sub"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn nothing_outside_of_the_roots_is_read_or_written() {
    let bench = Bench::confined();
    fs::write(bench.outside("secret"), "secret").unwrap();
    symlink("../outside", bench.path("folder")).unwrap();
    symlink("../outside/secret", bench.path("file")).unwrap();
    fs::hard_link(bench.outside("secret"), bench.path("hard")).unwrap();
    for path in [
        bench.outside("secret"),
        bench.path("file"),
        bench.path("folder/secret"),
        bench.path("hard"),
    ] {
        for what in ["look", "read", "hash", "list"] {
            let call = json!({ "what": what, "path": path, "length": 6, "stamp": "1-2-3" });
            assert!(bench.call("copy_out", call).await.failed, "{what} {path:?}");
        }
    }
    for path in [
        bench.outside("new"),
        bench.path("folder/new"),
        bench.path("file"),
        bench.path("hard"),
    ] {
        for what in [
            "begin", "write", "finish", "folder", "link", "settle", "mode",
        ] {
            let call = json!({
                "what": what, "path": path, "key": KEY, "size": 5, "sha256": HELLO, "target": "x",
                "overwrite": true, "data": STANDARD.encode("hello"), "mode": 0o777,
                "top": matches!(what, "folder" | "link" | "mode").then(|| path.parent()),
            });
            let called = bench.call("copy_in", call).await;
            // A name inside, or what stands beside it, may be replaced; what it led to stays.
            let is_inside = [bench.path("file"), bench.path("hard")].contains(&path);
            assert!(
                called.failed || is_inside,
                "{what} {path:?}: {}",
                called.text
            );
        }
    }
    assert_eq!(fs::read(bench.outside("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(bench.outside("")).unwrap().count(), 1);
    for target in ["/etc/passwd", "../outside", "a/../../outside", ".."] {
        let link = json!({
            "what": "link", "path": bench.path("l"), "top": bench.path(""), "target": target, "key": KEY,
        });
        bench
            .call("copy_in", link)
            .await
            .refused("outside of what this server may touch");
    }
}

#[tokio::test]
async fn below_the_folder_of_a_copy_no_link_is_followed() {
    for bench in [Bench::open(), Bench::confined()] {
        fs::create_dir_all(bench.path("elsewhere")).unwrap();
        bench.file("elsewhere/rc", "theirs");
        fs::create_dir(bench.path("top")).unwrap();
        for (name, target) in [("x", "../elsewhere"), ("y", "../elsewhere/rc")] {
            symlink(target, bench.path("top").join(name)).unwrap();
        }
        let below = |mut call: Value, overwrite: bool| {
            call["top"] = json!(bench.path("top"));
            call["overwrite"] = overwrite.into();
            bench.call("copy_in", call)
        };
        for what in ["begin", "write", "finish", "folder", "link", "mode"] {
            let mut call = finish(&bench, "top/x/new");
            call["what"] = what.into();
            assert!(below(call, true).await.failed, "{what}");
        }
        for path in ["top", "top/../elsewhere/rc", "elsewhere/rc", "topmost/x"] {
            let refused = below(finish(&bench, path), true).await;
            refused.refused("is not below");
        }
        let folder = json!({ "what": "folder", "path": bench.path("top/x"), "mode": 0o755 });
        for call in [folder.clone(), finish(&bench, "top/y")] {
            below(call, false).await.refused("exists already");
        }
        for call in [folder, finish(&bench, "top/y"), finish(&bench, "top/x/new")] {
            said(&below(call, true).await);
        }
        let kinds = ["top/x", "top/y", "top/x/new"].map(|name| {
            let about = fs::symlink_metadata(bench.path(name)).unwrap();
            (about.is_dir(), about.is_file())
        });
        assert_eq!(kinds, [(true, false), (false, true), (false, true)]);
        assert_eq!(fs::read(bench.path("elsewhere/rc")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(bench.path("elsewhere")).unwrap().count(), 1);
    }
}

#[tokio::test]
async fn only_a_folder_that_a_copy_has_made_gets_a_mode() {
    let bench = Bench::confined();
    fs::create_dir(bench.path("own")).unwrap();
    let root = bench
        .path("")
        .to_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    for path in ["", "own"] {
        fs::set_permissions(bench.path(path), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let set = |path: String, top: Option<&str>, mode: u32| {
        let call = json!({ "what": "mode", "path": path, "top": top, "mode": mode });
        bench.call("copy_in", call)
    };
    let own = format!("{root}/own");
    for mode in [0, 0o777] {
        for path in [&root, &own] {
            let refused = set(path.clone(), None, mode).await;
            refused.refused("`top` is missing");
        }
        for path in [root.clone(), format!("{own}/..")] {
            let refused = set(path, Some(&root), mode).await;
            refused.refused("is not below");
        }
        let refused = set(own.clone(), Some(&root), mode).await;
        refused.refused("no folder that this copy has made");
    }
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode(""), mode("own")), (0o700, 0o700));
    // What a copy makes has no more rights than any new folder, and lends none.
    for (name, wish, given) in [("open", 0o7777, 0o755), ("closed", 0o7577, 0o555)] {
        let path = format!("{root}/{name}");
        let folder = json!({ "what": "folder", "path": path, "top": root, "mode": wish });
        let made = said(&bench.call("copy_in", folder).await);
        if made["is_growing"] == true {
            said(&set(path, Some(&root), wish).await);
        }
        assert_eq!(mode(name), given, "{name}");
    }
}

#[tokio::test]
async fn what_somebody_else_put_where_a_copy_grows_is_not_written_to() {
    let bench = Bench::open();
    fs::write(bench.outside("secret"), "secret").unwrap();
    let draft = bench.path(&format!(".a.lmcp-{KEY}"));
    symlink(bench.outside("secret"), &draft).unwrap();
    assert!(bench.call("copy_in", finish(&bench, "a")).await.failed);
    fs::remove_file(&draft).unwrap();
    fs::hard_link(bench.outside("secret"), &draft).unwrap();
    bench
        .call("copy_in", finish(&bench, "a"))
        .await
        .refused("somebody else's");
    assert_eq!(fs::read(bench.outside("secret")).unwrap(), b"secret");
    let mut call = finish(&bench, "a");
    call["key"] = "../../x".into();
    bench
        .call("copy_in", call)
        .await
        .refused("twelve hexadecimal digits");
}

#[tokio::test]
async fn where_nothing_may_be_changed_nothing_arrives() {
    let bench = Bench::with(|settings, _| settings.read_only = true);
    bench.file("a", "hello");
    look(&bench, "a").await;
    let refused = bench.client.call_tool("copy_in", finish(&bench, "b")).await;
    assert_eq!(refused.unwrap_err().code, -32602);
    let listed = bench.client.list_tools().await.unwrap();
    assert!(listed.iter().all(|tool| !tool.name.starts_with("copy")));
}
