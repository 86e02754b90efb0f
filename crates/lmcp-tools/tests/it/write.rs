//! `write_file` as a client sees it, on real files.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    process::Command,
};

use crate::writing::{Bench, leftovers};
use serde_json::json;

#[tokio::test]
async fn a_new_file_has_the_content_and_the_result_says_so() {
    let bench = Bench::open();
    let path = bench.path("new");
    let done = bench
        .call("write_file", json!({ "path": path, "content": "a\nbé" }))
        .await
        .ok();
    assert_eq!(fs::read(&path).unwrap(), "a\nbé".as_bytes());
    assert!(
        done.text
            .starts_with(&format!("{}: new file, 5 bytes, hash ", path.display())),
        "{}",
        done.text
    );
    assert_eq!(done.value["bytes_written"], 5);
    assert_eq!(done.value["created"], true);
    assert_eq!(done.value["lines"], 2);
    assert_eq!(done.value["hash"].as_str().unwrap().len(), 12);
    assert!(leftovers(path.parent().unwrap()).is_empty());
}

#[tokio::test]
async fn a_new_file_has_the_mode_that_the_umask_leaves() {
    let bench = Bench::open();
    let beside = bench.file("beside", "");
    let path = bench.path("new");
    bench
        .call("write_file", json!({ "path": path, "content": "" }))
        .await
        .ok();
    assert_eq!(
        fs::metadata(&path).unwrap().mode(),
        fs::metadata(&beside).unwrap().mode()
    );
}

#[tokio::test]
async fn mode_owner_and_attributes_are_kept() {
    let bench = Bench::open();
    let path = bench.file("script", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).unwrap();
    }
    let flags = rustix::fs::XattrFlags::empty();
    let knows_attributes = rustix::fs::setxattr(&path, "user.kept", b"yes", flags).is_ok();
    let before = fs::metadata(&path).unwrap();
    bench
        .call("write_file", json!({ "path": path, "content": "new" }))
        .await
        .ok();
    let after = fs::metadata(&path).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!(after.mode() & 0o7777, 0o751);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    if knows_attributes {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, "user.kept", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"yes");
    }
}

