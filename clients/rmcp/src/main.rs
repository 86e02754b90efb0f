//! Drives the client of rmcp through every feature, and prints one line of JSON for each.
//!
//!     drive REVISION stdio PROGRAM
//!     drive REVISION http URL CUT_URL     (CUT_URL leads through a proxy that cuts the stream of `slow`)
// The older revisions consist of features that the newest one deprecates.
#![allow(deprecated)]

use std::{error::Error, fmt::Debug, time::Duration};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, Implementation, ListRootsResult, ProgressNotificationParam,
        ProtocolVersion, ResourceUpdatedNotificationParam, Root, SamplingMessage,
        ServerNotification, SubscribeRequestParams, SubscriptionFilter,
    },
    service::{NotificationContext, RequestContext, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::json;
use tokio::sync::mpsc;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const NOTE: &str = "clients://note";
const FEATURES: [&str; 12] = [
    "connect",
    "list",
    "call",
    "structured output",
    "progress",
    "cancel",
    "elicitation",
    "sampling",
    "roots",
    "subscribe",
    "list changed",
    "resume",
];
/// Only bounds a failure: nothing waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [revision, kind, target, rest @ ..] = &args[..] else {
        return Err("say a revision, a transport and where the server is".into());
    };
    let modern = revision == "2026-07-28";
    let mut client =
        tokio::time::timeout(PATIENCE, Connection::open(revision, kind, target)).await??;
    for feature in FEATURES {
        let cannot = match (feature, modern, &kind[..]) {
            ("resume", true, _) => Some(
                "the revision has no resumption: a stream that ends is a request that is cancelled",
            ),
            ("resume", false, "stdio") => Some("stdio has no stream that could be resumed"),
            _ => None,
        };
        let (ok, note) = match cannot {
            Some(reason) => (None, reason.to_owned()),
            None => match tokio::time::timeout(PATIENCE, client.run(feature, revision, rest)).await
            {
                Ok(Ok(())) => (Some(true), String::new()),
                Ok(Err(err)) => (Some(false), err.to_string()),
                Err(late) => (Some(false), late.to_string()),
            },
        };
        println!("{}", json!({"feature": feature, "ok": ok, "note": note}));
    }
    client.service.cancel().await?;
    Ok(())
}

struct Connection {
    service: RunningService<RoleClient, Handler>,
    progress: mpsc::UnboundedReceiver<ProgressNotificationParam>,
    /// The method of a notification that something changed, or the URI of what did.
    changes: mpsc::UnboundedReceiver<String>,
    modern: bool,
}

impl Connection {
    async fn open(revision: &str, kind: &str, target: &str) -> Outcome<Self> {
        let (tell_progress, progress) = mpsc::unbounded_channel();
        let (tell_change, changes) = mpsc::unbounded_channel();
        let handler = Handler {
            tell_progress,
            tell_change,
        };
        let modern = revision == "2026-07-28";
        let lifecycle = match modern {
            true => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
            false => ClientLifecycleMode::Initialize,
        };
        let service = match kind {
            "stdio" => {
                let mut command = tokio::process::Command::new(target);
                command.arg("--stdio");
                let transport = TokioChildProcess::new(command)?;
                handler.serve_with_lifecycle(transport, lifecycle).await?
            }
            _ => {
                let transport = StreamableHttpClientTransport::from_uri(target);
                handler.serve_with_lifecycle(transport, lifecycle).await?
            }
        };
        Ok(Self {
            service,
            progress,
            changes,
            modern,
        })
    }

    async fn run(&mut self, feature: &str, revision: &str, cut_url: &[String]) -> Outcome {
        match feature {
            "connect" => {
                let peer = self
                    .service
                    .peer_info()
                    .ok_or("nothing is known of the server")?;
                same(
                    peer.server_info.as_ref().map(|info| &*info.name),
                    Some("clients-server"),
                )?;
                same(peer.protocol_version.as_str(), revision)
            }
            "list" => self.list().await,
            "call" => same(
                &*self.say_with("echo", json!({"text": "grüße"})).await?,
                "grüße",
            ),
            "structured output" => {
                let result = self.call("add", json!({"a": 2, "b": 3})).await?;
                same(result.structured_content, Some(json!({"sum": 5})))
            }
            "progress" => self.count().await,
            "cancel" => self.cancel().await,
            "elicitation" => same(&*self.say("greet").await?, "Hello, Ada!"),
            "sampling" => same(&*self.say("capital").await?, "Paris"),
            "roots" => same(&*self.say("folders").await?, "file:///project"),
            "subscribe" => self.subscribe().await,
            "list changed" => self.list_changed().await,
            "resume" => {
                Self::open(revision, "http", &cut_url[0])
                    .await?
                    .resume()
                    .await
            }
            _ => Err("there is no such feature".into()),
        }
    }

