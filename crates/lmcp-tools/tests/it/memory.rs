//! What tools hold for a caller is part of the server's budget of memory.

use std::{fs, path::Path};

use lmcp_core::{Handle, Limits, Server};
use lmcp_tools::{HostTools, Settings};
use lmcp_wire::CallToolResult;
use serde_json::{Value, json};

use crate::{picture::png, support::text};

const MIB: usize = 1024 * 1024;

/// A server for one folder, with so much memory for its callers.
fn serve(folder: &Path, memory: usize) -> Handle {
    let mut limits = Limits::default();
    limits.memory_bytes = memory;
    let mut settings = Settings::default();
    settings.roots = vec![folder.to_owned()];
    let tools = HostTools::new(settings).unwrap();
    let server = tools.add_to(Server::new("t", "0").limits(limits));
    server.start().unwrap()
}

/// Calls a tool while somebody else holds all but an eighth of the memory, and again when that was given back.
async fn crowded_and_free(
    server: &Handle,
    tool: &str,
    args: Value,
) -> (
    Result<CallToolResult, lmcp_core::client::Error>,
    CallToolResult,
) {
    let total = server.budget().total();
    let others = server.budget().account("others").take(total / 4 * 3);
    let crowded = server.client().call_tool(tool, args.clone()).await;
    drop(others);
    let free = server.client().call_tool(tool, args).await.unwrap();
    assert_eq!(server.budget().used(), 0, "everything was given back");
    (crowded, free)
}

fn expect_retriable(refused: Result<CallToolResult, lmcp_core::client::Error>) {
    let error = refused.unwrap_err();
    let data = error.into_rpc().data.unwrap();
    assert_eq!(
        (&data["limit"], &data["retriable"]),
        (&json!("memory_bytes"), &json!(true)),
        "{data}"
    );
}

#[tokio::test]
async fn pictures_wait_for_memory_and_are_refused_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.png"), png(9, 9, 2_000_000)).unwrap();
    fs::write(dir.path().join("b.txt"), "words").unwrap();
    let server = serve(dir.path(), 12 * MIB);
    for args in [
        json!({ "path": "a.png" }),
        json!({ "paths": ["b.txt", "a.png"] }),
    ] {
        let (crowded, free) = crowded_and_free(&server, "read_file", args).await;
        expect_retriable(crowded);
        assert!(free.content.len() > 1, "the picture is there");
    }
    let (crowded, _) = crowded_and_free(&server, "read_file", json!({ "path": "b.txt" })).await;
    assert!(text(&crowded.unwrap()).contains("words"));
}

#[tokio::test]
async fn edits_wait_for_memory_and_are_refused_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "word\n".repeat(300_000) + "needle").unwrap();
    let server = serve(dir.path(), 30 * MIB);
    let args = json!({ "path": "a", "old_string": "needle", "new_string": "pin" });
    let (crowded, free) = crowded_and_free(&server, "edit_file", args).await;
    expect_retriable(crowded);
    assert!(!free.is_error, "{}", text(&free));
    assert!(
        fs::read_to_string(dir.path().join("a"))
            .unwrap()
            .ends_with("pin")
    );
}

#[tokio::test]
async fn what_an_edit_adds_to_a_file_counts_as_memory() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x\n".repeat(10_000)).unwrap();
    // The indentation of a list of lines is repeated for each new one.
    let blanks = " ".repeat(1000);
    let cell = format!(
        r#"{{ "cell_type": "code", "metadata": {{}}, "outputs": [], "source": [\n{blanks}"x\n",\n{blanks}"y"] }}"#
    );
    let notebook =
        format!(r#"{{ "cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5 }}"#);
    fs::write(dir.path().join("n.ipynb"), notebook.replace("\\n ", "\n ")).unwrap();
    let server = serve(dir.path(), 40 * MIB);
    for args in [
        json!({ "path": "a", "old_string": "x", "new_string": "y".repeat(1000), "replace_all": true, "dry_run": true }),
        json!({ "path": "n.ipynb", "old_string": "x\ny", "new_string": "z\n".repeat(9000), "dry_run": true }),
    ] {
        let (crowded, free) = crowded_and_free(&server, "edit_file", args).await;
        expect_retriable(crowded);
        assert!(!free.is_error, "{}", text(&free));
    }
}