#[tokio::test]
async fn what_the_old_content_was_trusted_with_is_not_passed_on() {
    let bench = Bench::open();
    let path = bench.file("tool", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    bench
        .call("write_file", json!({ "path": path, "content": "new" }))
        .await
        .ok();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn a_read_only_file_is_refused_although_its_folder_would_let_it_be_replaced() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::open();
    let path = bench.file("file", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let write = json!({ "path": path, "content": "new" });
    bench.call("write_file", write).await.refused("ermission");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[tokio::test]
async fn a_link_is_kept_and_its_target_written() {
    for bench in [Bench::open(), Bench::confined()] {
        fs::create_dir(bench.path("deep")).unwrap();
        let target = bench.file("deep/target", "old");
        symlink("deep/../deep/target", bench.path("first")).unwrap();
        symlink("first", bench.path("second")).unwrap();
        bench
            .call(
                "write_file",
                json!({ "path": bench.path("second"), "content": "new" }),
            )
            .await
            .ok();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(
            fs::symlink_metadata(bench.path("second"))
                .unwrap()
                .is_symlink()
        );
        assert!(
            fs::symlink_metadata(bench.path("first"))
                .unwrap()
                .is_symlink()
        );
    }
}

#[tokio::test]
async fn a_dangling_link_makes_its_target_and_a_circle_is_refused() {
    for bench in [Bench::open(), Bench::confined()] {
        symlink("later", bench.path("link")).unwrap();
        bench
            .call(
                "write_file",
                json!({ "path": bench.path("link"), "content": "x" }),
            )
            .await
            .ok();
        assert_eq!(fs::read_to_string(bench.path("later")).unwrap(), "x");
        symlink("circle", bench.path("circle")).unwrap();
        bench
            .call(
                "write_file",
                json!({ "path": bench.path("circle"), "content": "x" }),
            )
            .await
            .refused("link");
    }
}

#[tokio::test]
async fn create_never_replaces() {
    let bench = Bench::open();
    let path = bench.path("once");
    let arguments = json!({ "path": path, "content": "1", "create_only": true });
    assert_eq!(
        bench.call("write_file", arguments.clone()).await.ok().value["created"],
        true
    );
    bench
        .call("write_file", arguments)
        .await
        .refused("exists already");
    bench
        .call(
            "write_file",
            json!({ "path": path, "content": "2", "mode": "create" }),
        )
        .await
        .refused("exists already");
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    assert!(leftovers(path.parent().unwrap()).is_empty());
}

#[tokio::test]
async fn of_many_that_create_one_wins() {
    let bench = Bench::open();
    let path = bench.path("once");
    let create = |content: &str| {
        bench.call(
            "write_file",
            json!({ "path": path, "content": content, "mode": "create" }),
        )
    };
    let (a, b, c, d) = tokio::join!(create("a"), create("b"), create("c"), create("d"));
    let won: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .zip([a, b, c, d])
        .filter(|(_, called)| !called.failed)
        .collect();
    assert_eq!(won.len(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), won[0].0);
}

#[tokio::test]
async fn append_adds_and_makes() {
    let bench = Bench::open();
    let path = bench.path("log");
    let append = |content: &str| {
        bench.call(
            "write_file",
            json!({ "path": path, "content": content, "mode": "append" }),
        )
    };
    assert_eq!(append("one\n").await.ok().value["created"], true);
    let second = append("two\n").await.ok();
    assert_eq!(second.value["bytes_written"], 4);
    assert_eq!(second.value["lines"], 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    let read_back = bench
        .call(
            "write_file",
            json!({ "path": path, "content": "one\ntwo\n" }),
        )
        .await
        .ok();
    assert_eq!(read_back.value["hash"], second.value["hash"]);
}

#[tokio::test]
async fn parallel_appends_are_all_there() {
    let bench = Bench::open();
    let path = bench.file("log", "");
    let writer = async |name: &str| {
        for n in 0..100 {
            let line = format!("{name}{n}\n");
            bench
                .call(
                    "write_file",
                    json!({ "path": path, "content": line, "mode": "append" }),
                )
                .await
                .ok();
        }
    };
    tokio::join!(writer("a"), writer("b"), writer("c"));
    let log = fs::read_to_string(&path).unwrap();
    for name in ["a", "b", "c"] {
        let own: Vec<_> = log
            .lines()
            .filter(|line| line.starts_with(name))
            .map(str::to_owned)
            .collect();
        let expected: Vec<_> = (0..100).map(|n| format!("{name}{n}")).collect();
        assert_eq!(own, expected);
    }
}

#[tokio::test]
async fn a_large_file_grows_and_has_no_hash() {
    let bench = Bench::confined();
    let path = bench.file("large", "");
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len((64 << 20) + 1)
        .unwrap();
    let before = fs::metadata(&path).unwrap();
    let done = bench
        .call(
            "write_file",
            json!({ "path": path, "content": "end", "mode": "append" }),
        )
        .await
        .ok();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.ino(), after.len()), (before.ino(), before.len() + 3));
    assert!(done.value.get("hash").is_none());
}

#[tokio::test]
async fn missing_folders_are_made_only_on_request() {
    let bench = Bench::confined();
    let path = bench.path("a/b/c/file");
    let told = bench
        .call("write_file", json!({ "path": path, "content": "x" }))
        .await
        .refused("does not exist");
    assert!(told.contains("parents"), "{told}");
    bench
        .call(
            "write_file",
            json!({ "path": path, "content": "x", "parents": true }),
        )
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "x");
}

#[tokio::test]
async fn base64_writes_bytes_and_nonsense_is_refused() {
    let bench = Bench::open();
    let path = bench.path("bytes");
    let write = |content: &str| {
        bench.call(
            "write_file",
            json!({ "path": path, "content": content, "encoding": "base64" }),
        )
    };
    assert_eq!(write("AP/+\nCg").await.ok().value["bytes_written"], 4);
    assert_eq!(fs::read(&path).unwrap(), [0, 255, 254, 10]);
    write("no base64!").await.refused("not base64");
    assert_eq!(fs::read(&path).unwrap(), [0, 255, 254, 10]);
}

#[tokio::test]
async fn another_hash_leaves_the_file_alone() {
    let bench = Bench::open();
    let path = bench.path("file");
    let write = |content: &str, hash: &str| {
        bench.call(
            "write_file",
            json!({ "path": path, "content": content, "if_hash": hash }),
        )
    };
    write("x", "00").await.refused("does not exist");
    assert!(!path.exists());
    let first = bench
        .call("write_file", json!({ "path": path, "content": "first" }))
        .await
        .ok();
    let hash = first.value["hash"].as_str().unwrap().to_owned();
    write("second", &hash).await.ok();
    write("third", &hash).await.refused("has changed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    let both = json!({ "path": path, "content": "x", "mode": "append", "if_hash": hash });
    bench.call("write_file", both).await.refused("has changed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
}

#[tokio::test]
async fn only_regular_files_are_written() {
    let bench = Bench::open();
    fs::create_dir(bench.path("folder")).unwrap();
    let write = |path: &str| {
        bench.call(
            "write_file",
            json!({ "path": bench.path(path), "content": "x" }),
        )
    };
    write("folder").await.refused("is a folder");
    write("folder/").await.refused("is a folder");
    write("nothing/").await.refused("is a folder");
    let fifo = Command::new("mkfifo")
        .arg(bench.path("fifo"))
        .status()
        .unwrap();
    assert!(fifo.success());
    write("fifo").await.refused("FIFO");
    bench
        .call("write_file", json!({ "path": "/dev/null", "content": "x" }))
        .await
        .refused("device");
}

#[tokio::test]
async fn a_name_as_long_as_names_may_be_is_written() {
    let bench = Bench::open();
    let path = bench.path(&"n".repeat(255));
    bench
        .call("write_file", json!({ "path": path, "content": "1" }))
        .await
        .ok();
    bench
        .call("write_file", json!({ "path": path, "content": "2" }))
        .await
        .ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), "2");
}

#[tokio::test]
async fn old_leftovers_of_the_same_file_are_removed_and_nothing_else() {
    let bench = Bench::open();
    let path = bench.file("file", "x");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let names = [
        ".file.lmcp-00112233aabb",
        ".other.lmcp-00112233aabb",
        ".file.lmcp-notes",
    ];
    for name in names {
        let path = bench.file(name, "");
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    bench.file(".file.lmcp-ffffffffffff", "just begun");
    bench
        .call("write_file", json!({ "path": path, "content": "y" }))
        .await
        .ok();
    let mut left = leftovers(path.parent().unwrap());
    left.sort();
    assert_eq!(
        left,
        [
            ".file.lmcp-ffffffffffff",
            ".file.lmcp-notes",
            ".other.lmcp-00112233aabb"
        ]
    );
}

#[tokio::test]
async fn unknown_arguments_and_contradictions_are_refused() {
    let bench = Bench::open();
    let path = bench.path("file");
    bench
        .call(
            "write_file",
            json!({ "path": path, "content": "", "apend": true }),
        )
        .await
        .refused("apend");
    bench
        .call(
            "write_file",
            json!({ "path": path, "content": "", "create_only": true, "mode": "append" }),
        )
        .await
        .refused("exclude");
    assert!(!path.exists());
}

#[tokio::test]
async fn hints_say_that_writing_may_destroy_and_read_only_offers_no_such_tool() {
    let list = json!({});
    let tools = Bench::open()
        .client
        .request("tools/list", list.clone())
        .await
        .unwrap();
    for name in ["write_file", "edit_file"] {
        let tool = tools["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name)
            .unwrap();
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], false);
        assert_eq!(hints["destructiveHint"], true);
        assert_eq!(hints["idempotentHint"], false);
        assert_eq!(hints["openWorldHint"], false);
        assert!(
            tool["description"]
                .as_str()
                .unwrap()
                .split_whitespace()
                .count()
                < 40
        );
        assert!(tool["outputSchema"].is_object());
    }
    let read_only = Bench::with(|settings, _| settings.read_only = true);
    let tools = read_only.client.request("tools/list", list).await;
    let text = tools.map(|tools| tools.to_string()).unwrap_or_default();
    assert!(!text.contains("write_file") && !text.contains("edit_file"));
}

// Where the folder does not let a file be replaced.

/// A folder in which nothing can be made, although its files can be written. `None` where that cannot be had.
pub(crate) struct Sealed<'a>(&'a std::path::Path);