    async fn list(&self) -> Outcome {
        let tools = self.tools().await?;
        same(
            ["echo", "next"].map(|name| tools.iter().any(|tool| tool == name)),
            [true, true],
        )?;
        same(&*self.service.list_all_resources().await?[0].uri, NOTE)?;
        same(&*self.service.list_all_prompts().await?[0].name, "hello")
    }

    async fn count(&mut self) -> Outcome {
        let (service, progress) = (&self.service, &mut self.progress);
        let steps = async {
            let mut seen = Vec::new();
            while seen.len() < 3 {
                let step = progress.recv().await.ok_or("the connection has ended")?;
                seen.push((step.progress, step.total, step.message));
                service
                    .call_tool(CallToolRequestParams::new("next"))
                    .await?;
            }
            Outcome::Ok(seen)
        };
        let (counted, seen) = tokio::join!(
            service.call_tool(CallToolRequestParams::new("count")),
            steps
        );
        counted?;
        let expected = [(1., "one"), (2., "two"), (3., "three")];
        same(
            seen?,
            expected
                .map(|(done, word)| (done, Some(3.), Some(word.to_owned())))
                .into(),
        )
    }

    async fn cancel(&mut self) -> Outcome {
        // Dropping the call is how this client cancels it.
        tokio::select! {
            _ = self.service.call_tool(CallToolRequestParams::new("wait")) => return Err("it ended by itself".into()),
            _ = self.progress.recv() => {}
        }
        same(&*self.say("cancelled").await?, "1")
    }

    async fn subscribe(&mut self) -> Outcome {
        if !self.modern {
            self.service
                .subscribe(SubscribeRequestParams::new(NOTE))
                .await?;
            self.say("touch").await?;
            return same(self.changes.recv().await.as_deref(), Some(NOTE));
        }
        let filter = SubscriptionFilter::builder()
            .resource_subscription(NOTE)
            .build();
        let mut subscription = self.service.listen(filter).await?;
        self.say("touch").await?;
        match subscription.next().await? {
            Some(ServerNotification::ResourceUpdatedNotification(update)) => {
                same(&*update.params.uri, NOTE)
            }
            other => Err(format!("{other:?}").into()),
        }
    }

    async fn list_changed(&mut self) -> Outcome {
        if self.modern {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let mut subscription = self.service.listen(filter).await?;
            self.say("grow").await?;
            same(subscription.next().await?.is_some(), true)?;
        } else {
            self.say("grow").await?;
            same(self.changes.recv().await.as_deref(), Some("tools"))?;
        }
        same(self.tools().await?.iter().any(|tool| tool == "grown"), true)
    }

    async fn resume(mut self) -> Outcome {
        // By the time the report is here, the stream behind it is gone: the result can only come over another one.
        let (service, progress) = (&self.service, &mut self.progress);
        let go_on = async {
            progress.recv().await;
            service.call_tool(CallToolRequestParams::new("next")).await
        };
        let (result, next) =
            tokio::join!(service.call_tool(CallToolRequestParams::new("slow")), go_on);
        next?;
        same(&*text(&result?)?, "still here")?;
        self.service.cancel().await?;
        Ok(())
    }

    async fn tools(&self) -> Outcome<Vec<String>> {
        let tools = self.service.list_all_tools().await?;
        Ok(tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect())
    }

    async fn say(&self, tool: &'static str) -> Outcome<String> {
        self.say_with(tool, json!({})).await
    }

    async fn say_with(&self, tool: &'static str, arguments: serde_json::Value) -> Outcome<String> {
        text(&self.call(tool, arguments).await?)
    }

    async fn call(
        &self,
        tool: &'static str,
        arguments: serde_json::Value,
    ) -> Outcome<CallToolResult> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        Ok(self.service.call_tool(params).await?)
    }
}

/// What the server may ask of us, and tell us.
struct Handler {
    tell_progress: mpsc::UnboundedSender<ProgressNotificationParam>,
    tell_change: mpsc::UnboundedSender<String>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(Default::default());
        capabilities.sampling = Some(Default::default());
        capabilities.roots = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("rmcp", "0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(
            SamplingMessage::assistant_text("Paris"),
            "none".into(),
        ))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///project")]))
    }

    // Nobody listens any more only when the driver is about to end.
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.tell_progress.send(params);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.tell_change.send(params.uri);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.tell_change.send("tools".into());
    }
}

fn text(result: &CallToolResult) -> Outcome<String> {
    let text = result.content.first().and_then(|block| block.as_text());
    Ok(text
        .ok_or_else(|| format!("no text in {result:?}"))?
        .text
        .clone())
}

fn same<T: PartialEq + Debug>(found: T, expected: T) -> Outcome {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{found:?} instead of {expected:?}").into()),
    }
}
