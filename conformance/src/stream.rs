//! Tools that say something before they answer: progress and log messages.

use std::time::Duration;

use lmcp::{Cx, NoArgs, Server, Tool, wire::LoggingLevel};
use tokio::time::sleep;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("test_tool_with_progress", progress)
                .about("Returns a text, after three reports of progress.")
                .read_only(),
        )
        .tool(
            Tool::new("test_tool_with_logging", logging)
                .about("Returns a text, after three log messages.")
                .read_only(),
        )
        .tool(
            Tool::new("test_logging_tool", log_once)
                .about("Returns a text, after one log message.")
                .read_only(),
        )
        .tool(
            Tool::new("test_reconnection", reconnection)
                .about("Lets go of the connection, and returns a text to whoever comes back.")
                .read_only(),
        )
}

async fn progress(_: NoArgs, cx: Cx) -> &'static str {
    let progress = cx.progress(100);
    progress.set(0, "started");
    sleep(STEP).await;
    progress.set(50, "half way");
    sleep(STEP).await;
    progress.set(100, "done");
    "Progress test completed."
}

async fn logging(_: NoArgs, cx: Cx) -> &'static str {
    cx.log(LoggingLevel::Info, "Tool execution started");
    sleep(STEP).await;
    cx.log(LoggingLevel::Info, "Tool processing data");
    sleep(STEP).await;
    cx.log(LoggingLevel::Info, "Tool execution completed");
    "Logging test completed."
}

async fn log_once(_: NoArgs, cx: Cx) -> &'static str {
    cx.log(LoggingLevel::Info, "The tool was called.");
    "Logged, if the request asked for it."
}

async fn reconnection(_: NoArgs, cx: Cx) -> &'static str {
    cx.retry_after(STEP * 10);
    sleep(STEP * 2).await;
    "Reconnection test completed."
}

/// As the suite words it: long enough to tell the messages apart, and above the interval between two reports.
const STEP: Duration = Duration::from_millis(50);
