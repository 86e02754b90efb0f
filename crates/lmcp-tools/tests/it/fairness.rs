//! Callers of one server share what it runs and keeps: none takes everything.

use lmcp_core::{Caller, CallerTransport, Client, Identity};
use lmcp_tools::Settings;
use serde_json::{Value, json};

use crate::support::{Host, settings, start, text};

fn host(change: impl FnOnce(&mut Settings)) -> Host {
    let state = tempfile::tempdir().unwrap();
    let mut settings = settings(state.path());
    change(&mut settings);
    Host {
        server: start(settings),
        state,
    }
}

fn client(host: &Host, who: &str) -> Client {
    let identity = Identity::new(who, who, "worker");
    let caller = Caller::new(CallerTransport::Memory).identified(identity);
    host.client().caller(caller)
}

/// Runs a job to its end.
async fn run(client: &Client, command: &str) -> Value {
    let started = client.call_tool("shell_bg", json!({ "command": command }));
    let id = started.await.unwrap().structured_content.unwrap()["id"].clone();
    let wait = json!({"id": id, "wait_exit": true});
    client.call_tool("job_output", wait).await.unwrap();
    id
}

/// Starts jobs until that is refused; how many, and in what words.
async fn fill(client: &Client) -> (usize, String) {
    for count in 0..100 {
        let sleep = json!({"command": "sleep 300"});
        let result = client.call_tool("shell_bg", sleep).await.unwrap();
        if result.is_error {
            return (count, text(&result));
        }
    }
    panic!("nothing was refused");
}

async fn listed(client: &Client) -> Vec<Value> {
    let jobs = client.call_tool("jobs", json!({})).await.unwrap();
    let jobs = jobs.structured_content.unwrap()["jobs"].clone();
    let jobs = jobs.as_array().unwrap().clone();
    jobs.into_iter().map(|job| job["id"].clone()).collect()
}

#[tokio::test]
async fn jobs_of_one_caller_erase_no_results_of_another() {
    let host = host(|settings| settings.jobs_kept = 6);
    let (ann, bob) = (client(&host, "ann"), client(&host, "bob"));
    let first = run(&bob, "echo first").await;
    let second = run(&bob, "echo second").await;
    let mut last = Value::Null;
    for _ in 0..12 {
        last = run(&ann, "echo flood").await;
    }
    let kept = listed(&bob).await;
    assert!(kept.contains(&first) && kept.contains(&second), "{kept:?}");
    let left = listed(&ann).await;
    assert!(left.contains(&last) && left.len() < 12, "{left:?}");
}

#[tokio::test]
async fn who_acts_for_many_erases_no_results_of_another() {
    let host = host(|settings| settings.jobs_kept = 6);
    let bob = client(&host, "bob");
    let first = run(&bob, "echo first").await;
    let second = run(&bob, "echo second").await;
    let hub = client(&host, "hub");
    for number in 0..12 {
        let meta = json!({ "lmcp/for": format!("somebody{number}") });
        let start =
            json!({ "name": "shell_bg", "arguments": { "command": "echo flood" }, "_meta": meta });
        let started = hub.request("tools/call", start).await.unwrap();
        let wait = json!({ "id": started["structuredContent"]["id"], "wait_exit": true });
        let wait = json!({ "name": "job_output", "arguments": wait, "_meta": meta });
        hub.request("tools/call", wait).await.unwrap();
    }
    let kept = listed(&bob).await;
    assert!(kept.contains(&first) && kept.contains(&second), "{kept:?}");
}

#[tokio::test]
async fn a_caller_leaves_places_for_jobs_of_others() {
    let host = host(|settings| settings.jobs_at_once = 6);
    let (ann, bob) = (client(&host, "ann"), client(&host, "bob"));
    let (count, words) = fill(&ann).await;
    assert_eq!(count, 4);
    assert!(
        words.contains("4 of the 6 jobs") && words.contains("other callers"),
        "{words}"
    );
    let (count, words) = fill(&bob).await;
    assert!(count >= 1, "{words}");
    let eve = client(&host, "eve");
    let (count, words) = fill(&eve).await;
    assert!(count >= 1, "{words}");
}

#[tokio::test]
async fn a_caller_leaves_places_for_commands_of_others() {
    let host = host(|settings| settings.commands_at_once = 6);
    let (ann, bob) = (client(&host, "ann"), client(&host, "bob"));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..7 {
        let client = ann.clone();
        running.spawn(async move {
            let sleep = json!({"command": "sleep 300"});
            client.call_tool("shell", sleep).await.unwrap()
        });
    }
    // Three of the seven find no place.
    for _ in 0..3 {
        let refused = running.join_next().await.unwrap().unwrap();
        let words = text(&refused);
        assert!(
            refused.is_error && words.contains("4 of the 6 commands"),
            "{words}"
        );
    }
    let echo = json!({"command": "echo mine"});
    let ran = bob.call_tool("shell", echo).await.unwrap();
    assert!(!ran.is_error, "{}", text(&ran));
    // Nor do commands take the places of jobs.
    let job = json!({"command": "sleep 300"});
    let started = ann.call_tool("shell_bg", job).await.unwrap();
    assert!(!started.is_error, "{}", text(&started));
    running.shutdown().await;
}

#[tokio::test]
async fn a_caller_without_a_name_leaves_places_for_those_who_come_another_way() {
    let host = host(|settings| settings.jobs_at_once = 6);
    let nobody = Caller::new(CallerTransport::Unix);
    let (count, words) = fill(&host.client().caller(nobody)).await;
    assert_eq!(count, 4);
    assert!(words.contains("left for other callers"), "{words}");
    assert!(fill(&client(&host, "ann")).await.0 > 0);
}

#[tokio::test]
async fn a_caller_that_is_alone_gets_everything() {
    let host = host(|settings| settings.jobs_at_once = 3);
    let client = host.client();
    let (count, words) = fill(&client).await;
    assert_eq!(count, 3);
    assert!(words.contains("3 jobs run already"), "{words}");
    for id in listed(&client).await {
        host.value("job_stop", json!({ "id": id })).await;
    }
}

#[tokio::test]
async fn many_starts_at_once_find_no_more_places_than_there_are() {
    let host = host(|settings| settings.jobs_at_once = 3);
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let client = host.client();
        starting.spawn(async move {
            let sleep = json!({"command": "sleep 300"});
            client.call_tool("shell_bg", sleep).await.unwrap()
        });
    }
    let results = starting.join_all().await;
    let started = results.iter().filter(|result| !result.is_error).count();
    assert!((1..=3).contains(&started), "{started}");
    for id in listed(&host.client()).await {
        host.value("job_stop", json!({ "id": id })).await;
    }
}

#[tokio::test]
async fn a_command_is_handed_over_only_to_a_place_among_jobs() {
    let host = host(|settings| settings.jobs_at_once = 1);
    let client = host.client();
    let (count, _) = fill(&client).await;
    assert_eq!(count, 1);
    let args = json!({"command": "sleep 1; echo done", "yield_after": 0.1});
    let ran = host.value("shell", args).await;
    assert_eq!(ran["stdout"], "done\n", "{ran}");
    for id in listed(&client).await {
        host.value("job_stop", json!({ "id": id })).await;
    }
}
