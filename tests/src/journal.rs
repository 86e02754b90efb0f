//! A tool that never ends, and one that waits until the other began or was stopped.

use std::sync::Arc;

use lmcp::{Cx, NoArgs, Server, Tool, ToolResult, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;

pub(crate) fn add(server: Server) -> Server {
    let journal = Journal(watch::Sender::new(Vec::new()));
    server.tools(
        ToolSet::new(journal)
            .tool(
                Tool::new("slow", Journal::slow)
                    .about("Never ends by itself.")
                    .read_only(),
            )
            .tool(
                Tool::new("slow_task", Journal::slow)
                    .about("Never ends by itself, as a task.")
                    .read_only()
                    .as_task(),
            )
            .tool(
                Tool::new("wait_for", Journal::wait_for)
                    .about("Ends once the slow tools have started or stopped this often.")
                    .read_only(),
            ),
    )
}

/// What the slow tools did.
struct Journal(watch::Sender<Vec<Event>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Event {
    Started,
    Dropped,
}

#[derive(Deserialize, JsonSchema)]
struct WaitFor {
    event: Event,
    times: usize,
}

impl Journal {
    async fn slow(self: Arc<Self>, _: NoArgs, _: Cx) -> &'static str {
        self.write(Event::Started);
        let _entry = EntryOnDrop(self);
        std::future::pending().await
    }

    async fn wait_for(self: Arc<Self>, args: WaitFor, _: Cx) -> ToolResult<String> {
        let WaitFor { event, times } = args;
        let count = |events: &Vec<Event>| events.iter().filter(|seen| **seen == event).count();
        self.0
            .subscribe()
            .wait_for(|events| count(events) >= times)
            .await?;
        Ok(format!("{event:?} {times}").to_lowercase())
    }

    fn write(&self, event: Event) {
        self.0.send_modify(|events| events.push(event));
    }
}

/// Writes that the future it was held by is gone.
struct EntryOnDrop(Arc<Journal>);

impl Drop for EntryOnDrop {
    fn drop(&mut self) {
        self.0.write(Event::Dropped);
    }
}
