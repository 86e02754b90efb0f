//! A server and its tests, which need no transport: `cargo test -p lmcp --features client --example testing`.

use lmcp::{Cx, NoArgs, Server, Tool, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Divide {
    a: f64,
    b: f64,
}

async fn divide(args: Divide, _: Cx) -> ToolResult<String> {
    if args.b == 0.0 {
        return Err(ToolError::new("cannot divide by 0").hint("choose another `b`"));
    }
    Ok((args.a / args.b).to_string())
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    /// Really erase everything?
    yes: bool,
}

async fn erase(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    let sure: Sure = cx.ask("sure", "This cannot be undone.").await?;
    Ok(if sure.yes { "erased" } else { "kept" })
}

async fn index(_: NoArgs, cx: Cx) -> &'static str {
    let progress = cx.progress(2);
    progress.step("read");
    progress.step("sorted");
    "2 files"
}

/// The server is made in one place, for `main` and for the tests.
fn server() -> Server {
    Server::new("tested", "0.1.0")
        .tool(
            Tool::new("divide", divide)
                .about("Divide a by b.")
                .read_only(),
        )
        .tool(
            Tool::new("index", index)
                .about("Count the files.")
                .read_only(),
        )
        .tool(
            Tool::new("erase", erase)
                .about("Erase everything.")
                .destructive()
                .only_for(["admin"]),
        )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    server().serve(lmcp::stdio()).await
}

#[cfg(test)]
mod tests {
    use lmcp::{
        Caller, CallerTransport, Client, Principal, ProtocolVersion,
        client::Event,
        upstream,
        wire::{elicit::ElicitResult, input::InputRequest},
    };
    use serde_json::{Value, json};

    use super::*;

    /// A client that calls as an admin, and answers every question with yes.
    fn admin() -> Client {
        let ann = Principal::new("ann").role("admin");
        let client = server().start().unwrap().client();
        client
            .caller(Caller::new(CallerTransport::Memory).authenticated(ann))
            .answering(say_yes)
    }

    fn say_yes(_: &str, question: &InputRequest) -> Value {
        match question {
            InputRequest::Elicit(_) => ElicitResult::accept([("yes".into(), true.into())]).into(),
            _ => ElicitResult::decline().into(),
        }
    }

    #[tokio::test]
    async fn a_tool_answers() {
        let client = server().start().unwrap().client();
        let result = client.call_tool("divide", json!({ "a": 1, "b": 2 })).await;
        assert_eq!(result.unwrap().content[0].as_text(), Some("0.5"));
    }

    #[tokio::test]
    async fn a_tool_that_fails_says_what_to_do() {
        let client = server().start().unwrap().client();
        let result = client.call_tool("divide", json!({ "a": 1, "b": 0 })).await;
        let result = result.unwrap();
        assert!(result.is_error);
        let words = "cannot divide by 0\nhint: choose another `b`";
        assert_eq!(result.content[0].as_text(), Some(words));
    }

    #[tokio::test]
    async fn a_question_is_answered() {
        let result = admin().call_tool("erase", json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("erased"));
    }

    #[tokio::test]
    async fn only_admins_see_the_dangerous_tool() {
        let anybody = server().start().unwrap().client();
        assert_eq!(anybody.list_tools().await.unwrap().len(), 2);
        assert_eq!(admin().list_tools().await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn progress_is_told() {
        let mut calling = admin().start_tool("index", json!({}));
        let mut done = 0.0;
        while let Some(event) = calling.next().await {
            match event {
                Event::Progress(progress) => done = progress.progress,
                // An error of the tool itself comes as a result, too, so the test looks at the words.
                Event::Done(result) => assert_eq!(result.unwrap()["content"][0]["text"], "2 files"),
                _ => {}
            }
        }
        assert_eq!(done, 2.0);
    }

    #[tokio::test]
    async fn clients_of_every_revision_are_served() {
        let server = server().start().unwrap();
        for version in ProtocolVersion::ALL {
            let target = upstream::in_process(server.clone());
            let client = Client::builder().version(version).connect(target).await;
            let client = client.unwrap();
            let result = client.call_tool("divide", json!({ "a": 1, "b": 4 })).await;
            assert_eq!(result.unwrap().content[0].as_text(), Some("0.25"));
        }
    }
}
