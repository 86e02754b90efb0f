//! A copy equals its original, and replaces only files that it may replace.

use std::fs;

use lmcp_tools::elsewhere::copy::PART_BYTES;
use serde_json::json;

use super::{Far, all, bytes, copy, little, seen, tree};

#[tokio::test]
async fn a_folder_is_the_same_on_the_other_side_whatever_leads_there() {
    for from in all() {
        tree(&from.path("tree"));
        for to in all() {
            let pair = format!("{} to {}", from.kind, to.kind);
            let said = copy((&from, "tree"), (&to, "new"), json!({})).await;
            let said = said.unwrap_or_else(|words| panic!("{pair}: {words}"));
            assert_eq!(seen(&from.path("tree")), seen(&to.path("new")), "{pair}");
            let counts = ["files", "folders", "links"].map(|name| said[name].as_u64().unwrap());
            assert_eq!(counts, [4, 4, 2], "{pair}");
            assert_eq!(to.names(), ["new"], "{pair}");
        }
    }
}

#[tokio::test]
async fn a_host_without_checksums_and_base64_is_copied_to_and_from() {
    let Some(little) = little() else {
        return;
    };
    let near = Far::lmcp();
    fs::write(near.path("large"), bytes(PART_BYTES + 5)).unwrap();
    copy((&near, "large"), (&little, "there"), json!({}))
        .await
        .unwrap();
    copy((&little, "there"), (&near, "back"), json!({}))
        .await
        .unwrap();
    assert!(fs::read(near.path("back")).unwrap() == bytes(PART_BYTES + 5));
    assert_eq!(little.names(), ["there"]);
}

#[tokio::test]
async fn a_file_is_not_replaced_unless_that_is_wanted() {
    for (from, to) in all().into_iter().zip(all().into_iter().rev()) {
        let pair = format!("{} to {}", from.kind, to.kind);
        fs::write(from.path("a"), "ours").unwrap();
        fs::write(to.path("b"), "theirs").unwrap();
        fs::create_dir(to.path("folder")).unwrap();
        let words = copy((&from, "a"), (&to, "b"), json!({})).await.unwrap_err();
        assert!(words.contains("exists already"), "{pair}: {words}");
        let words = copy((&from, "a"), (&to, "folder"), json!({}))
            .await
            .unwrap_err();
        assert!(words.contains("is a folder"), "{pair}: {words}");
        let words = copy((&from, "a"), (&to, "no/b"), json!({}))
            .await
            .unwrap_err();
        assert!(words.contains("does not exist"), "{pair}: {words}");
        assert_eq!(fs::read(to.path("b")).unwrap(), b"theirs", "{pair}");
        let over = copy((&from, "a"), (&to, "b"), json!({ "overwrite": true }))
            .await
            .unwrap();
        assert_eq!(over["bytes"], 4, "{pair}");
        assert_eq!(fs::read(to.path("b")).unwrap(), b"ours", "{pair}");
        copy((&from, "a"), (&to, "no/b"), json!({ "parents": true }))
            .await
            .unwrap();
        // A path that ends with a slash is a folder that takes the copy.
        let into = json!({ "to_path": format!("{}/", to.path("folder").display()) });
        let said = copy((&from, "a"), (&to, ""), into).await.unwrap();
        let path = to.path("folder/a");
        assert_eq!(said["to_path"].as_str(), path.to_str(), "{pair}");
        for name in ["no/b", "folder/a"] {
            assert_eq!(fs::read(to.path(name)).unwrap(), b"ours", "{pair}");
        }
        let words = copy((&from, "none"), (&to, "c"), json!({}))
            .await
            .unwrap_err();
        assert!(
            words.contains(&format!("at the source, {}", from.name)),
            "{pair}: {words}"
        );
        // Files are added to a folder that exists, and its own files stay.
        fs::create_dir(from.path("top")).unwrap();
        fs::write(from.path("top/x"), "x").unwrap();
        let words = copy((&from, "top"), (&to, "folder"), json!({}))
            .await
            .unwrap_err();
        assert!(words.contains("exists already"), "{pair}: {words}");
        copy(
            (&from, "top"),
            (&to, "folder"),
            json!({ "overwrite": true }),
        )
        .await
        .unwrap();
        let names = ["folder/a", "folder/x"].map(|name| to.path(name).exists());
        assert_eq!(names, [true, true], "{pair}");
    }
}
