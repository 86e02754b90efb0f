//! A server on stdio whose tools do what a careful author would not: the tests of stdio run it as a process.

use lmcp_core::{
    Caller, CallerTransport, Cx, Error, NoArgs, Server, Tasks, Tool, ToolResult, stdio, streams,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::args().any(|word| word == "flood") {
        flood().await.map_err(|err| Error::io("cannot flood", err))
    } else {
        server().serve(stdio()).await
    }
}

fn server() -> Server {
    Server::new("probe", "1.0.0")
        .tool(Tool::new("quick", quick).read_only())
        .tool(Tool::new("slow", slow).read_only())
        .tool(Tool::new("hang", hang).read_only())
        .tool(Tool::new("print", print).read_only())
        .tool(Tool::new("child", child).read_only())
        .tool(Tool::new("steps", steps).read_only())
        .tool(Tool::new("greet", greet).read_only())
        .tool(Tool::new("panic", panics).read_only())
}

/// Feeds a server in this process a line of 200 MB, and prints by how much the process grew. Here, because the
/// high-water mark of a process that runs other tests says nothing.
async fn flood() -> std::io::Result<()> {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(far);
    let serving = Tasks::default();
    serving.spawn(async move {
        let caller = Caller::new(CallerTransport::Memory);
        let _ = server().serve(streams(reader, writer, caller)).await;
    });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    let piece = vec![b'x'; 1 << 20];
    let before = high_water_mark()?;
    for _ in 0..200 {
        writer.write_all(&piece).await?;
    }
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    writer
        .write_all(format!("\n{request}\n").as_bytes())
        .await?;
    let answer = lines.next_line().await?.unwrap_or_default();
    let next = lines.next_line().await?.unwrap_or_default();
    let grown = high_water_mark()? - before;
    print_json(&json!({
        "answer": serde_json::from_str::<Value>(&answer)?,
        "next": serde_json::from_str::<Value>(&next)?,
        "grown": grown,
    }));
    Ok(())
}

/// The most memory this process ever had, in kB.
fn high_water_mark() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let figure = line.and_then(|line| line.split_whitespace().nth(1));
    figure
        .and_then(|figure| figure.parse().ok())
        .ok_or_else(|| std::io::Error::other("the kernel does not tell"))
}

#[expect(clippy::print_stdout, reason = "the test reads it")]
fn print_json(value: &Value) {
    println!("{value}");
}

async fn quick(_: NoArgs, _: Cx) -> &'static str {
    "quick"
}

/// Takes as long as a query of a database may.
async fn slow(_: NoArgs, _: Cx) -> &'static str {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    "slow"
}

/// Never ends. Says on stderr when it begins and when its future is dropped.
async fn hang(_: NoArgs, _: Cx) -> &'static str {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            say("dropped");
        }
    }
    let _held = Held;
    say("started");
    std::future::pending().await
}

/// Prints to stdout, as people do while they look for a mistake.
#[expect(clippy::print_stdout, reason = "the very mistake that is tested")]
async fn print(_: NoArgs, _: Cx) -> &'static str {
    println!("printed by a handler");
    "printed"
}

/// Runs a program that reads its input, writes to its output, and lists what it inherited.
async fn child(_: NoArgs, _: Cx) -> ToolResult<String> {
    let script = "cat; echo printed by a child; ls -l /proc/self/fd >&2; echo end of list >&2";
    let status = std::process::Command::new("sh")
        .args(["-c", script])
        .status()?;
    Ok(format!("the child ended with {status}"))
}

async fn steps(_: NoArgs, cx: Cx) -> &'static str {
    cx.progress(2).step("half");
    tokio::task::yield_now().await;
    "stepped"
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let Name { name } = cx.ask("name", "Who?").await?;
    Ok(format!("Hello, {name}!"))
}

async fn panics(_: NoArgs, _: Cx) -> String {
    tokio::task::yield_now().await;
    panic!("a secret")
}

#[expect(clippy::print_stderr, reason = "the tests read it")]
fn say(word: &str) {
    eprintln!("{word}");
}
