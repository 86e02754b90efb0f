//! Any MCP server, with the tools of this program beside its own, for clients of every revision on stdio and over HTTP:
//! `cargo run -p lmcp --features client --example router -- 8080 npx -y @modelcontextprotocol/server-everything`

use std::net::Ipv4Addr;

use lmcp::upstream::{Upstream, command};
use lmcp::{Client, Cx, Endpoint, Error, Handle, Layered, NoArgs, Page, Payload, Replies};
use lmcp::{Request, RpcError, Server, Service, Tool, http, wire::discover::CacheHint};

struct Router {
    here: Handle,
    there: Upstream,
}

impl Service for Router {
    fn call(&self, request: Request) -> Replies {
        let is_here = |name| self.here.tool_names().iter().any(|tool| *tool == name);
        match request.method() {
            "tools/list" => Replies::later(list(self.here.client(), self.there.clone())),
            "tools/call" if request.target().is_ok_and(is_here) => self.here.call(request),
            _ => self.there.call(request),
        }
    }
}

async fn list(here: Client, there: Upstream) -> Replies {
    let there = Endpoint::new(there).client();
    let tools = match (here.list_tools().await, there.list_tools().await) {
        (Ok(here), Ok(there)) => [here, there].concat(),
        (Err(err), _) | (_, Err(err)) => return Replies::error(err.into()),
    };
    let page = Page::new("tools", &tools, None);
    Replies::done(Payload::List(page, CacheHint::private(0)))
}

/// Names that begin with `_` are refused, whichever server has them.
pub(crate) fn router(there: Upstream) -> Result<Endpoint, Error> {
    let hello = Tool::new("hello", |_: NoArgs, _: Cx| async { "hello" }).read_only();
    let here = Server::new("router", "0.1.0").tool(hello).start()?;
    let router = Layered::new(Router { here, there });
    Ok(Endpoint::new(router.layer(|request, next| {
        if request.target().is_ok_and(|name| name.starts_with('_')) {
            return Replies::error(RpcError::invalid_params("private"));
        }
        next.call(request)
    })))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let port = words.next().ok_or("which port?")?.parse()?;
    let program = command(words.next().ok_or("which program?")?).args(words);
    let router = router(Upstream::new(program.route()))?;
    let http = http::bind((Ipv4Addr::LOCALHOST, port)).await?;
    // The program ends with its input.
    tokio::select! { ended = router.serve(lmcp::stdio()) => ended?, ended = router.serve(http) => ended? }
    Ok(())
}
