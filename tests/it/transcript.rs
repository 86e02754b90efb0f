//! The format of a transcript: lines of text to steps. What the placeholders in a message mean is in `expand.rs` (what
//! is sent) and `compare.rs` (what is expected).
//!
//! ```text
//! title: what the file shows, in one sentence
//! fixed: a bug that this file would have shown, one line each
//! only: memory stdio unix http      where it is played; everywhere if the line is missing
//! era: legacy                       the client opens with a handshake; see below
//! # A comment.
//! > {"id":1,"method":"m"}           the client sends this; `jsonrpc` is added
//! >until {"id":1,"method":"m"}      the same, again and again until the answer is the expected one
//! >raw {"id":1                      the client sends exactly this text
//! >hex ff 0a                        the client sends exactly these bytes
//! < {"id":1,"result":{}}            the server sends this; `jsonrpc` and `_meta` with `serverInfo` are added
//! < (nothing)                       the server sends nothing more for all that was sent
//!   a line that begins with a space goes on with the one above
//! ```
//!
//! On HTTP a client derives the headers from the message, and cancels by closing the connection. Lines that begin with
//! `@` are for HTTP alone. Before a `>` line, and for it only:
//!
//! ```text
//! @header Name: value               this header instead of the derived one
//! @header +Name: value              this header as well
//! @header -Name                     not this header
//! @verb GET                         instead of POST
//! @path /other                      instead of /mcp
//! ```
//!
//! and after it, what the answer must have besides its body:
//!
//! ```text
//! @status 415                       instead of the status that follows from the body
//! @got Allow: POST                  this header
//! ```
//!
//! In a file of `era: legacy` what has no `$meta` is of an older revision. Its results are compared as they stand; those
//! with a `resultType` are modern and have `_meta` added as ever. It answers a server's question by captured id:
//!
//! ```text
//! < {"id":"$capture:asked","method":"roots/list"}
//! > {"id":"${asked}","result":{"roots":[]}}
//! ```
//!
//! On HTTP such a client repeats the `Mcp-Session-Id` of the last handshake that was answered, and from 2025-06-18 on the
//! version agreed on. Headers may use that id as `${session}`, those of all handshakes as `${session1}` and so on. It
//! cancels with a notification. Two more lines are steps of their own:
//!
//! ```text
//! @listen                           opens the GET stream, and goes on once the server has taken it
//! @restart                          another server takes the place of this one
//! ```
//!
//! What comes there is expected like anything else; where the other transports have one line, it may come earlier or
//! later than the answers of requests.

use std::ops::Range;

/// One file.
pub(crate) struct Transcript {
    pub(crate) only: Vec<Transport>,
    pub(crate) era: Era,
    pub(crate) steps: Vec<Step>,
}

/// How a client opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Era {
    /// Every request stands alone.
    #[default]
    Modern,
    /// With a handshake. Requests that stand alone may come between.
    Legacy,
}

/// Something that is sent or expected, and the lines that say so, counted from zero.
pub(crate) struct Step {
    pub(crate) lines: Range<usize>,
    pub(crate) act: Act,
}

pub(crate) enum Act {
    Send(Send),
    /// Opens the GET stream, on HTTP.
    Listen(HttpPart),
    /// Replaces the server, on HTTP.
    Restart,
    /// The text of a message; empty where `UPDATE=1` is to write one.
    Expect(String),
    ExpectNothing,
}

#[derive(Default)]
pub(crate) struct Send {
    pub(crate) form: Form,
    pub(crate) text: String,
    pub(crate) http: HttpPart,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Message,
    Until,
    Raw,
    Hex,
}

/// What only HTTP looks at.
#[derive(Clone, Default)]
pub(crate) struct HttpPart {
    pub(crate) headers: Vec<HeaderEdit>,
    pub(crate) verb: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) got: Vec<(String, String)>,
}

impl HttpPart {
    /// Replaces the values of headers.
    pub(crate) fn fill(&mut self, fill: impl Fn(&str) -> String) {
        for edit in &mut self.headers {
            match edit {
                HeaderEdit::Set(_, value) | HeaderEdit::Add(_, value) => *value = fill(value),
                HeaderEdit::Remove(_) => {}
            }
        }
        for (_, value) in &mut self.got {
            *value = fill(value);
        }
    }
}

