//! Every request is a `tracing` span, around all that its handler logs.
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

#[tokio::test]
async fn a_span_has_the_method_the_target_and_the_outcome() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tool = Tool::new("hello", hello).read_only();
    let server = Server::new("spans", "1.0.0").tool(tool);
    let client = server.start().unwrap().client();
    client.call_tool("hello", json!({})).await.unwrap();

    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
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
