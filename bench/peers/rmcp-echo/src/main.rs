//! The peer: one tool, `echo(text)`, on the official Rust SDK at its fastest.
//!
//! It is not how the SDK's examples look. They rebuild the tool table for each
//! request, leave Nagle's algorithm on and answer as an event stream; every one
//! of these costs the SDK part of its speed, so none of them is done here.

use std::{error::Error, sync::Arc};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ServerHandler, ServiceExt,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    schemars, tool, tool_handler, tool_router,
    transport::{
        stdio_pipes,
        streamable_http_server::{
            StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
        },
    },
};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn Error>> {
    // One thread, as the servers beside it: less memory and less CPU per
    // request than the SDK has on the multi-thread runtime.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["stdio"] => runtime.block_on(stdio()),
        ["http", port] => runtime.block_on(http(port.parse()?, true)),
        ["http-sessionless", port] => runtime.block_on(http(port.parse()?, false)),
        _ => Err("usage: rmcp-echo stdio | http PORT | http-sessionless PORT".into()),
    }
}

async fn stdio() -> Result<(), Box<dyn Error>> {
    // `stdio_pipes` reads and writes without blocking; `stdio` would hand each
    // message to a thread pool.
    Echo::new().serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}

async fn http(port: u16, sessions: bool) -> Result<(), Box<dyn Error>> {
    // The tools are built once and shared; the SDK asks for a server per request.
    let echo = Arc::new(Echo::new());
    // 2026-07-28 requests are served without a session whatever the session
    // mode says, and get JSON; a 2025-11-25 session gets an event stream, for
    // the SDK has nothing else to offer there. Without sessions it gets JSON,
    // and there is nothing that a server could ask or announce.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(true);
    let service = StreamableHttpService::new(move || Ok(echo.clone()), Arc::default(), config);

    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(stream, service.clone()));
    }
}

/// Straight on hyper: a router in front would only add to the SDK's bill.
async fn connection(
    stream: TcpStream,
    service: StreamableHttpService<Arc<Echo>, LocalSessionManager>,
) {
    let service = TowerToHyperService::new(service);
    // A client that goes away in the middle is no event worth telling.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

struct Echo {
    tools: ToolRouter<Self>,
}

#[tool_router]
impl Echo {
    fn new() -> Self {
        Self {
            tools: Self::tool_router(),
        }
    }

    #[tool(description = "Returns the text it is given")]
    fn echo(&self, Parameters(EchoArgs { text }): Parameters<EchoArgs>) -> String {
        text
    }
}

#[tool_handler(router = self.tools, name = "echo", version = "0.1.0")]
impl ServerHandler for Echo {}

#[derive(Deserialize, schemars::JsonSchema)]
struct EchoArgs {
    text: String,
}
