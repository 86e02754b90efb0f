//! Calls of `echo` with `lmcp::Client`.

#[path = "../../calls.rs"]
mod calls;

use calls::{Result, Work, stop, text};
use lmcp::{
    Client,
    upstream::{command, url},
};
use serde_json::json;

fn main() -> Result {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run(Work::read()?))
}

async fn run(work: Work) -> Result {
    let client = match work.is_http {
        true => Client::connect(url(&work.target)).await?,
        false => Client::connect(command(&work.target).args(&work.arguments)).await?,
    };
    call(&client, 0).await;
    stop("ready")?;
    let callers: Vec<_> = (0..work.at_once)
        .map(|caller| {
            let (client, share) = (client.clone(), work.share(caller));
            tokio::spawn(async move {
                for number in share {
                    call(&client, number).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await?;
    }
    stop("done")
}

async fn call(client: &Client, number: usize) {
    let text = text(number);
    let result = client.call_tool("echo", json!({ "text": text })).await;
    let result = result.expect("the server answers");
    assert_eq!(result.content[0].as_text(), Some(&*text));
}
