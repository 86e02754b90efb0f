//! The tools, in the order of the table's columns.

use lmcp::{Cx, Json, NoArgs, Tool, ToolResult, wire::sampling::CreateMessageParams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

/// The resource to subscribe to.
pub(crate) const NOTE: &str = "clients://note";

/// What one call has to tell another.
#[derive(Default)]
pub(crate) struct Signals {
    /// How many calls of `wait` were cancelled; `cancelled` waits on it.
    cancelled: watch::Sender<u32>,
    /// A call of `count` or `slow` waits here; `next` lets it go on.
    next: Notify,
}

pub(crate) fn all() -> Vec<Tool> {
    vec![
        Tool::new("echo", echo)
            .about("Returns its text.")
            .read_only(),
        Tool::new("add", add)
            .about("Adds two numbers; the sum is structured.")
            .read_only(),
        Tool::new("count", count)
            .about("Counts to three, one for each call of `next`, with progress.")
            .read_only(),
        Tool::new("wait", wait)
            .about("Reports progress once, then waits to be cancelled.")
            .read_only(),
        Tool::new("cancelled", cancelled)
            .about("Tells how many waits were cancelled, after the first.")
            .read_only(),
        Tool::new("greet", greet)
            .about("Asks the user for a name.")
            .read_only(),
        Tool::new("capital", capital)
            .about("Asks the model for a capital.")
            .read_only(),
        Tool::new("folders", folders)
            .about("Asks the client for its roots.")
            .read_only(),
        Tool::new("touch", touch)
            .about("Says that the note has changed.")
            .writes(),
        Tool::new("grow", grow)
            .about("Adds the tool `grown`.")
            .writes(),
        Tool::new("slow", slow)
            .about("Reports progress once, then waits for `next`.")
            .read_only(),
        Tool::new("next", next)
            .about("Lets `count` or `slow` go on.")
            .writes(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn echo(args: Text, _: Cx) -> String {
    args.text
}

async fn add(args: Numbers, _: Cx) -> Json<Sum> {
    Json(Sum {
        sum: args.a + args.b,
    })
}

async fn count(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let signals = cx.state::<Signals>()?;
    let progress = cx.progress(3);
    for word in ["one", "two", "three"] {
        progress.step(word);
        // Some clients drop a report that they read together with the result, so each is waited for.
        signals.next.notified().await;
    }
    Ok("counted")
}

async fn wait(_: NoArgs, cx: Cx) -> ToolResult<String> {
    /// Counts when the call is dropped, which is what cancelling it means.
    struct Dropped(Cx);
    impl Drop for Dropped {
        fn drop(&mut self) {
            if let Ok(signals) = self.0.state::<Signals>() {
                signals.cancelled.send_modify(|count| *count += 1);
            }
        }
    }
    let _dropped = Dropped(cx.clone());
    // The client knows by it that there is something to cancel.
    cx.open_progress().step("waiting");
    std::future::pending().await
}

async fn cancelled(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let mut count = cx.state::<Signals>()?.cancelled.subscribe();
    let count = *count.wait_for(|count| *count > 0).await?;
    Ok(count.to_string())
}

async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let user: Name = cx.ask("user", "What is your name?").await?;
    Ok(format!("Hello, {}!", user.name))
}

async fn capital(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let question = CreateMessageParams::ask("What is the capital of France?", 100);
    let answer = cx.sample("capital", question).await?;
    let texts = answer
        .content
        .as_slice()
        .iter()
        .filter_map(|block| block.as_text());
    Ok(texts.collect())
}

async fn folders(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let roots = cx.roots().await?;
    let uris: Vec<&str> = roots.iter().map(|root| root.uri.as_str()).collect();
    Ok(uris.join(", "))
}

async fn touch(_: NoArgs, cx: Cx) -> &'static str {
    cx.server().resource_updated(NOTE);
    "touched"
}

async fn grow(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    cx.server().add_tool(
        Tool::new("grown", echo)
            .about("Returns its text.")
            .read_only(),
    )?;
    Ok("grown")
}

async fn slow(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    // `clients/run` cuts the connection right behind these words.
    cx.open_progress().step("cut here");
    cx.state::<Signals>()?.next.notified().await;
    Ok("still here")
}

async fn next(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    cx.state::<Signals>()?.next.notify_one();
    Ok("on it goes")
}

pub(crate) async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "Say hello."
}
