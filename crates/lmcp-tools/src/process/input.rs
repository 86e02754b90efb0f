//! `job_input`: types into a job.

use std::{borrow::Cow, io, sync::Arc};

use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    exit::signal_number,
    jobs::reach,
    link::Link,
    output::{self, Output},
    pattern::Pattern,
    protocol::{Ask, Size},
    search::Watch,
    store::{Job, State, clip},
    wait::{self, MOST_WAIT, WAIT, Waited},
};
use crate::{Host, answer::Answer, schemas};

/// The most bytes of a long text that are sent at once.
const PIECE: usize = 64 * 1024;
/// A piece takes at most this many times its size: the piece itself, and its line of JSON, in which a byte may become
/// six and which grows by doubling.
const COPIES: usize = 13;

pub(crate) fn tool() -> Tool<Host> {
    define(job_input)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Sent>>, WithState>,
) -> Tool<S> {
    schemas::tool("job_input", handler)
        .title("Type into a job")
        .about(
            "Send text, keys or the end of input to a running job. Text is sent as it is: end it with a newline to enter a \
             line. With wait_for get what the job wrote since.",
        )
        .alias("id", super::ID_NAMES)
        .alias("text", ["input", "chars", "data", "content"])
        .ignore(["description", "explanation"])
        .unlisted(["rows", "cols"])
        .also_called(["send_input", "write_stdin", "interact_with_process", "type"])
        .destructive()
        .open_world()
        .deadline(MOST_WAIT + WAIT)
}

/// Arguments of `job_input`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    pub(crate) id: String,
    /// Sent as it is.
    pub(crate) text: Option<String>,
    /// Sent after it: enter, tab, up, f1, ctrl-c and the like.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    /// Then end its input.
    #[serde(default)]
    pub(crate) eof: bool,
    /// The terminal's new rows; with `cols`.
    pub(crate) rows: Option<u16>,
    /// The terminal's new columns; with `rows`.
    pub(crate) cols: Option<u16>,
    /// Then wait for output that matches.
    #[schemars(length(min = 1))]
    pub(crate) wait_for: Option<String>,
    /// Seconds to wait at most. Default: 30.
    pub(crate) wait: Option<f64>,
}

/// What `job_input` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sent {
    /// The job.
    id: String,
    /// So much was sent.
    bytes: usize,
    /// Where the reaction begins: the job's output in bytes when this was sent.
    offset: u64,
    /// What the job wrote since, if it was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    reaction: Option<Output>,
}

