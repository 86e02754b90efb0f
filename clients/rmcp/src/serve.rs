//! A server of rmcp with a tool for each feature: on stdio, or with a port as its argument over HTTP.
// The older revisions consist of features that the newest one deprecates.
#![allow(deprecated)]

use std::{error::Error, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceError, ServiceExt,
    model::*,
    service::{RequestContext, SubscriptionContext},
    transport::{
        stdio,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::broadcast};

const NOTE: &str = "rmcp://text";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Features {
        touched: broadcast::channel(16).0,
    };
    let Some(port) = std::env::args().nth(1) else {
        server.serve(stdio()).await?.waiting().await?;
        return Ok(());
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::<LocalSessionManager>::default(),
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

#[derive(Clone)]
struct Features {
    /// Wakes those who listen, in the revision where that is a request.
    touched: broadcast::Sender<()>,
}

type Answer = Result<CallToolResponse, ErrorData>;

impl Features {
    async fn work(&self, steps: u64, context: &RequestContext<RoleServer>) -> Answer {
        for step in 1..=steps {
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, step as f64);
                context
                    .peer
                    .notify_progress(progress)
                    .await
                    .map_err(failed)?;
            }
            tokio::select! {
                () = context.ct.cancelled() => return Ok(text("cancelled")),
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
        Ok(text("worked"))
    }

    async fn touch(&self, context: &RequestContext<RoleServer>) -> Answer {
        let changed = ResourceUpdatedNotificationParam::new(NOTE);
        match is_modern(context) {
            true => drop(self.touched.send(())),
            false => context
                .peer
                .notify_resource_updated(changed)
                .await
                .map_err(failed)?,
        }
        Ok(text("touched"))
    }
}

/// Asks while the call goes on, or by its answer.
async fn ask(
    tool: &str,
    call: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Answer {
    let message = json!({ "role": "user", "content": { "type": "text", "text": "hm" } });
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let form = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
    let sample = json!({ "messages": [message], "maxTokens": 5 });
    if !is_modern(context) {
        let asked = match tool {
            "ask" => context.peer.create_elicitation(read(form)).await.map(drop),
            "sample" => context.peer.create_message(read(sample)).await.map(drop),
            _ => context.peer.list_roots().await.map(drop),
        };
        asked.map_err(failed)?;
    } else if call.input_responses.is_none() {
        let request = match tool {
            "ask" => InputRequest::Elicitation(ElicitRequest::new(read(form))),
            "sample" => InputRequest::CreateMessage(CreateMessageRequest::new(read(sample))),
            _ => InputRequest::ListRoots(ListRootsRequest::default()),
        };
        let requests = InputRequests::from([("it".to_owned(), request)]);
        return Ok(InputRequiredResult::new(Some(requests), None).into());
    }
    Ok(text("asked"))
}

impl ServerHandler for Features {
    fn get_info(&self) -> ServerConfig {
        let offered = json!({ "tools": {}, "prompts": {}, "resources": { "subscribe": true } });
        ServerConfig::new(read(offered)).with_server_info(Implementation::new("rmcp", "0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let names = ["echo", "work", "ask", "sample", "folders", "touch"];
        let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
        Ok(read(json!({ "tools": tools })))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer {
        let arguments = Value::from(call.arguments.clone().unwrap_or_default());
        match &*call.name.clone() {
            "echo" => Ok(text(arguments["message"].as_str().unwrap_or_default())),
            "work" => {
                self.work(arguments["steps"].as_u64().unwrap_or(1), &context)
                    .await
            }
            "touch" => self.touch(&context).await,
            tool => ask(tool, call, &context).await,
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(read(json!({ "prompts": [{ "name": "hello" }] })))
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "hello" } });
        Ok(read::<GetPromptResult>(json!({ "messages": [message] })).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(read(
            json!({ "resources": [{ "uri": NOTE, "name": "text" }] }),
        ))
    }

    async fn read_resource(
        &self,
        _: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = json!({ "contents": [{ "uri": NOTE, "text": "text" }] });
        Ok(read::<ReadResourceResult>(contents).into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(wanted.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut touched = self.touched.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                _ = touched.recv() => {
                    let told = context.sink().notify_resource_updated(NOTE).await;
                    told.map_err(|err| ErrorData::internal_error(err.to_string(), None))?;
                }
            }
        }
    }
}

/// In the revisions without sessions nobody is asked while a call goes on.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= "2026")
}

fn text(words: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(words)]).into()
}

fn failed(err: ServiceError) -> ErrorData {
    ErrorData::internal_error(err.to_string(), None)
}

fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("it is what the specification says")
}
