//! Tasks: requests that are answered with a handle and go on.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use lmcp_core::{
    Caller, CallerTransport, Client, Cx, Handle, Limits, NoArgs, Tool, ToolError, ToolResult,
    client::Event,
};
use lmcp_wire::{CallToolResult, LoggingLevel, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Watcher, all, hanging, limits, server, soon, text};

#[tokio::test]
async fn a_task_that_nobody_waits_for_any_more_is_cancelled() {
    let (tool, mut watcher) = hanging("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    tokio::select! {
        result = client.call_tool("work", json!({})) => panic!("it never ends: {result:?}"),
        () = watcher.started() => {}
    }
    watcher.dropped().await;
}

#[tokio::test]
async fn a_tool_that_is_a_task_is_answered_with_a_handle() {
    let (tool, release) = released("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let task = begin(&client, "work").await;
    assert_eq!(task["resultType"], "task");
    assert_eq!(task["status"], "working");
    assert_eq!(task["ttlMs"], 3_600_000);
    assert_eq!(task["pollIntervalMs"], 1000);
    let id = task["taskId"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(get(&client, id).await["status"], "working");
    release.notify_one();
    let task = ended(&client, id).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["content"][0]["text"], "released");
    assert_eq!(task["result"]["resultType"], "complete");
}

#[tokio::test]
async fn who_does_not_know_tasks_waits_or_is_refused() {
    let server = server()
        .tool(Tool::new("any", quick).read_only().as_task())
        .tool(Tool::new("only", quick).read_only().only_as_task())
        .start()
        .unwrap();
    assert_eq!(text(&server.client(), "any", json!({})).await, "quick");
    let error = server
        .client()
        .call_tool("only", json!({}))
        .await
        .unwrap_err();
    assert_eq!(error.code, -32021);
    let needed = &error.data.as_ref().unwrap()["requiredCapabilities"]["extensions"];
    assert_eq!(needed, &json!({ "io.modelcontextprotocol/tasks": {} }));
    let error = server
        .client()
        .request("tasks/get", json!({ "taskId": "x" }))
        .await
        .unwrap_err();
    assert_eq!(error.code, -32021);
}

#[tokio::test]
async fn a_handler_may_become_a_task_half_way() {
    async fn late(args: Late, cx: Cx) -> ToolResult<&'static str> {
        if args.bad {
            return Err(ToolError::new("told at once"));
        }
        cx.detach().await;
        Ok("told later")
    }
    let server = server()
        .tool(Tool::new("late", late).read_only())
        .start()
        .unwrap();
    let client = client(&server);
    let call = |bad: bool| json!({ "name": "late", "arguments": { "bad": bad } });
    let refused = client.request("tools/call", call(true)).await.unwrap();
    assert_eq!(
        (&refused["resultType"], &refused["isError"]),
        (&json!("complete"), &json!(true))
    );
    let task = client.request("tools/call", call(false)).await.unwrap();
    assert_eq!(task["resultType"], "task");
    let task = ended(&client, task["taskId"].as_str().unwrap()).await;
    assert_eq!(task["result"]["content"][0]["text"], "told later");
}

