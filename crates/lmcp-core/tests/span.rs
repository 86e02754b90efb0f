//! Every request is a `tracing` span, around all that its handler logs; and a handler that blocks is told in the log.
//!
//! A program of its own: `tracing` remembers for the whole process what nobody listens to, and other tests listen to nothing.

use std::{
    io,
    sync::{Arc, Mutex},
};

use lmcp_core::{Cx, NoArgs, Server, Tool};
use serde_json::json;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        let lines = self.0.lock().expect("no test panics with it");
        String::from_utf8(lines.clone()).expect("the log is text")
    }
}

/// Collects what this thread logs.
fn listen(lines: &Lines) -> tracing::subscriber::DefaultGuard {
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_default(subscriber)
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().expect("no test panics with it");
        lines.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn hello(_: NoArgs, _: Cx) -> &'static str {
    tokio::task::yield_now().await;
    tracing::info!("said by the handler");
    "hello"
}

/// Blocks its thread, as a slow query of a database would.
async fn block(_: NoArgs, _: Cx) -> &'static str {
    let (_sender, nothing) = std::sync::mpsc::channel::<()>();
    let _ = nothing.recv_timeout(std::time::Duration::from_millis(1001));
    "done"
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_is_named_in_the_log() {
    let lines = Lines::default();
    let _guard = listen(&lines);
    let tool = Tool::new("block", block).read_only();
    let server = Server::new("slow", "1.0.0").tool(tool);
    let client = server.start().unwrap().client();
    client.call_tool("block", json!({})).await.unwrap();
    let text = lines.text();
    let warning = text.lines().find(|line| line.contains("WARN"));
    let warning = warning.unwrap_or_else(|| panic!("no warning in\n{text}"));
    for words in ["tools/call block: held its thread for 1.", "`Cx::blocking`"] {
        assert!(warning.contains(words), "{words} in {warning}");
    }
}

#[tokio::test]
async fn a_span_has_the_method_the_target_and_the_outcome() {
    let lines = Lines::default();
    let _guard = listen(&lines);
    let tool = Tool::new("hello", hello).read_only();
    let server = Server::new("spans", "1.0.0").tool(tool);
    let client = server.start().unwrap().client();
    client.call_tool("hello", json!({})).await.unwrap();

    let text = lines.text();
    let line = |words: &str| {
        let found = text.lines().find(|line| line.contains(words));
        found
            .unwrap_or_else(|| panic!("{words} in\n{text}"))
            .to_owned()
    };
    assert!(line("said by the handler").contains("request{"), "{text}");
    let end = line("close");
    for part in [
        r#"method="tools/call""#,
        r#"target="hello""#,
        "id=",
        "caller=",
        "outcome=",
    ] {
        assert!(end.contains(part), "{part} in {end}");
    }
}
