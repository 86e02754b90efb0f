//! Every error that a handler may meet becomes one for the model with `?`.

use std::error::Error;

use lmcp_core::{Cx, NoArgs, Tool, ToolResult};
use serde_json::json;

use crate::support::server;

fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
    Err("a box is broken".into())
}

fn any() -> anyhow::Result<()> {
    use anyhow::Context as _;
    "x".parse::<u8>().map(drop).context("the size is wrong")
}

async fn through(_: NoArgs, _: Cx) -> ToolResult<()> {
    Ok(boxed()?)
}

async fn whole(_: NoArgs, _: Cx) -> anyhow::Result<()> {
    any()
}

async fn words(_: NoArgs, _: Cx) -> ToolResult<String> {
    let first: Option<String> = None;
    Ok(first.ok_or("there is no first word")?)
}

async fn fine(_: NoArgs, _: Cx) -> ToolResult<()> {
    Ok(())
}

#[test]
fn the_error_of_main_is_printed_in_words_with_its_causes() {
    let cause = std::io::Error::other("address already in use");
    let error = lmcp_core::Error::io("cannot listen on 127.0.0.1:1", cause);
    let words = "cannot listen on 127.0.0.1:1: address already in use";
    assert_eq!(format!("{error:?}"), words);
    let error = lmcp_core::Error::config("two tools are called `a`");
    assert_eq!(format!("{error:?}"), "two tools are called `a`");
    let error = lmcp_core::client::Error::from(lmcp_wire::RpcError::invalid_params("no `a`"));
    assert_eq!(format!("{error:?}"), "no `a` (-32602)");
}

#[tokio::test]
async fn boxes_anyhow_and_plain_words_reach_the_model_with_their_causes() {
    let client = server()
        .tool(Tool::new("through", through).read_only())
        .tool(Tool::new("whole", whole).read_only())
        .tool(Tool::new("words", words).read_only())
        .tool(Tool::new("fine", fine).read_only())
        .start()
        .unwrap()
        .client();
    for (tool, is_error, text) in [
        ("through", true, "a box is broken"),
        (
            "whole",
            true,
            "the size is wrong: invalid digit found in string",
        ),
        ("words", true, "there is no first word"),
        ("fine", false, "done"),
    ] {
        let result = client.call_tool(tool, json!({})).await.unwrap();
        assert_eq!(result.is_error, is_error, "{tool}");
        assert_eq!(result.content[0].as_text(), Some(text));
    }
}