#[tokio::test]
async fn a_task_ends_as_its_handler_does() {
    async fn fails(_: NoArgs, _: Cx) -> CallToolResult {
        CallToolResult::error("no luck")
    }
    async fn refuses(_: NoArgs, _: Cx) -> ToolResult<String> {
        Err(ToolError::rpc(RpcError::new(7, "not for you")))
    }
    async fn panics(_: NoArgs, _: Cx) -> String {
        panic!("a secret")
    }
    let server = server()
        .tool(Tool::new("fails", fails).read_only().as_task())
        .tool(Tool::new("refuses", refuses).read_only().as_task())
        .tool(Tool::new("panics", panics).read_only().as_task())
        .start()
        .unwrap();
    let client = client(&server);
    let end = async |tool: &str| {
        let task = begin(&client, tool).await;
        ended(&client, task["taskId"].as_str().unwrap()).await
    };
    let task = end("fails").await;
    assert_eq!(
        (&task["status"], &task["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    let task = end("refuses").await;
    assert_eq!(
        (&task["status"], &task["error"]["code"]),
        (&json!("failed"), &json!(7))
    );
    let task = end("panics").await;
    assert_eq!(
        (&task["status"], &task["error"]["code"]),
        (&json!("failed"), &json!(-32603))
    );
    assert!(!task.to_string().contains("secret"));
}

#[tokio::test]
async fn a_task_asks_and_waits_for_the_answer() {
    async fn asks(_: NoArgs, cx: Cx) -> ToolResult<String> {
        cx.detach().await;
        let first: Word = cx.ask("first", "One?").await?;
        let second: Word = cx.ask("second", "Two?").await?;
        Ok(format!("{} {}", first.word, second.word))
    }
    let server = server()
        .tool(Tool::new("asks", asks).read_only())
        .start()
        .unwrap();
    let client = client(&server);
    let task = begin(&client, "asks").await;
    let id = task["taskId"].as_str().unwrap();
    for key in ["first", "second"] {
        let task = in_state(&client, id, "input_required").await;
        let keys: Vec<_> = task["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, [key]);
        let responses =
            json!({ "stray": 1, key: { "action": "accept", "content": { "word": key } } });
        let params = json!({ "taskId": id, "inputResponses": responses });
        client.request("tasks/update", params).await.unwrap();
    }
    let task = ended(&client, id).await;
    assert_eq!(task["result"]["content"][0]["text"], "first second");
}

#[tokio::test]
async fn a_cancelled_task_is_stopped_and_stays_so() {
    let (tool, mut watcher) = hanging("hang");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let id = begun(&client, &mut watcher).await;
    for _ in 0..2 {
        let acknowledged = client
            .request("tasks/cancel", json!({ "taskId": id }))
            .await;
        assert_eq!(acknowledged.unwrap()["resultType"], "complete");
    }
    watcher.dropped().await;
    assert_eq!(get(&client, &id).await["status"], "cancelled");
}

#[tokio::test]
async fn a_task_that_has_ended_cannot_be_cancelled_any_more() {
    let server = server()
        .tool(Tool::new("quick", quick).read_only().as_task())
        .start()
        .unwrap();
    let client = client(&server);
    let task = begin(&client, "quick").await;
    let id = task["taskId"].as_str().unwrap();
    ended(&client, id).await;
    client
        .request("tasks/cancel", json!({ "taskId": id }))
        .await
        .unwrap();
    assert_eq!(get(&client, id).await["status"], "completed");
}

#[tokio::test]
async fn a_task_belongs_to_its_caller() {
    let (tool, mut watcher) = hanging("hang");
    let server = server().tool(tool.as_task()).start().unwrap();
    let known =
        |name: &str| client(&server).caller(Caller::new(CallerTransport::Memory).known_as(name));
    let id = begun(&known("ann"), &mut watcher).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        let error = known("eve").request(method, params).await.unwrap_err();
        assert_eq!(error.code, -32602, "{method}");
    }
    assert_eq!(get(&known("ann"), &id).await["status"], "working");
    assert!(watcher.is_running());
}

#[tokio::test]
async fn who_listens_hears_how_tasks_go() {
    let (tool, release) = released("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let task = begin(&client, "work").await;
    let filter = json!({ "taskIds": [task["taskId"], "unknown"] });
    let mut listening = client.start("subscriptions/listen", json!({ "notifications": filter }));
    let Some(Event::Other(_, acknowledged)) = soon(listening.next()).await else {
        panic!("it is acknowledged")
    };
    assert_eq!(
        acknowledged["notifications"]["taskIds"],
        json!([task["taskId"]])
    );
    release.notify_one();
    let Some(Event::Other(method, told)) = soon(listening.next()).await else {
        panic!("the end is told")
    };
    assert_eq!(method, "notifications/tasks");
    assert_eq!(
        (&told["taskId"], &told["status"]),
        (&task["taskId"], &json!("completed"))
    );
}

#[tokio::test]
async fn nothing_but_the_handle_is_said_on_the_stream_of_the_request() {
    let (release, said) = (Arc::new(Notify::new()), Arc::new(Mutex::new(0)));
    let (waits, counts) = (Arc::clone(&release), Arc::clone(&said));
    let tool = Tool::new("talks", move |_: NoArgs, cx: Cx| {
        let (waits, counts) = (Arc::clone(&waits), Arc::clone(&counts));
        async move {
            cx.log(LoggingLevel::Info, "before");
            cx.detach().await;
            cx.log(LoggingLevel::Info, "after");
            cx.progress(1).step("after");
            *counts.lock().unwrap() += 1;
            waits.notified().await;
            "done"
        }
    });
    let server = server().tool(tool.read_only()).start().unwrap();
    let client = client(&server).log_level(LoggingLevel::Debug);
    let (events, result) = all(client.start_tool("talks", json!({}))).await;
    let [Event::Log(log)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(log.data, "before");
    let task = result.unwrap();
    release.notify_one();
    ended(&client, task["taskId"].as_str().unwrap()).await;
    assert_eq!(*said.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_ended_task_is_forgotten_in_time_and_a_running_one_is_not() {
    let (tool, mut watcher) = hanging("hang");
    let quick = Tool::new("quick", quick).read_only().as_task();
    let client = client(&server().tool(tool.as_task()).tool(quick).start().unwrap());
    let running = begun(&client, &mut watcher).await;
    let done = begin(&client, "quick").await["taskId"]
        .as_str()
        .unwrap()
        .to_owned();
    ended(&client, &done).await;
    tokio::time::advance(Limits::default().task_wait - Duration::from_secs(1)).await;
    assert_eq!(get(&client, &done).await["status"], "completed");
    tokio::time::advance(Duration::from_secs(2)).await;
    let error = client
        .request("tasks/get", json!({ "taskId": done }))
        .await
        .unwrap_err();
    assert_eq!(error.code, -32602);
    assert_eq!(get(&client, &running).await["status"], "working");
}

/// A command may run for two days: its end is no use to somebody who cannot ask for it.
#[tokio::test(start_paused = true)]
async fn a_task_that_ran_for_longer_than_results_are_kept_can_be_asked_for_when_it_ends() {
    let (tool, release) = released("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let task = begin(&client, "work").await;
    let id = task["taskId"].as_str().unwrap();
    let (kept, second) = (Limits::default().task_wait, Duration::from_secs(1));
    tokio::time::advance(kept + second).await;
    assert_eq!(get(&client, id).await["status"], "working");
    release.notify_one();
    let task = ended(&client, id).await;
    assert_eq!(task["result"]["content"][0]["text"], "released");
    tokio::time::advance(kept / 2).await;
    assert_eq!(get(&client, id).await["status"], "completed");
    tokio::time::advance(kept).await;
    let error = client
        .request("tasks/get", json!({ "taskId": id }))
        .await
        .unwrap_err();
    assert_eq!(error.code, -32602);
}

/// Clients may give up a task once the time they were last told has passed since its creation.
#[tokio::test(start_paused = true)]
async fn a_task_is_kept_for_as_long_as_its_client_is_told() {
    let (tool, release) = released("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let task = begin(&client, "work").await;
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(task["ttlMs"], 3_600_000);
    tokio::time::advance(Duration::from_secs(7200)).await;
    assert_eq!(get(&client, id).await["ttlMs"], 10_800_000);
    release.notify_one();
    assert_eq!(ended(&client, id).await["ttlMs"], 10_800_000);
    tokio::time::advance(Duration::from_secs(1800)).await;
    assert_eq!(get(&client, id).await["ttlMs"], 10_800_000, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn who_listens_hears_how_a_long_task_ends() {
    let (tool, release) = released("work");
    let client = client(&server().tool(tool.as_task()).start().unwrap());
    let task = begin(&client, "work").await;
    let filter = json!({ "taskIds": [task["taskId"]] });
    let mut listening = client.start("subscriptions/listen", json!({ "notifications": filter }));
    soon(listening.next()).await.expect("it is acknowledged");
    tokio::time::advance(Limits::default().task_wait + Duration::from_secs(1)).await;
    release.notify_one();
    let Some(Event::Other(_, told)) = soon(listening.next()).await else {
        panic!("the end is told")
    };
    assert_eq!(told["status"], "completed");
}

/// What runs already must not be killed because the last place went to another.
#[tokio::test]
async fn a_call_that_loses_the_last_place_for_tasks_goes_on_as_a_call() {
    let (hang, _watcher) = hanging("hang");
    let late = Tool::new("late", |_: NoArgs, cx: Cx| async move {
        let other = client(&cx.server());
        // All in one turn: room is found, the other call takes it, and then this one is to be handed over.
        let ((), task) = tokio::join!(biased; cx.detach(), begin(&other, "hang"));
        format!("beside a {}", task["resultType"])
    });
    let one = limits(|limits| limits.tasks = 1);
    let server = server().tool(hang.as_task()).tool(late.read_only());
    let client = client(&server.limits(one).start().unwrap());
    let answer = begin(&client, "late").await;
    assert_eq!(answer["content"][0]["text"], "beside a \"task\"");
}

// D5
#[tokio::test]
async fn the_result_of_a_task_is_counted() {
    let large = Tool::new("large", |_: NoArgs, _: Cx| async { "x".repeat(100_000) });
    let tool = large.read_only().as_task();
    let server = server().tool(tool).start().unwrap();
    let client = client(&server);
    let id = begin(&client, "large").await["taskId"]
        .as_str()
        .unwrap()
        .to_owned();
    ended(&client, &id).await;
    let used = server.budget().used();
    assert!(used >= 100_000, "{used}");
}

/// A client that knows tasks.
fn client(server: &Handle) -> Client {
    let declared =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} });
    let declared = serde_json::from_value(declared).expect("these are capabilities");
    server.client().capabilities(declared)
}

async fn begin(client: &Client, tool: &str) -> Value {
    let task = soon(client.request("tools/call", json!({ "name": tool }))).await;
    task.expect("the task begins")
}

/// The id of a task whose handler runs.
async fn begun(client: &Client, watcher: &mut Watcher) -> String {
    let task = begin(client, "hang").await;
    watcher.started().await;
    task["taskId"]
        .as_str()
        .expect("a task has an id")
        .to_owned()
}

async fn get(client: &Client, id: &str) -> Value {
    let task = client.request("tasks/get", json!({ "taskId": id })).await;
    task.expect("the task is known")
}

/// The task, once it is in this state.
async fn in_state(client: &Client, id: &str, state: &str) -> Value {
    soon(async {
        loop {
            let task = get(client, id).await;
            if task["status"] == state {
                return task;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

async fn ended(client: &Client, id: &str) -> Value {
    soon(async {
        loop {
            let task = get(client, id).await;
            if !matches!(task["status"].as_str(), Some("working" | "input_required")) {
                return task;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// A tool that waits until it is released.
fn released(name: &str) -> (Tool, Arc<Notify>) {
    let release = Arc::new(Notify::new());
    let waits = Arc::clone(&release);
    let tool = Tool::new(name, move |_: NoArgs, _: Cx| {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            "released"
        }
    });
    (tool.read_only(), release)
}

async fn quick(_: NoArgs, _: Cx) -> &'static str {
    "quick"
}

#[derive(Deserialize, JsonSchema)]
struct Late {
    bad: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}
