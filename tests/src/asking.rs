//! Tools that ask the client before they answer.

use lmcp::{
    Cx, NoArgs, Server, Tool, ToolResult,
    ask::{Form, Roots, Sample},
    wire::sampling::{CreateMessageParams, CreateMessageResult},
};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::new("ask", ask)
                .about("Greet whom the user names.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_all", ask_all)
                .about("Ask user, model and client at once.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_first", ask_first)
                .about("Ask the user, or else the model.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_link", ask_link)
                .about("Send the user to a page.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_on", ask_on)
                .about("Ask one question after the other, without end.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_opt", ask_opt)
                .about("Take a refusal for an answer.")
                .read_only(),
        )
        .tool(
            Tool::new("ask_twice", ask_twice)
                .about("Ask twice, and remember in between.")
                .read_only(),
        )
        .tool(
            Tool::new("roots", roots)
                .about("List the client's folders.")
                .read_only(),
        )
        .tool(
            Tool::new("sample", sample)
                .about("Ask the model.")
                .read_only(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// How to greet.
    word: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    /// Whom to greet.
    pub(crate) name: String,
}

async fn ask(args: Greeting, cx: Cx) -> ToolResult<String> {
    let answer: Name = cx.ask("name", "Who is there?").await?;
    Ok(format!("{}, {}", args.word, answer.name))
}

async fn ask_opt(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let answer: Option<Name> = cx.ask_opt("name", "Who is there?").await?;
    Ok(answer.map_or_else(|| "nobody".into(), |answer| answer.name))
}

async fn ask_link(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    cx.ask_link("sign_in", "Please sign in.", "https://example.com/sign-in")
        .await?;
    Ok("signed in, perhaps")
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    /// The colour of the hat.
    colour: Hat,
    /// How large it is.
    size: Option<u8>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Hat {
    Red,
    Green,
}

/// The first run remembers how often it ran; the next ones count on.
async fn ask_twice(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let run = cx.recall::<u32>().unwrap_or(0) + 1;
    cx.remember(&run)?;
    let name: Name = cx.ask("name", "Who is there?").await?;
    let message = format!("What hat does {} wear?", name.name);
    let hat: Colour = cx.ask("hat", message).await?;
    Ok(format!(
        "{} wears {:?}, size {:?}; run {run}",
        name.name, hat.colour, hat.size
    ))
}

async fn ask_all(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let (name, sampled, roots) = cx
        .ask_all((
            Form::<Name>::new("name", "Who is there?"),
            Sample::new("rhyme", CreateMessageParams::ask("Make a rhyme.", 20)),
            Roots::new("folders"),
        ))
        .await?;
    let rhyme = text(&sampled);
    let folders = roots.len();
    Ok(format!("{}, {rhyme}, {folders} folders", name.name))
}

/// Asks whom it can.
async fn ask_first(_: NoArgs, cx: Cx) -> ToolResult<String> {
    match cx.ask::<Name>("name", "Who is there?").await {
        Err(err) if err.is_missing_capability() => sample(NoArgs::default(), cx).await,
        answer => Ok(answer?.name),
    }
}

async fn ask_on(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let mut number = 1;
    loop {
        cx.ask::<Name>(&format!("name{number}"), "Who else?")
            .await?;
        number += 1;
    }
}

async fn sample(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let question = CreateMessageParams::ask("Make a rhyme.", 20);
    cx.sample("rhyme", question)
        .await
        .map(|result| text(&result))
}

async fn roots(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let roots = cx.roots().await?;
    let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    Ok(uris.join(" "))
}

fn text(result: &CreateMessageResult) -> String {
    let blocks = result.content.as_slice().iter();
    blocks.filter_map(|block| block.as_text()).collect()
}