#[tokio::test]
async fn texts_of_millions_of_lines_are_refused_before_they_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "one line\n").unwrap();
    let server = serve(dir.path(), 16 * MIB);
    let many = "\n".repeat(1_000_000);
    let edit = |old: &str, new: &str| json!({ "path": "a", "old_string": old, "new_string": new });
    let client = server.client();
    let refused = client.call_tool("edit_file", edit("line", &many));
    let error = refused.await.unwrap_err().into_rpc();
    assert_eq!(error.data.unwrap()["retriable"], false);
    // A text of more lines than the file costs nothing but the words that say so.
    let missed = client.call_tool("edit_file", edit(&many, "x"));
    let missed = missed.await.unwrap();
    assert!(text(&missed).contains("is not in `a`"), "{}", text(&missed));
    assert_eq!(server.budget().used(), 0, "everything was given back");
}

#[tokio::test]
async fn a_file_that_can_never_be_edited_within_the_budget_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "needle\n".repeat(200_000)).unwrap();
    let server = serve(dir.path(), 2 * MIB);
    let args =
        json!({ "path": "a", "old_string": "needle", "new_string": "pin", "replace_all": true });
    let refused = server.client().call_tool("edit_file", args).await;
    assert_eq!(
        refused.unwrap_err().into_rpc().data.unwrap()["retriable"],
        false
    );
}

#[tokio::test]
async fn what_a_write_reads_waits_for_memory_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), vec![b'x'; 5 * MIB]).unwrap();
    let server = serve(dir.path(), 12 * MIB);
    let args = json!({ "path": "a", "content": "end", "mode": "append" });
    let (crowded, free) = crowded_and_free(&server, "write_file", args).await;
    expect_retriable(crowded);
    assert!(!free.is_error, "{}", text(&free));
    let now = fs::read(dir.path().join("a")).unwrap();
    assert_eq!(now.len(), 5 * MIB + 3, "it was added once");
}

#[tokio::test]
async fn a_search_leaves_out_what_it_has_no_memory_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| fs::write(dir.path().join(name), content).unwrap();
    file("line", "x".repeat(3 * MIB) + "needle");
    file("short", "needle\n".into());
    let search = |multiline| json!({ "pattern": "needle", "path": ".", "multiline": multiline });
    for (memory, found) in [(64 * MIB, 2), (10 * MIB, 1)] {
        let server = serve(dir.path(), memory);
        for multiline in [false, true] {
            let result = server
                .client()
                .call_tool("search_files", search(multiline))
                .await;
            let value = result.unwrap().structured_content.unwrap();
            assert_eq!(value["found"], found, "{value}");
            assert_eq!(value["complete"], found == 2, "{value}");
            assert_eq!(value["skipped"]["too_large_files"], 2 - found, "{value}");
            assert_eq!(server.budget().used(), 0, "everything was given back");
        }
    }
}

#[tokio::test]
async fn a_search_waits_for_memory_and_is_refused_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "needle").unwrap();
    let server = serve(dir.path(), 64 * MIB);
    // Three callers, so that hardly anything is free.
    let others = ["x", "y", "z"].map(|name| server.budget().account(name).take(18 * MIB));
    let args = json!({ "pattern": "needle", "path": "." });
    let refused = server
        .client()
        .call_tool("search_files", args.clone())
        .await;
    expect_retriable(refused);
    drop(others);
    let found = server.client().call_tool("search_files", args).await;
    assert!(text(&found.unwrap()).contains("1 match"));
}

#[tokio::test]
async fn too_many_rules_are_left_out_and_that_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let rules: String = (0..200_000)
        .map(|number| format!("*{number}*q*\n"))
        .collect();
    fs::write(dir.path().join(".ignore"), format!("first\n{rules}last\n")).unwrap();
    for name in ["first", "last"] {
        fs::write(dir.path().join(name), "needle").unwrap();
    }
    let client = serve(dir.path(), 64 * MIB).client();
    let search = json!({ "pattern": "needle", "path": "." });
    let found = client.call_tool("search_files", search).await.unwrap();
    let value = found.structured_content.clone().unwrap();
    assert_eq!(value["found"], 1, "{value}");
    assert_eq!(value["skipped"]["ignore_rules"], true, "{value}");
    assert!(text(&found).contains("too many rules"));
    let list = json!({ "path": ".", "ignore": true });
    let listed = client.call_tool("list_dir", list).await.unwrap();
    let value = listed.structured_content.clone().unwrap();
    assert_eq!(
        (&value["entry_count"], &value["rules_cut"]),
        (&json!(1), &json!(true)),
        "{value}"
    );
    assert!(text(&listed).contains("too many rules"));
}
