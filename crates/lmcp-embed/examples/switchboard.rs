//! A terminal program with a server inside: it starts two children, which reach the server as any agent would, through `lmcp
//! proxy`, and shows who called which tool. `cargo build && cargo run -p lmcp-embed --example switchboard`

#![expect(clippy::print_stdout, reason = "what it says is for people")]

use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader, Write as _, stdin},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use lmcp::{
    Cx, NoArgs, Server, Tool, ToolSet,
    embed::{Child, ChildHandle, ChildOf as _, Host, whoami},
    schemars::JsonSchema,
};
use serde::Deserialize;
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The notes of the children, which everybody reads.
#[derive(Default)]
struct Board(Mutex<Vec<String>>);

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to write.
    text: String,
}

/// Adds a note under the label of the caller. The label comes from the host, so a child cannot write under another name.
async fn write(board: Arc<Board>, note: Note, cx: Cx) -> String {
    let label = cx.child().map_or("somebody".into(), ChildHandle::label);
    let mut notes = board.0.lock().unwrap_or_else(PoisonError::into_inner);
    notes.push(format!("{label}: {}", note.text));
    format!("note {}", notes.len())
}

async fn read(board: Arc<Board>, _: NoArgs, _: Cx) -> String {
    let notes = board.0.lock().unwrap_or_else(PoisonError::into_inner);
    notes.join("\n")
}

async fn wipe(board: Arc<Board>, _: NoArgs, _: Cx) -> &'static str {
    let mut notes = board.0.lock().unwrap_or_else(PoisonError::into_inner);
    notes.clear();
    "wiped"
}

fn server() -> Server {
    let tools = ToolSet::new(Arc::new(Board::default()))
        .tool(Tool::new("write", write).about("Writes a note.").writes())
        .tool(Tool::new("read", read).about("All notes.").read_only())
        .tool(
            Tool::new("wipe", wipe)
                .about("Removes all notes.")
                .destructive()
                .only_for(["lead"]),
        );
    Server::new("switchboard", "1.0.0")
        .tools(tools)
        .tool(whoami())
        // The layer runs around every request, so the program sees here who calls which tool.
        .layer(|request, next| {
            if let Some(identity) = request.caller().identity() {
                let what: Value = request.params().unwrap_or_default();
                let tool = what["name"].as_str().unwrap_or_default();
                let (label, role) = (&identity.label, &identity.role);
                println!("{label:>8} ({role}) {} {tool}", request.method());
            }
            next.call(request)
        })
}

fn main() -> Result {
    if let Some(name) = env::args().nth(1) {
        return be_a_child(&name);
    }
    let host = Host::start(server())?;
    println!("listening on {}", host.socket().display());
    let lead = host.child("ann", "lead")?;
    let worker = lead.child("bob", "worker")?;
    let mut processes = [start(&lead)?, start(&worker)?];
    println!("`end ann` or `end bob` ends one; the end of input ends all");
    for line in stdin().lines() {
        match line?.trim() {
            "end ann" => processes[0].kill()?,
            "end bob" => processes[1].kill()?,
            "" => {}
            other => println!("what is `{other}`?"),
        }
    }
    for process in &mut processes {
        process.wait()?;
    }
    host.close();
    Ok(())
}

/// Starts this program again, as a child with an identity.
fn start(child: &Child) -> Result<std::process::Child> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(child.label()).stdin(Stdio::null());
    Ok(child.spawn(&mut command)?)
}

/// Does the work of an agent: starts its MCP server, which is the proxy, and calls tools.
fn be_a_child(name: &str) -> Result {
    let mut proxy = Command::new(lmcp()?)
        .arg("proxy")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut ask, answers) = (proxy.stdin.take(), proxy.stdout.take());
    let mut answers = BufReader::new(answers.ok_or("no stdout")?).lines();
    let calls = [
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "whoami", "arguments": {} })),
        (
            "tools/call",
            json!({ "name": "write", "arguments": { "text": "hello" } }),
        ),
        ("tools/call", json!({ "name": "wipe", "arguments": {} })),
    ];
    for (id, (method, mut params)) in calls.into_iter().enumerate() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(ask.as_mut().ok_or("no stdin")?, "{request}")?;
        let answer: Value = serde_json::from_str(&answers.next().ok_or("no answer")??)?;
        if let Some(error) = answer["error"]["message"].as_str() {
            println!("{name:>8} was told: {error}");
        }
    }
    // The proxy ends when its input ends.
    drop(ask);
    proxy.wait()?;
    Ok(())
}

/// Returns the path of the binary: from a variable, beside this program, or by its name in the PATH.
fn lmcp() -> Result<PathBuf> {
    if let Some(named) = env::var_os("LMCP") {
        return Ok(named.into());
    }
    let built = env::current_exe()?.with_file_name("../lmcp");
    Ok(if built.exists() { built } else { "lmcp".into() })
}
