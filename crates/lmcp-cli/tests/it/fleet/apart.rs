//! Callers of a hub are kept apart on its hosts, on every way: a caller does not see the jobs of another.

use std::fs;

use serde_json::{Value, json};

use super::{
    Hub, Place, Sshd,
    join::{FAR, Joining},
    json_of, ssh, token, url,
};
use crate::support::{lmcp, post};

/// A hub with hosts, and named callers.
struct Callers<'a>(&'a Hub);

impl Callers<'_> {
    fn call(&self, who: &str, tool: &str, arguments: &Value) -> Value {
        let mut command = self.0.calling(tool, arguments);
        command.env("LMCP_TOKEN", format!("token-of-{who}"));
        json_of(&command.output().expect("the binary was built"))
    }

    fn structured(&self, who: &str, tool: &str, arguments: &Value) -> Value {
        let result = self.call(who, tool, arguments);
        assert!(result["isError"].is_null(), "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// Returns the jobs that the host lists for a caller.
    fn jobs(&self, who: &str, host: &str) -> Vec<Value> {
        let arguments = json!({ "host": host, "host_wait": 60 });
        let listed = self.structured(who, "remote_jobs", &arguments);
        let jobs = listed["jobs"].as_array().expect("it is a list").iter();
        jobs.map(|job| job["id"].clone()).collect()
    }

    /// Starts a job of ann that prints its input.
    fn start_job(&self, host: &str) -> Value {
        let arguments = json!({ "host": host, "command": "cat", "host_wait": 60 });
        let job = self.structured("ann", "remote_shell_bg", &arguments);
        let id = job["id"].clone();
        self.type_line(host, &id, "first");
        id
    }

    fn type_line(&self, host: &str, id: &Value, line: &str) {
        let arguments = json!({ "host": host, "id": id, "text": format!("{line}\n") });
        self.structured("ann", "remote_job_input", &arguments);
        let read = json!({ "host": host, "id": id, "wait_for": line, "wait": 60, "offset": 0 });
        let said = self.structured("ann", "remote_job_output", &read);
        assert!(said.to_string().contains(line), "{said}");
    }

    /// Checks that bob does not see the job.
    fn expect_unseen(&self, host: &str, id: &Value) {
        assert_eq!(self.jobs("bob", host), [json!(null); 0], "{host}");
        for (tool, more) in [
            ("remote_job_output", json!({})),
            ("remote_job_input", json!({ "text": "bob was here\n" })),
            ("remote_job_stop", json!({})),
            ("remote_job_stop", json!({ "restart": true })),
        ] {
            let mut arguments = json!({ "host": host, "id": id });
            let all = arguments.as_object_mut().expect("it is an object");
            all.extend(more.as_object().cloned().unwrap_or_default());
            let result = self.call("bob", tool, &arguments);
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert_eq!(result["isError"], true, "{host} {tool}: {result}");
            assert!(text.contains("there is no job"), "{host} {tool}: {text}");
        }
    }

    /// Checks that the job still runs for ann, until she stops it.
    fn expect_own(&self, host: &str, id: &Value) {
        assert_eq!(self.jobs("ann", host).first(), Some(id), "{host}");
        self.type_line(host, id, "second");
        let read = json!({ "host": host, "id": id, "offset": 0 });
        let said = self.structured("ann", "remote_job_output", &read);
        assert!(!said.to_string().contains("bob was here"), "{host}: {said}");
        let stopped = self.structured("ann", "remote_job_stop", &json!({ "host": host, "id": id }));
        assert_ne!(stopped["state"], "running", "{host}: {stopped}");
    }
}

fn tokens() -> String {
    ["ann", "bob"].map(|name| token(name, "")).concat()
}

/// Checks that ann's job belongs to her alone, before and after a restart of the hub.
fn expect_apart(place: &Place, config: &str, hosts: &[&str]) {
    let hub = place.hub(config);
    let callers = Callers(&hub);
    let jobs: Vec<_> = hosts.iter().map(|host| callers.start_job(host)).collect();
    for (host, id) in hosts.iter().zip(&jobs) {
        callers.expect_unseen(host, id);
    }
    drop(hub);
    let hub = place.hub(config);
    let callers = Callers(&hub);
    for (host, id) in hosts.iter().zip(&jobs) {
        callers.expect_unseen(host, id);
        callers.expect_own(host, id);
    }
}

#[test]
fn callers_of_a_hub_have_jobs_of_their_own_over_http_ssh_and_a_shell() {
    let place = Place::new("apart-ways");
    let (_near, address) = place.host("near", "near-state", "0");
    let mut config = format!("{}{}", tokens(), url("near", &address));
    let mut hosts = vec!["near"];
    let sshd = Sshd::start(&place.0);
    if let Some(sshd) = &sshd {
        config.push_str(&ssh("far", sshd, &place.far_program("far-state")));
        hosts.push("far");
    }
    let without = place.0.join("without");
    let without = Sshd::at_home(&without, &place.0.join("without-home"), None);
    if let Some(without) = &without {
        config.push_str(&ssh("bare", without, "no-such-lmcp"));
        hosts.push("bare");
    }
    expect_apart(&place, &config, &hosts);
}

#[test]
fn callers_of_a_hub_have_jobs_of_their_own_on_a_host_that_joined() {
    let place = Place::new("apart-join");
    let mut command = lmcp(&["hub", "-v", "--http", "0", "--config"]);
    place.write("far.token", "token-of-far", 0o600);
    command.arg(place.write("hub.toml", &format!("{}{FAR}", tokens()), 0o600));
    let hub = Hub::start(&place, command);
    let mut far = Joining::start(place.joining(&hub.address, "state"));
    far.hear("joined ");
    let callers = Callers(&hub);
    let id = callers.start_job("far");
    callers.expect_unseen("far", &id);
    callers.expect_own("far", &id);
}

#[test]
fn callers_of_a_hub_have_jobs_of_their_own_behind_the_next_hub() {
    let place = Place::new("apart-hubs");
    let (_near, address) = place.host("near", "near-state", "0");
    let inner = Place(place.0.join("inner"));
    fs::create_dir_all(&inner.0).expect("tests may write here");
    inner.write("near.token", "token-of-near", 0o600);
    let config = format!(
        "{}{}{}",
        token("outer", ""),
        tokens(),
        url("near", &address)
    );
    let inner_hub = inner.hub(&config);
    place.write("plant.token", "token-of-outer", 0o600);
    let plant = format!("{}hub = true\n", url("plant", &inner_hub.address));
    expect_apart(&place, &format!("{}{plant}", tokens()), &["plant/near"]);
    // Ann of the outer hub and ann of the inner one are different callers.
    let hub = place.hub(&format!("{}{plant}", tokens()));
    let id = Callers(&hub).start_job("plant/near");
    assert_eq!(Callers(&inner_hub).jobs("ann", "near"), [json!(null); 0]);
    Callers(&hub).expect_own("plant/near", &id);
}

#[test]
fn nobody_becomes_another_caller_by_saying_so() {
    let place = Place::new("apart-claims");
    let (_near, address) = place.host("near", "near-state", "0");
    // The same host is also a server of the hub, with the same token.
    let server = format!("[servers.s]\nurl = 'http://{address}/mcp'\ntoken_file = 'near.token'\n");
    let config = format!("{}{server}{}", tokens(), url("near", &address));
    let hub = place.hub(&config);
    let callers = Callers(&hub);
    let id = callers.start_job("near");
    let call = |at: &str, token: &str, name: &str, arguments: Value, claim: &Value| {
        let params =
            json!({ "name": name, "arguments": arguments, "_meta": { "lmcp/for": claim } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = format!(
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\nauthorization: Bearer {token}\r\n"
        );
        post(at, &headers, &message).1
    };
    // The hub's name for ann at its hosts: see `beneficiary.rs`.
    let ann = json!(ANN);
    let host = || json!({ "host": "near" });
    for (name, arguments) in [("remote_jobs", host()), ("s__jobs", json!({}))] {
        let said = call(&hub.address, "token-of-bob", name, arguments, &ann);
        let jobs = &said["result"]["structuredContent"]["jobs"];
        assert_eq!(jobs, &json!([]), "{name}: {said}");
    }
    // With the hub's own token at the host, a client reaches the same as the hub; without a name, it reaches only jobs that
    // were begun without one.
    let said = call(&address, "token-of-near", "jobs", json!({}), &ann);
    assert_eq!(
        said["result"]["structuredContent"]["jobs"][0]["id"], id,
        "{said}"
    );
    let at = format!("http://{address}/mcp");
    let mut command = lmcp(&["call", "jobs", "--json", "--at", &at]);
    let said = command.env("LMCP_TOKEN", "token-of-near").output();
    let said = json_of(&said.expect("the binary was built"));
    assert_eq!(said["structuredContent"]["jobs"], json!([]), "{said}");
    // An invalid name is refused, and does not count as no name.
    for claim in [json!(""), json!(1), json!("a/b"), json!("x".repeat(65))] {
        let said = call(&address, "token-of-near", "jobs", json!({}), &claim);
        let words = said["error"]["message"].as_str().unwrap_or_default();
        assert!(words.contains("lmcp/for"), "{said}");
    }
    callers.expect_own("near", &id);
}

/// The first half of the SHA-256 of `principal:ann`.
const ANN: &str = "5ba04ed8e818999cd79513637fd97de8";
