//! A job belongs to a confinement: a server touches only jobs that may do no more than it may itself.

use std::{fs, path::Path};

use lmcp_core::Handle;
use lmcp_tools::{
    Settings,
    settings::{Decision, Rule},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{settings, start, text};

/// A state folder that several servers share, and folders to be their roots.
struct Shared {
    state: TempDir,
    top: TempDir,
}

impl Shared {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("root/sub")).unwrap();
        Self {
            state: tempfile::tempdir().unwrap(),
            top,
        }
    }

    /// A server that is confined to a folder.
    fn below(&self, root: &str) -> Handle {
        self.server(|settings| settings.roots = vec![self.top.path().join(root)])
    }

    fn server(&self, change: impl FnOnce(&mut Settings)) -> Handle {
        let mut settings = settings(self.state.path());
        change(&mut settings);
        start(settings)
    }
}

async fn value(server: &Handle, tool: &str, args: Value) -> Value {
    let result = server.client().call_tool(tool, args).await.unwrap();
    let value = result.structured_content.clone();
    value.unwrap_or_else(|| panic!("{tool}: {}", text(&result)))
}

/// Starts a job that waits for input, and gives its id.
async fn start_job(server: &Handle) -> String {
    let started = value(server, "shell_bg", json!({"command": "cat"})).await;
    started["id"].as_str().unwrap().to_owned()
}

async fn sees(server: &Handle, id: &str) -> bool {
    let listed = value(server, "jobs", json!({"all": true})).await;
    let jobs = listed["jobs"].as_array().unwrap();
    jobs.iter().any(|job| job["id"] == id)
}

/// Whatever is tried, there is no such job.
async fn expect_invisible(server: &Handle, id: &str) {
    assert!(!sees(server, id).await);
    for (tool, args) in [
        ("job_output", json!({ "id": id })),
        ("job_input", json!({ "id": id, "text": "x\n" })),
        ("job_stop", json!({ "id": id })),
        ("job_stop", json!({ "id": id, "restart": true })),
    ] {
        let result = server.client().call_tool(tool, args).await.unwrap();
        let said = text(&result);
        assert!(
            result.is_error && said.contains("there is no job"),
            "{tool}: {said}"
        );
    }
    let uri = json!({ "uri": format!("job://{id}/output") });
    let read = server.client().request("resources/read", uri).await;
    assert!(read.is_err(), "{read:?}");
}

async fn end(server: &Handle, id: &str) {
    value(server, "job_stop", json!({ "id": id, "signal": "KILL" })).await;
}

#[tokio::test]
async fn jobs_of_a_wider_server_are_invisible() {
    let shared = Shared::new();
    let (free, wide, narrow) = (
        shared.server(|_| {}),
        shared.below("root"),
        shared.below("root/sub"),
    );
    let ruled = shared.server(|settings| settings.rules = vec![Rule::new(Decision::Deny, "rm")]);
    let of_free = start_job(&free).await;
    let of_wide = start_job(&wide).await;
    for (server, id) in [
        (&wide, &of_free),
        (&narrow, &of_free),
        (&ruled, &of_free),
        (&narrow, &of_wide),
    ] {
        expect_invisible(server, id).await;
    }
    for id in [&of_free, &of_wide] {
        end(&free, id).await;
    }
}

#[tokio::test]
async fn jobs_with_no_more_rights_are_shared() {
    let shared = Shared::new();
    let (free, wide, narrow) = (
        shared.server(|_| {}),
        shared.below("root"),
        shared.below("root/sub"),
    );
    let id = start_job(&narrow).await;
    for server in [&free, &wide, &narrow, &shared.below("root/sub")] {
        assert!(sees(server, &id).await);
    }
    value(&wide, "job_input", json!({"id": id, "text": "typed\n"})).await;
    let args = json!({"id": id, "wait_for": "typed"});
    assert_eq!(value(&free, "job_output", args).await["matched"], "typed");
    end(&wide, &id).await;
}

#[tokio::test]
async fn spooled_output_belongs_to_a_confinement_too() {
    let shared = Shared::new();
    let (free, wide) = (shared.server(|_| {}), shared.below("root"));
    let ran = value(&free, "shell", json!({"command": "seq 1 100000"})).await;
    let uri = ran["output"].as_str().unwrap();
    let id = uri.trim_start_matches("job://").trim_end_matches("/output");
    assert!(sees(&free, id).await);
    expect_invisible(&wide, id).await;
}

#[tokio::test]
async fn a_job_is_started_again_with_the_rights_of_who_does_so() {
    let shared = Shared::new();
    let secret = shared.top.path().join("secret");
    fs::write(&secret, "outside\n").unwrap();
    let (free, wide) = (shared.server(|_| {}), shared.below("root"));
    let command = format!("cat {}", secret.display());
    let id = value(&wide, "shell_bg", json!({ "command": command })).await["id"].clone();
    let output = value(&wide, "job_output", json!({"id": id, "wait_exit": true})).await;
    assert_eq!(output["exit_code"], 1, "{output}");
    let again = value(&free, "job_stop", json!({"id": id, "restart": true})).await;
    let next = again["restarted_as"].as_str().unwrap();
    let output = value(&free, "job_output", json!({"id": next, "wait_exit": true})).await;
    assert_eq!(output["output"], "outside\n", "{output}");
    // It is a job of the wider server now.
    expect_invisible(&wide, next).await;
}

#[tokio::test]
async fn records_that_say_nothing_of_rights_are_for_unconfined_servers() {
    let shared = Shared::new();
    let wide = shared.below("root");
    let id = start_job(&wide).await;
    forget_rights(&shared.state.path().join("jobs").join(&id).join("job.json"));
    expect_invisible(&wide, &id).await;
    let free = shared.server(|_| {});
    assert!(sees(&free, &id).await);
    end(&free, &id).await;
}

/// What an older version wrote.
fn forget_rights(record: &Path) {
    let mut about: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert!(about.as_object_mut().unwrap().remove("rights").is_some());
    fs::write(record, about.to_string()).unwrap();
}

#[test]
fn a_server_that_may_change_nothing_has_no_tools_on_jobs() {
    let shared = Shared::new();
    let server = shared.server(|settings| settings.read_only = true);
    let tools = server.tool_names();
    assert!(!tools.iter().any(|name| name.contains("job")), "{tools:?}");
}