#[derive(Clone)]
pub(crate) enum HeaderEdit {
    Set(String, String),
    Add(String, String),
    Remove(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Memory,
    Stdio,
    Unix,
    Http,
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Stdio, Self::Unix, Self::Http];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Stdio => "stdio",
            Self::Unix => "unix",
            Self::Http => "http",
        }
    }

    fn parse(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|transport| transport.name() == name)
            .ok_or_else(|| format!("`{name}` is no transport"))
    }
}

impl Transcript {
    /// Reads a file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reading = Reading::default();
        for (lines, entry) in entries(text) {
            let line = lines.start + 1;
            reading
                .take(lines, &entry)
                .map_err(|err| format!("line {line}: {err}"))?;
        }
        if !reading.titled {
            return Err("line 1: the file has no `title:`".into());
        }
        if reading.only.is_empty() {
            reading.only = Transport::ALL.into();
        }
        Ok(Self {
            only: reading.only,
            era: reading.era,
            steps: reading.steps,
        })
    }
}

/// Lines with those that go on with them.
fn entries(text: &str) -> Vec<(Range<usize>, String)> {
    let mut entries: Vec<(Range<usize>, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match entries.last_mut() {
            Some((lines, entry)) if line.starts_with(' ') => {
                lines.end = index + 1;
                entry.push_str(line.trim());
            }
            _ => entries.push((index..index + 1, line.trim_end().to_owned())),
        }
    }
    entries
}

#[derive(Default)]
struct Reading {
    titled: bool,
    only: Vec<Transport>,
    era: Era,
    steps: Vec<Step>,
    /// For the next `>` line.
    http: HttpPart,
}

impl Reading {
    fn take(&mut self, lines: Range<usize>, entry: &str) -> Result<(), String> {
        let (word, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        match word {
            "" | "fixed:" => {}
            _ if word.starts_with('#') => {}
            "title:" => self.titled = true,
            "only:" => {
                self.only = rest
                    .split_whitespace()
                    .map(Transport::parse)
                    .collect::<Result<_, _>>()?;
            }
            "era:" if rest == "legacy" => self.era = Era::Legacy,
            ">" => self.send(lines, Form::Message, rest),
            ">until" => self.send(lines, Form::Until, rest),
            ">raw" => self.send(lines, Form::Raw, rest),
            ">hex" => self.send(lines, Form::Hex, rest),
            "<" => {
                let act = match rest {
                    "(nothing)" => Act::ExpectNothing,
                    message => Act::Expect(message.into()),
                };
                self.steps.push(Step { lines, act });
            }
            "@header" => self.http.headers.push(header_edit(rest)?),
            "@verb" => self.http.verb = Some(rest.into()),
            "@path" => self.http.path = Some(rest.into()),
            "@listen" => {
                let act = Act::Listen(std::mem::take(&mut self.http));
                self.steps.push(Step { lines, act });
            }
            "@restart" => {
                let act = Act::Restart;
                self.steps.push(Step { lines, act });
            }
            "@status" => {
                let status = rest.parse().map_err(|_| "a status is a number")?;
                self.last_sent()?.status = Some(status);
            }
            "@got" => {
                let header = header(rest)?;
                self.last_sent()?.got.push(header);
            }
            _ => return Err(format!("`{word}` begins no line")),
        }
        Ok(())
    }

    fn send(&mut self, lines: Range<usize>, form: Form, text: &str) {
        let http = std::mem::take(&mut self.http);
        let text = text.into();
        let act = Act::Send(Send { form, text, http });
        self.steps.push(Step { lines, act });
    }

    fn last_sent(&mut self) -> Result<&mut HttpPart, String> {
        let mut steps = self.steps.iter_mut().rev();
        let sent = steps.find_map(|step| match &mut step.act {
            Act::Send(send) => Some(&mut send.http),
            Act::Listen(_) | Act::Restart | Act::Expect(_) | Act::ExpectNothing => None,
        });
        sent.ok_or_else(|| "nothing was sent yet".into())
    }
}

fn header_edit(text: &str) -> Result<HeaderEdit, String> {
    if let Some(name) = text.strip_prefix('-') {
        return Ok(HeaderEdit::Remove(name.into()));
    }
    if let Some(text) = text.strip_prefix('+') {
        let (name, value) = header(text)?;
        return Ok(HeaderEdit::Add(name, value));
    }
    let (name, value) = header(text)?;
    Ok(HeaderEdit::Set(name, value))
}

/// A name and a value. White space around the value is part of it, apart from one space after the colon.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is `Name: value`")?;
    let value = value.strip_prefix(' ').unwrap_or(value);
    Ok((name.into(), value.into()))
}