async fn job_input(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Sent>> {
    let commands = host.commands()?;
    let wait = wait::time(args.wait)?;
    let job = commands.store.find(&args.id, &cx.caller().owner())?;
    let wait_for = Pattern::read(args.wait_for.clone(), &cx).await?;
    if job.state != State::Running {
        return Err(is_over(&job.id));
    }
    let bytes = send_all(&job, &args, &cx).await?;
    let offset = job.output_bytes;
    let Some(pattern) = wait_for else {
        return Ok(told(args.id, (bytes, offset), None));
    };
    let watch = Watch::new(pattern, offset);
    let waited = Waited::until(commands, &job, Some(watch), wait, &cx).await?;
    let reaction = output::since(&host, job, offset, waited, &cx).await?;
    Ok(told(args.id, (bytes, offset), Some(reaction)))
}

/// Builds the answer: how many bytes were sent, how much the job had written before, and its reaction.
pub(crate) fn told(
    id: String,
    (bytes, offset): (usize, u64),
    reaction: Option<(Output, String)>,
) -> Answer<Sent> {
    let said = format!("sent {bytes} bytes to job {id}");
    let (reaction, text) = match reaction {
        Some((reaction, text)) => (Some(reaction), format!("{said}; {text}")),
        None => {
            let text = format!("{said}; job_output with offset={offset} reads the reaction");
            (None, text)
        }
    };
    let sent = Sent {
        id,
        bytes,
        offset,
        reaction,
    };
    Answer::new(sent, text)
}

pub(super) fn is_over(id: &str) -> ToolError {
    ToolError::new(format!("job `{id}` has ended"))
        .hint("job_output tells how, job_stop with restart starts it again")
}

/// Resizes the terminal, and sends the input. Returns how many bytes of text were sent.
async fn send_all(job: &Job, args: &Args, cx: &Cx) -> ToolResult<usize> {
    let longest = args.text.as_deref().map_or(0, str::len).min(PIECE);
    let _pieces = cx.reserve(longest * COPIES).await?;
    let mut link = reach(job).await?;
    let refused = |err| ToolError::new(format!("job `{}` does not take that", args.id)).source(err);
    match (args.rows, args.cols) {
        (Some(rows), Some(cols)) => {
            let size = Size { rows, cols };
            link.ask(&Ask::Resize(size)).await.map_err(refused)?;
            job.note_size(size);
        }
        (None, None) => {}
        _ => return Err(ToolError::new("give `rows` and `cols` together")),
    }
    let mut bytes = 0;
    for part in args.parts(job.about.tty)? {
        let ask = match part {
            Part::Bytes(text) if text.is_empty() => continue,
            Part::Bytes(text) => {
                bytes += send(&mut link, &text).await.map_err(refused)?;
                continue;
            }
            Part::Signal(number) => Ask::Signal { number },
            Part::Eof => Ask::Input {
                text: String::new(),
                eof: true,
            },
        };
        link.ask(&ask).await.map_err(refused)?;
    }
    Ok(bytes)
}

/// Sends a text in pieces, so that a long text is not in memory twice.
async fn send(link: &mut Link, text: &str) -> io::Result<usize> {
    let mut sent = 0;
    while let Some(rest) = text.get(sent..).filter(|rest| !rest.is_empty()) {
        let piece = rest.get(..rest.floor_char_boundary(PIECE)).unwrap_or(rest);
        let ask = Ask::Input {
            text: piece.to_owned(),
            eof: false,
        };
        let answer = link.ask(&ask).await;
        answer.map_err(|err| match sent {
            0 => err,
            _ => io::Error::other(format!("{err}; the first {sent} bytes were sent")),
        })?;
        sent += piece.len();
    }
    Ok(sent)
}

impl Args {
    /// Returns the parts to send, in order, to a job with a terminal or without.
    pub(crate) fn parts(&self, terminal: bool) -> ToolResult<Vec<Part<'_>>> {
        let mut parts = vec![Part::Bytes(self.text.as_deref().unwrap_or_default().into())];
        for key in &self.keys {
            parts.push(part(key, terminal)?);
        }
        if self.eof {
            parts.push(Part::Eof);
        }
        Ok(parts)
    }
}

/// A part of the input.
pub(crate) enum Part<'a> {
    Bytes(Cow<'a, str>),
    Signal(i32),
    Eof,
}

/// Returns what a key sends on a terminal. Without a terminal, the keys that mean something still do.
fn part(key: &str, terminal: bool) -> ToolResult<Part<'static>> {
    let name = key
        .to_ascii_lowercase()
        .replace('_', "-")
        .replace("c-", "ctrl-");
    if !terminal {
        match name.as_str() {
            "ctrl-c" => return Ok(Part::Signal(signal_number("INT").unwrap_or(2))),
            "ctrl-d" => return Ok(Part::Eof),
            "enter" => return Ok(Part::Bytes("\n".into())),
            _ => {}
        }
    }
    if let Some(letter) = name.strip_prefix("ctrl-").and_then(one_letter) {
        let code = char::from(letter.to_ascii_uppercase() as u8 & 0x1f);
        return Ok(Part::Bytes(code.to_string().into()));
    }
    let bytes = match name.as_str() {
        "enter" | "return" => "\r",
        "tab" => "\t",
        "escape" | "esc" => "\x1b",
        "space" => " ",
        "backspace" => "\x7f",
        "delete" => "\x1b[3~",
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        "home" => "\x1b[H",
        "end" => "\x1b[F",
        "page-up" => "\x1b[5~",
        "page-down" => "\x1b[6~",
        "f1" => "\x1bOP",
        "f2" => "\x1bOQ",
        "f3" => "\x1bOR",
        "f4" => "\x1bOS",
        "f5" => "\x1b[15~",
        "f6" => "\x1b[17~",
        "f7" => "\x1b[18~",
        "f8" => "\x1b[19~",
        "f9" => "\x1b[20~",
        "f10" => "\x1b[21~",
        "f11" => "\x1b[23~",
        "f12" => "\x1b[24~",
        _ => {
            return Err(ToolError::new(format!("`{}` is not a key", clip(key)))
                .hint("enter, up, ctrl-c, f1, say"));
        }
    };
    Ok(Part::Bytes(bytes.into()))
}

fn one_letter(text: &str) -> Option<char> {
    let mut letters = text.chars();
    let letter = letters
        .next()
        .filter(|letter| matches!(letter, 'a'..='z' | '[' | '\\' | ']'))?;
    letters.next().is_none().then_some(letter)
}
