//! Calls of `echo` with the client of the official Rust SDK.

#[path = "../../calls.rs"]
mod calls;

use calls::{Result, Work, stop, text};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::json;

fn main() -> Result {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(Work::read()?))
}

async fn run(work: Work) -> Result {
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let service = match work.is_http {
        true => {
            let transport = StreamableHttpClientTransport::from_uri(&*work.target);
            ().serve_with_lifecycle(transport, lifecycle).await?
        }
        false => {
            let mut command = tokio::process::Command::new(&work.target);
            command.args(&work.arguments);
            let transport = TokioChildProcess::new(command)?;
            ().serve_with_lifecycle(transport, lifecycle).await?
        }
    };
    call(service.peer(), 0).await;
    stop("ready")?;
    let callers: Vec<_> = (0..work.at_once)
        .map(|caller| {
            let (peer, share) = (service.peer().clone(), work.share(caller));
            tokio::spawn(async move {
                for number in share {
                    call(&peer, number).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await?;
    }
    stop("done")?;
    service.cancel().await?;
    Ok(())
}

async fn call(peer: &Peer<RoleClient>, number: usize) {
    let text = text(number);
    let mut arguments = serde_json::Map::new();
    arguments.insert("text".to_owned(), json!(text));
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    let result = peer.call_tool(call).await.expect("the server answers");
    let said = result.content[0].as_text().map(|said| &*said.text);
    assert_eq!(said, Some(&*text));
}
