//! A host with very many children: `host-crowd CHILDREN A_SECOND LMCP told|untold`. Prints how long each took from its start to its first list
//! of tools, what a connected child costs the host in memory, and whether every event came, in order.
//!
//! Each child is an `lmcp proxy`. One that is told has its credentials in its environment; one that is not has hardly any
//! environment, as the SDKs start their servers, and finds its identity by the register.

#![expect(clippy::print_stdout, reason = "it prints figures")]

use std::{
    collections::HashMap,
    env,
    error::Error,
    fs,
    io::{BufRead as _, BufReader, PipeWriter, Write as _, pipe},
    os::fd::OwnedFd,
    process::{self, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use lmcp::{
    Cx, NoArgs, Server, Tool,
    embed::{Child, Event, Host, whoami},
};
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Everything that one child has, for as long as it is there.
struct Visitor {
    child: Child,
    process: process::Child,
    input: ChildStdin,
}

/// The longest time from the start of a child to its first list, promised for 99 of 100 children.
const MOST_MS: f64 = 100.0;

/// The most memory that the host is promised to take for each connected child.
const MOST_KB: f64 = 20.0;

/// The events of one child, one letter for each: attached, detached, ended.
type Heard = HashMap<String, String>;

#[expect(
    clippy::disallowed_methods,
    reason = "children start at a pace, and nothing else runs on this thread"
)]
fn main() -> Result {
    let args: Vec<String> = env::args().skip(1).collect();
    let [count, a_second, lmcp, how] = &args[..] else {
        return Err("usage: host-crowd CHILDREN A_SECOND LMCP told|untold".into());
    };
    let (count, pause) = (
        count.parse()?,
        Duration::from_secs(1) / a_second.parse::<u32>()?,
    );
    let hello = Tool::new("hello", hello).about("Says hello.").read_only();
    let host = Host::start(Server::new("crowd", "1.0.0").tool(hello).tool(whoami()))?;
    let mut events = host.events();
    let listening = thread::spawn(move || {
        let mut heard = Heard::new();
        while let Some(event) = events.wait() {
            note(&mut heard, event);
        }
        heard
    });
    let (answers, answered) = answers()?;
    // The first child also pays for what the host makes once, so it is not counted.
    let mut visitors = vec![visit(&host, 0, lmcp, how, &answers)?];
    answered.recv()?;
    let before = memory()?;
    let mut begins = vec![Instant::now()];
    for number in 1..=count {
        begins.push(Instant::now());
        visitors.push(visit(&host, number, lmcp, how, &answers)?);
        let begun = begins.last().ok_or("it has begun")?;
        thread::sleep(pause.saturating_sub(begun.elapsed()));
    }
    let mut took = Vec::new();
    for _ in 0..count {
        let (number, at) = answered.recv_timeout(Duration::from_secs(60))?;
        let begun = begins.get(number).ok_or("nobody asked that")?;
        took.push(at.duration_since(*begun));
    }
    let cost = memory()?.saturating_sub(before);
    let each = cost as f64 / 1000.0 / f64::from(u32::try_from(count)?);
    took.sort_unstable();
    let share = |part: f64| took[(part * (took.len() - 1) as f64) as usize].as_secs_f64() * 1000.0;
    println!(
        "{count} children, {how}, one each {} ms: from start to first list {:.1} ms in the middle, {:.1} ms p99, {:.1} ms at most; \
         {:.1} kB of the host's memory each",
        pause.as_millis(),
        share(0.5),
        share(0.99),
        share(1.0),
        each,
    );
    for visitor in visitors {
        leave(visitor)?;
    }
    host.close();
    let heard = listening.join().map_err(|_| "the listener failed")?;
    let wrong: Vec<_> = heard.iter().filter(|(_, heard)| *heard != "ade").collect();
    if heard.len() != count + 1 || !wrong.is_empty() {
        return Err(format!("of {} children was heard, wrong: {wrong:?}", heard.len()).into());
    }
    println!("every child was attached, detached and ended, in this order");
    if share(0.99) > MOST_MS || each > MOST_KB {
        return Err(format!("more than {MOST_MS} ms or {MOST_KB} kB").into());
    }
    Ok(())
}

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    "hello"
}

fn note(heard: &mut Heard, event: Event) {
    let (label, letter) = match event {
        Event::Attached(child, _) => (child.identity().label.clone(), "a"),
        Event::Detached(child, _) => (child.identity().label.clone(), "d"),
        Event::Ended(child, _) => (child.identity().label.clone(), "e"),
        other => (format!("{other:?}"), "?"),
    };
    heard.entry(label).or_default().push_str(letter);
}

/// Where all children write their answers, and which came when.
fn answers() -> Result<(PipeWriter, mpsc::Receiver<(usize, Instant)>)> {
    let (reader, writer) = pipe()?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader)
            .lines()
            .map_while(std::io::Result::ok)
        {
            let at = Instant::now();
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            let id = line["id"].as_u64().and_then(|id| usize::try_from(id).ok());
            if let (Some(id), true) = (id, line["result"]["tools"].is_array()) {
                let _ = tell.send((id, at));
            }
        }
    });
    Ok((writer, told))
}

fn visit(
    host: &Host,
    number: usize,
    lmcp: &str,
    how: &str,
    answers: &PipeWriter,
) -> Result<Visitor> {
    let child = host.child(&format!("n{number}"), "worker")?;
    let mut command = match how {
        "told" => Command::new(lmcp),
        _ => Command::new("env"),
    };
    if how != "told" {
        command.args(["-i", lmcp]);
    }
    command
        .arg("proxy")
        .stdin(Stdio::piped())
        .stdout(OwnedFd::from(answers.try_clone()?));
    let mut process = child.spawn(&mut command)?;
    let mut input = process.stdin.take().ok_or("it has no input")?;
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let list = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/list", "params": { "_meta": meta } });
    writeln!(input, "{list}")?;
    Ok(Visitor {
        child,
        process,
        input,
    })
}

/// Its client goes, so it ends, and the host has told that before this returns.
fn leave(visitor: Visitor) -> Result {
    let Visitor {
        child,
        mut process,
        input,
    } = visitor;
    drop(input);
    process.wait()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(child.ended());
    drop(child);
    Ok(())
}

/// Memory of this process that is its own, in bytes.
fn memory() -> Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let words = line.ok_or("Linux says it")?;
    let kib = words.split_whitespace().next().ok_or("Linux says it")?;
    Ok(kib.parse::<usize>()? * 1024)
}
