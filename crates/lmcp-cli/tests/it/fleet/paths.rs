//! The same call means the same on every path to a host.

use std::fs;

use serde_json::{Map, Value, json};

use super::{Hub, Place, Sshd, ssh, url};

/// Members that are of one run, or of one path.
const OWN: [&str; 9] = [
    "cpu_ms",
    "duration_ms",
    "ended",
    "id",
    "mtime",
    "peak_memory_bytes",
    "pid",
    "running_ms",
    "started",
];

/// A result without what differs between two runs of the same thing.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(name, _)| !OWN.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), bare(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// The structured result of a call, without the host and the path, which must be these.
fn called(hub: &Hub, host: &str, path: &str, tool: &str, arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    arguments["host"] = host.into();
    arguments["host_wait"] = 60.into();
    let result = hub.call(tool, &arguments);
    let said = result["content"].as_array().into_iter().flatten();
    let last = said.last().and_then(|block| block["text"].as_str());
    assert_eq!(
        last,
        Some(&*format!("[{host} via {path}]")),
        "{tool}: {result}"
    );
    let mut structured = result["structuredContent"].clone();
    if let Some(members) = structured.as_object_mut() {
        assert_eq!(members.remove("host"), Some(host.into()), "{tool}");
        assert_eq!(members.remove("via"), Some(path.into()), "{tool}");
    }
    json!({ "structured": structured, "is_error": result["isError"] })
}

/// The results of every tool over one path, called one after the other in a folder that begins the same each time.
fn everything(place: &Place, hub: &Hub, host: &str, path: &str) -> Vec<(String, Value)> {
    let work = place.0.join("work");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(work.join("sub")).expect("tests may write here");
    fs::write(work.join("a.txt"), "one\ntwo\nthree\n").expect("tests may write here");
    let at = |name: &str| work.join(name).display().to_string();
    let all = work.display().to_string();
    let mut said = Vec::new();
    let mut call = |tool: &str, arguments: Value| {
        let answer = called(hub, host, path, tool, &arguments);
        let whole = answer.clone();
        said.push((tool.to_owned(), bare(&answer)));
        whole
    };
    call(
        "remote_shell",
        json!({ "command": "echo out; echo err >&2; exit 3", "cwd": all }),
    );
    call(
        "remote_shell",
        json!({ "command": "cat", "stdin": "typed" }),
    );
    let job = call(
        "remote_shell_bg",
        json!({ "command": "read line; echo got $line; exec sleep 1000" }),
    );
    let job = &job["structured"]["id"];
    assert!(job.is_string(), "{job}");
    call("remote_job_input", json!({ "id": job, "text": "this\n" }));
    call(
        "remote_job_output",
        json!({ "id": job, "offset": 0, "wait_for": "got" }),
    );
    call("remote_job_stop", json!({ "id": job }));
    call(
        "remote_read_file",
        json!({ "path": at("a.txt"), "offset": 2, "limit": 1 }),
    );
    call("remote_read_file", json!({ "path": at("none") }));
    call(
        "remote_write_file",
        json!({ "path": at("sub/b.txt"), "content": "written\n" }),
    );
    call(
        "remote_edit_file",
        json!({ "path": at("a.txt"), "old_string": "two", "new_string": "zwei" }),
    );
    call(
        "remote_edit_file",
        json!({ "path": at("a.txt"), "old_string": "absent", "new_string": "x" }),
    );
    call(
        "remote_search_files",
        json!({ "pattern": "zwei|written", "path": all }),
    );
    call("remote_fetch", json!({ "url": "http://127.0.0.1:9/" }));
    said
}

#[test]
fn every_tool_gives_the_same_on_http_and_on_ssh() {
    let place = Place::new("fleet-paths");
    let Some(sshd) = Sshd::start(&place.0) else {
        return;
    };
    let (_near, address) = place.host("near", "state", "0");
    let program = place.far_program("state");
    let (near, far) = (url("near", &address), ssh("far", &sshd, &program));
    let hub = place.hub(&format!("{near}{far}"));
    let by_http = everything(&place, &hub, "near", "http");
    let by_ssh = everything(&place, &hub, "far", "ssh");
    for ((tool, one), (_, other)) in by_http.iter().zip(&by_ssh) {
        assert_eq!(one, other, "{tool}");
    }
    for host in ["near", "far"] {
        let listed = hub.structured(
            "remote_list_dir",
            &json!({ "host": host, "path": place.path("work") }),
        );
        let system = hub.structured("remote_systeminfo", &json!({ "host": host }));
        assert!(
            !listed["entries"].is_null() && !system["cpu"].is_null(),
            "{listed} {system}"
        );
    }
    // A job is the same on all paths: what one began, the other stops.
    let job = hub.structured(
        "remote_shell_bg",
        &json!({ "host": "near", "command": "sleep 1000" }),
    );
    let id = &job["id"];
    let jobs = hub.structured("remote_jobs", &json!({ "host": "far" }));
    assert!(jobs.to_string().contains(id.as_str().unwrap()), "{jobs}");
    hub.structured("remote_job_stop", &json!({ "host": "far", "id": id }));
}
