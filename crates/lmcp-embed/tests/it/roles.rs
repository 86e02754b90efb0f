//! The lists that a caller sees depend on its role.

use lmcp_core::{Caller, CallerTransport, Client, Cx, Identity, NoArgs, Server, Tool};
use serde_json::json;

async fn nothing(_: NoArgs, _: Cx) -> &'static str {
    "done"
}

fn tool(name: &str) -> Tool {
    Tool::new(name, nothing).about("Does nothing.").read_only()
}

fn server() -> Server {
    Server::new("roles", "1.0.0")
        .tool(tool("everybody"))
        .tool(tool("spawn").only_for(["orchestrator"]))
        .tool(tool("report").only_for(["orchestrator", "worker"]))
}

fn client(server: Server, role: Option<&str>) -> Client {
    let caller = Caller::new(CallerTransport::Memory);
    let caller = match role {
        Some(role) => caller.identified(Identity::new("1", "one", role)),
        None => caller.known_as("somebody"),
    };
    server.start().unwrap().client().caller(caller)
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.request("tools/list", json!({})).await.unwrap();
    let tools = list["tools"].as_array().unwrap();
    let name = |tool: &serde_json::Value| tool["name"].as_str().unwrap().to_owned();
    tools.iter().map(name).collect()
}

#[tokio::test]
async fn lists_depend_on_the_role() {
    for (role, expected) in [
        (Some("orchestrator"), &["everybody", "report", "spawn"][..]),
        (Some("worker"), &["everybody", "report"]),
        (Some("unheard of"), &["everybody"]),
        (None, &["everybody"]),
    ] {
        assert_eq!(names(&client(server(), role)).await, expected);
    }
}

#[tokio::test]
async fn what_is_not_shown_cannot_be_called_and_is_not_hinted_at() {
    let worker = client(server(), Some("worker"));
    assert!(worker.call_tool("report", json!({})).await.is_ok());
    let refused = worker.call_tool("spawn", json!({})).await.unwrap_err();
    assert_eq!(refused.message, "there is no tool `spawn`");
    let refused = worker.call_tool("spown", json!({})).await.unwrap_err();
    assert_eq!(refused.message, "there is no tool `spown`");
}

#[tokio::test]
async fn a_rule_of_the_program_decides_as_well() {
    let server = server().show_tools(|caller, name| {
        name != "everybody" || caller.identity().is_some_and(|found| found.label == "one")
    });
    assert_eq!(names(&client(server, None)).await, Vec::<String>::new());
}

#[tokio::test]
async fn lists_that_differ_are_for_one_caller_alone() {
    let public = |server: Server| server.cache_lists(std::time::Duration::from_secs(60));
    let same = Server::new("same", "1.0.0").tool(tool("everybody"));
    for (server, scope) in [(public(same), "public"), (public(server()), "private")] {
        let client = client(server, Some("worker"));
        let list = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(list["cacheScope"], scope);
    }
}
