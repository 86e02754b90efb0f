//! Tools that answer, fail, or speak while they work.

use std::{num::ParseIntError, time::Duration};

use lmcp::{
    Cx, Json, NoArgs, RpcError, Server, Tool, ToolError, ToolResult, wire, wire::LoggingLevel,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) fn add(server: Server) -> Server {
    let late = Tool::new("late", late)
        .about("Takes longer than it may.")
        .read_only()
        .deadline(Duration::ZERO);
    let mirror = Tool::new("mirror", mirror)
        .about("Return the arguments, which are mirrored into headers.")
        .read_only()
        .mirror("region", "Region")
        .mirror("count", "Count")
        .mirror("dry", "Dry-Run");
    server
        .tool(
            Tool::new("echo", echo)
                .about("Return the text.")
                .read_only(),
        )
        .tool(
            Tool::new("add", add_up)
                .about("Add two integers.")
                .read_only(),
        )
        .tool(Tool::new("draw", draw).about("Describe a shape.").writes())
        .tool(
            Tool::new("fail", fail)
                .about("Fail, with a hint.")
                .read_only(),
        )
        .tool(
            Tool::new("refuse", refuse)
                .about("Fail with a JSON-RPC error.")
                .read_only(),
        )
        .tool(Tool::new("panics", panics).about("Panic.").read_only())
        .tool(late)
        .tool(mirror)
        .tool(
            Tool::new("steps", steps)
                .about("Report progress.")
                .read_only(),
        )
        .tool(
            Tool::new("logs", logs)
                .about("Log once at every level.")
                .read_only(),
        )
        .tool(
            Tool::new("meta", meta)
                .about("Return the trace context, in text and `_meta`.")
                .read_only(),
        )
        .tool(
            Tool::raw("null", json!({ "type": "object" }), null)
                .about("Return structured null.")
                .read_only(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

async fn echo(args: Echo, _: Cx) -> String {
    args.text
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

async fn add_up(args: Add, _: Cx) -> ToolResult<Json<Sum>> {
    let sum = args.a.checked_add(args.b);
    let sum = sum.ok_or_else(|| ToolError::new("the sum has more than 64 bits"))?;
    Ok(Json(Sum { sum }))
}

#[derive(Deserialize, JsonSchema)]
struct Draw {
    shape: Shape,
    points: Vec<Point>,
    label: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Line,
    Polygon,
}

#[derive(Deserialize, JsonSchema)]
struct Point {
    x: f64,
    y: f64,
}

async fn draw(args: Draw, _: Cx) -> String {
    let sum: f64 = args
        .points
        .iter()
        .fold(0.0, |sum, point| sum + point.x + point.y);
    let label = args.label.as_deref().unwrap_or("no label");
    format!(
        "{:?}, {} points, sum {sum}, {label}",
        args.shape,
        args.points.len()
    )
}

async fn fail(_: NoArgs, _: Cx) -> ToolResult<String> {
    let count: u8 = "x".parse().map_err(|err: ParseIntError| {
        ToolError::new("cannot count")
            .source(err)
            .hint("use digits")
    })?;
    Ok(count.to_string())
}

async fn refuse(_: NoArgs, _: Cx) -> ToolResult<String> {
    let error = RpcError::new(4000, "not today").with_data(json!({ "until": "tomorrow" }));
    Err(ToolError::rpc(error))
}

async fn panics(_: NoArgs, _: Cx) -> String {
    panic!("a secret nobody should see")
}

async fn late(_: NoArgs, _: Cx) -> String {
    std::future::pending().await
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Mirror {
    region: Option<String>,
    count: Option<i64>,
    dry: Option<bool>,
}

async fn mirror(args: Mirror, _: Cx) -> ToolResult<String> {
    Ok(serde_json::to_string(&args)?)
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    done: Vec<usize>,
}

/// Says each value and lets it be sent; those that do not grow are not.
async fn steps(args: Steps, cx: Cx) -> &'static str {
    let progress = cx.progress(args.done.len());
    for done in args.done {
        progress.set(done, format!("step {done}"));
        tokio::task::yield_now().await;
    }
    "done"
}

async fn logs(_: NoArgs, cx: Cx) -> &'static str {
    use LoggingLevel::{Alert, Critical, Debug, Emergency, Error, Info, Notice, Warning};
    for level in [
        Debug, Info, Notice, Warning, Error, Critical, Alert, Emergency,
    ] {
        cx.log(level, format!("{level:?}").to_lowercase());
    }
    "logged"
}

async fn meta(_: NoArgs, cx: Cx) -> ToolResult<String> {
    let trace = cx.meta().remove("traceparent").unwrap_or(Value::Null);
    let client = cx.client_info().map(|client| client.name);
    cx.set_meta("com.example/trace", trace.clone())?;
    Ok(format!("{trace} from {client:?}"))
}

async fn null(_: Value, _: Cx) -> wire::CallToolResult {
    let mut result = wire::CallToolResult::new(vec![wire::Content::text("null")]);
    result.structured_content = Some(Value::Null);
    result
}
