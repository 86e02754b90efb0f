//! Puts our client to a server of somebody else's: `drive-server PLAN http URL` or `drive-server PLAN stdio COMMAND…`.
//!
//! The plan, as JSON, names a tool for each feature. What came of it is one line of JSON each.

use std::{
    io::Write as _,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lmcp::{
    Client,
    client::{self, Asked, Change, Event},
    upstream,
    wire::{RpcError, input::InputRequest},
};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Questions that were asked, by their kind.
#[derive(Default)]
struct Asks {
    forms: AtomicUsize,
    samples: AtomicUsize,
    roots: AtomicUsize,
}

type Outcome = Result<(), String>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let plan: Value = args
        .next()
        .and_then(|plan| serde_json::from_str(&plan).ok())
        .unwrap_or_default();
    let asks = Arc::<Asks>::default();
    let counted = Arc::clone(&asks);
    let builder = Client::builder()
        .named("drive-server", env!("CARGO_PKG_VERSION"))
        .on_question(move |asked| std::future::ready(answer(&counted, &asked)));
    let revision = plan["revision"].as_str().and_then(|name| name.parse().ok());
    let builder = match revision {
        Some(revision) => builder.version(revision),
        None => builder,
    };
    let connected = match args.next().as_deref() {
        Some("http") => {
            let url = args.next().unwrap_or_default();
            timeout(LIMIT, builder.connect(upstream::url(url))).await
        }
        _ => {
            let program = args.next().unwrap_or_default();
            let target = upstream::command(program).args(args);
            timeout(LIMIT, builder.connect(target)).await
        }
    };
    let client = match connected {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return tell("connect", Err(error.to_string())),
        Err(_) => return tell("connect", Err("it takes too long".to_owned())),
    };
    tell("connect", Ok(()));
    for feature in FEATURES {
        if plan[feature].is_null() && feature != "list" {
            continue;
        }
        let done = timeout(LIMIT, run(feature, &client, &plan[feature], &asks)).await;
        tell(
            feature,
            done.unwrap_or_else(|_| Err("it takes too long".to_owned())),
        );
    }
    ExitCode::SUCCESS
}

async fn run(feature: &str, client: &Client, plan: &Value, asks: &Asks) -> Outcome {
    match feature {
        "list" => {
            let tools = client.list_tools().await.map_err(words)?;
            if tools.is_empty() {
                Err("there are no tools".to_owned())
            } else {
                Ok(())
            }
        }
        "call" => {
            let said = call(client, plan).await?;
            let expected = plan["expected"].as_str().unwrap_or_default();
            if said.contains(expected) {
                Ok(())
            } else {
                Err(format!("it said {said}"))
            }
        }
        "progress" => progress(client, plan).await,
        "cancel" => cancel(client, plan).await,
        "elicitation" => asked(client, plan, &asks.forms).await,
        "sampling" => asked(client, plan, &asks.samples).await,
        "roots" => asked(client, plan, &asks.roots).await,
        "subscribe" => subscribe(client, plan).await,
        "read" => client.read(name(plan)).await.map(drop).map_err(words),
        _ => {
            let prompts = client.list_prompts().await.map_err(words)?;
            let found = prompts.iter().any(|prompt| prompt.name == name(plan));
            if !found {
                return Err("the prompt is not listed".to_owned());
            }
            let rendered = client.get_prompt(name(plan), serde_json::json!({})).await;
            rendered.map(drop).map_err(words)
        }
    }
}

async fn call(client: &Client, plan: &Value) -> Result<String, String> {
    let result = client
        .call_tool(name(plan), plan["arguments"].clone())
        .await;
    let result = result.map_err(words)?;
    let text = json!(result.content).to_string();
    if result.is_error { Err(text) } else { Ok(text) }
}

async fn progress(client: &Client, plan: &Value) -> Outcome {
    let mut calling = client.start_tool(name(plan), plan["arguments"].clone());
    let mut steps = 0;
    loop {
        match calling.next().await {
            Some(Event::Progress(_)) => steps += 1,
            Some(Event::Done(result)) => {
                result.map_err(words)?;
                let heard = (steps > 0).then_some(());
                return heard.ok_or_else(|| "it told of no progress".to_owned());
            }
            Some(_) => {}
            None => return Err("it ended without an answer".to_owned()),
        }
    }
}

/// Drops a call once it has begun; the server must be there for others. Whether it stops its work cannot be seen from here.
async fn cancel(client: &Client, plan: &Value) -> Outcome {
    let mut calling = client.start_tool(name(plan), plan["arguments"].clone());
    loop {
        match calling.next().await {
            Some(Event::Progress(_)) => break,
            Some(Event::Done(_)) | None => {
                return Err("it ended before it was cancelled".to_owned());
            }
            Some(_) => {}
        }
    }
    drop(calling);
    client.ping().await.map_err(words)
}

async fn asked(client: &Client, plan: &Value, count: &AtomicUsize) -> Outcome {
    let before = count.load(Ordering::Relaxed);
    call(client, plan).await?;
    // Some servers ask for roots once, when they begin, and remember.
    let asked = count.load(Ordering::Relaxed) > if plan["once"] == true { 0 } else { before };
    asked
        .then_some(())
        .ok_or_else(|| "nothing was asked".to_owned())
}

async fn subscribe(client: &Client, plan: &Value) -> Outcome {
    let offered = client.server_capabilities().await.map_err(words)?.resources;
    if offered.and_then(|offered| offered.subscribe) != Some(true) {
        return Err(NONE.to_owned());
    }
    let uri = plan["uri"].as_str().unwrap_or_default();
    let mut changes = client.subscribe([uri]).await.map_err(words)?;
    client.ping().await.map_err(words)?;
    call(client, plan).await?;
    loop {
        match changes.next().await {
            Some(Change::Resource(_)) => return Ok(()),
            Some(_) => {}
            None => return Err("the subscription ended".to_owned()),
        }
    }
}

fn answer(asks: &Asks, asked: &Asked) -> Result<Value, RpcError> {
    let (count, answer) = match &asked.question {
        InputRequest::Elicit(_) => {
            let mut content = asked.defaults();
            content.entry("name").or_insert_with(|| json!("Ann"));
            (
                &asks.forms,
                json!({ "action": "accept", "content": content }),
            )
        }
        InputRequest::Sample(_) => {
            let content = json!({ "type": "text", "text": "a word" });
            (
                &asks.samples,
                json!({ "role": "assistant", "content": content, "model": "none" }),
            )
        }
        _ => (
            &asks.roots,
            json!({ "roots": [{ "uri": "file:///tmp", "name": "tmp" }] }),
        ),
    };
    count.fetch_add(1, Ordering::Relaxed);
    Ok(answer)
}

fn tell(feature: &str, outcome: Outcome) -> ExitCode {
    let note = outcome.err();
    let ok = match note.as_deref() {
        None => json!(true),
        Some(NONE) => Value::Null,
        Some(_) => json!(false),
    };
    let line = json!({ "feature": feature, "ok": ok, "note": note });
    let mut out = std::io::stdout();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn name(plan: &Value) -> &str {
    plan["name"].as_str().unwrap_or_default()
}

#[expect(clippy::needless_pass_by_value, reason = "reads as `map_err(words)`")]
fn words(error: client::Error) -> String {
    error.to_string()
}

const FEATURES: [&str; 10] = [
    "list",
    "call",
    "progress",
    "cancel",
    "elicitation",
    "sampling",
    "roots",
    "subscribe",
    "read",
    "prompt",
];

/// No fault of anybody's.
const NONE: &str = "the server says that it has no subscriptions";

/// A feature takes some seconds at most; one that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(30);
