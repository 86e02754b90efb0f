//! Ways that break, and copies that go on after that.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use lmcp_tools::elsewhere::copy::PART_BYTES;
use serde_json::json;
use tokio::sync::Notify;

use super::{Far, Fate, all, bytes, copy, seen, tree};

/// Notifies when a part is to be written, after `parts` others.
fn cut_at(to: &Far, parts: usize) -> Arc<Notify> {
    let (reached, writes) = (Arc::new(Notify::new()), AtomicUsize::default());
    let tell = Arc::clone(&reached);
    to.trouble(move |_, what| {
        if what == "write" && writes.fetch_add(1, Ordering::AcqRel) == parts {
            tell.notify_one();
        }
        Fate::Well
    });
    reached
}

#[tokio::test]
async fn a_copy_goes_on_when_what_was_said_is_lost() {
    for to in all().into_iter().skip(1) {
        let from = Far::lmcp();
        tree(&from.path("tree"));
        fs::write(from.path("large"), bytes(2 * PART_BYTES + 9)).unwrap();
        // The first step never fails: a host that has not answered yet is not waited for.
        from.trouble(|number, _| {
            if number % 7 == 5 {
                Fate::Lost
            } else {
                Fate::Well
            }
        });
        to.trouble(|number, _| match number % 5 {
            2 => Fate::Lost,
            4 => Fate::Unsent,
            _ => Fate::Well,
        });
        let said = copy((&from, "tree"), (&to, "new"), json!({})).await;
        assert!(said.is_ok(), "{}: {said:?}", to.kind);
        assert_eq!(
            seen(&from.path("tree")),
            seen(&to.path("new")),
            "{}",
            to.kind
        );
        let said = copy((&from, "large"), (&to, "large"), json!({})).await;
        assert!(said.is_ok(), "{}: {said:?}", to.kind);
        let same = fs::read(from.path("large")).unwrap() == fs::read(to.path("large")).unwrap();
        assert!(same, "{}", to.kind);
    }
}

#[tokio::test]
async fn the_next_call_goes_on_where_a_copy_was_cut_off() {
    for to in all().into_iter().skip(1) {
        let from = Far::lmcp();
        fs::write(from.path("large"), bytes(3 * PART_BYTES + 9)).unwrap();
        let third = cut_at(&to, 2);
        tokio::select! {
            said = copy((&from, "large"), (&to, "new"), json!({})) => panic!("{}: {said:?}", to.kind),
            () = third.notified() => {}
        }
        assert!(!to.path("new").exists(), "{}", to.kind);
        assert_eq!(to.names().len(), 1, "{}", to.kind);
        to.trouble(|_, _| Fate::Well);
        let said = copy((&from, "large"), (&to, "new"), json!({}))
            .await
            .unwrap();
        assert!(
            said["resumed_bytes"].as_u64() >= Some(2 * PART_BYTES),
            "{}: {said}",
            to.kind
        );
        assert!(
            fs::read(to.path("new")).unwrap() == bytes(3 * PART_BYTES + 9),
            "{}",
            to.kind
        );
        assert_eq!(to.names(), ["new"], "{}", to.kind);
    }
}

#[tokio::test]
async fn what_is_there_of_another_file_is_not_taken_for_the_beginning() {
    for to in all().into_iter().skip(1) {
        let from = Far::lmcp();
        fs::write(from.path("large"), bytes(2 * PART_BYTES + 9)).unwrap();
        let second = cut_at(&to, 1);
        tokio::select! {
            said = copy((&from, "large"), (&to, "new"), json!({})) => panic!("{}: {said:?}", to.kind),
            () = second.notified() => {}
        }
        to.trouble(|_, _| Fate::Well);
        let draft = to.path(&to.names()[0]);
        let mut wrong = fs::read(&draft).unwrap();
        wrong[7] ^= 1;
        fs::write(&draft, wrong).unwrap();
        let said = copy((&from, "large"), (&to, "new"), json!({}))
            .await
            .unwrap();
        assert_eq!(said["resumed_bytes"], 0, "{}", to.kind);
        assert!(
            fs::read(to.path("new")).unwrap() == bytes(2 * PART_BYTES + 9),
            "{}",
            to.kind
        );
    }
}
