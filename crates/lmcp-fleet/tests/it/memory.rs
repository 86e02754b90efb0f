//! The output of a host counts as memory of the caller that it is for.

use std::{env, fs, os::unix::fs::PermissionsExt as _};

use lmcp_core::{Endpoint, Limits, Terms};
use lmcp_fleet::script::ScriptHost;
use lmcp_testkit::soon;
use serde_json::json;

#[tokio::test]
async fn a_host_that_writes_without_end_gets_no_more_than_the_share_of_its_caller() {
    let home = tempfile::tempdir().unwrap();
    let head = home.path().join("head");
    fs::write(&head, "#!/bin/sh\nexec cat /dev/zero\n").unwrap();
    fs::set_permissions(&head, fs::Permissions::from_mode(0o700)).unwrap();
    let file = home.path().join("file");
    fs::write(&file, "short\n").unwrap();
    let path = env::var("PATH").unwrap();
    let host = ScriptHost::new([
        "env".to_owned(),
        format!("HOME={}", home.path().display()),
        format!("PATH={}:{path}", home.path().display()),
        "sh".to_owned(),
    ]);
    let mut limits = Limits::default();
    limits.memory_bytes = 8 << 20;
    let endpoint = Endpoint::on_terms(host.unwrap(), Terms::default().limits(limits));
    let arguments = json!({ "path": file });
    let refused = soon(endpoint.client().call_tool("read_file", arguments)).await;
    let error = refused.unwrap_err();
    let words = error.to_string();
    assert!(words.contains("share of the hub's memory"), "{words}");
    // If the error were a fault of the way, all other callers would lose the host.
    let data = error.data.clone().unwrap_or_default();
    assert_eq!(data["fault"], json!(null), "{data}");
    assert_eq!(endpoint.budget().used(), 0);
}