impl<'a> Sealed<'a> {
    pub(crate) fn new(folder: &'a std::path::Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).ok()?;
            return Some(Self(folder));
        }
        let dir = fs::File::open(folder).ok()?;
        let flags = rustix::fs::ioctl_getflags(&dir).ok()?;
        rustix::fs::ioctl_setflags(&dir, flags | rustix::fs::IFlags::IMMUTABLE).ok()?;
        Some(Self(folder))
    }
}

impl Drop for Sealed<'_> {
    fn drop(&mut self) {
        if !rustix::process::geteuid().is_root() {
            fs::set_permissions(self.0, fs::Permissions::from_mode(0o755)).unwrap();
            return;
        }
        let dir = fs::File::open(self.0).unwrap();
        let flags = rustix::fs::ioctl_getflags(&dir).unwrap();
        rustix::fs::ioctl_setflags(&dir, flags - rustix::fs::IFlags::IMMUTABLE).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_replaced_is_written_in_place_but_never_below_a_root() {
    for (bench, confined) in [(Bench::open(), false), (Bench::confined(), true)] {
        let folder = bench.path("folder");
        fs::create_dir(&folder).unwrap();
        let path = bench.file("folder/file", "a longer old content");
        let Some(_sealed) = Sealed::new(&folder) else {
            return;
        };
        let called = bench
            .call("write_file", json!({ "path": path, "content": "new" }))
            .await;
        if confined {
            called.refused("cannot write");
            assert_eq!(fs::read_to_string(&path).unwrap(), "a longer old content");
        } else {
            assert!(
                called.ok().value["note"]
                    .as_str()
                    .unwrap()
                    .contains("in place")
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        }
    }
}

#[tokio::test]
async fn a_folder_that_makes_no_files_is_told_as_such() {
    let bench = Bench::open();
    let arguments = json!({ "path": "/proc/self/comm", "content": "x" });
    let text = bench
        .call("write_file", arguments)
        .await
        .refused("takes no new files");
    assert!(!text.contains("does not exist"), "{text}");
}
