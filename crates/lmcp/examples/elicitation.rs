//! Asking the user from the middle of a tool. The handler is one straight line, whatever the client's protocol.

use lmcp::{
    Cx, Server, Tool, ToolResult,
    ask::{Form, Sample},
    wire::sampling::CreateMessageParams,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Erase {
    /// The note to erase.
    note: String,
}

#[derive(Deserialize, JsonSchema)]
struct Tone {
    /// How it should sound.
    tone: String,
}

/// Ask before you act: the lines above an unanswered question run again with the answer.
async fn erase(args: Erase, cx: Cx) -> ToolResult<String> {
    let question = format!("Erase the note `{}`?", args.note);
    if !cx.confirm("sure", question).await? {
        return Ok("kept".into());
    }
    Ok(format!("erased `{}`", args.note))
}

/// Several questions at once: one to the user, one to the model.
async fn farewell(args: Erase, cx: Cx) -> ToolResult<String> {
    let question =
        CreateMessageParams::ask(format!("Say goodbye to the note `{}`.", args.note), 100);
    let (tone, words) = cx
        .ask_all((
            Form::<Tone>::new("tone", "In which tone?"),
            Sample::new("words", question),
        ))
        .await?;
    let words = words
        .content
        .as_slice()
        .iter()
        .find_map(|block| block.as_text())
        .unwrap_or("goodbye");
    Ok(format!("({}) {words}", tone.tone))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lmcp::Error> {
    Server::new("elicitation", "0.1.0")
        .tool(
            Tool::new("erase", erase)
                .about("Erase a note, after asking the user.")
                .destructive(),
        )
        .tool(
            Tool::new("farewell", farewell)
                .about("Say goodbye to a note in a tone the user chooses.")
                .read_only(),
        )
        .serve(lmcp::stdio())
        .await
}
