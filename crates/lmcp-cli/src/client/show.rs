//! Results on stdout: one JSON document for programs, or text for people.

use std::{
    borrow::Cow,
    fs::OpenOptions,
    io::{self, IsTerminal as _, Write as _, stdout},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::ExitCode,
};

use base64::Engine as _;
use lmcp::wire::{hidden::unhidden, prompt::GetPromptResult, resource::ReadResourceResult};
use lmcp::{CallToolResult, Content, ResourceContents};
use serde::Serialize;
use serde_json::json;

use crate::report::Failure;

/// The form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// One JSON document.
    Json,
    /// Text for people.
    Text,
}

impl Output {
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value);
        let text = text.map_err(|err| Failure::new("cannot write the result", err))?;
        let text = escaped(&text);
        print(format!("{text}\n").as_bytes())
    }

    /// Writes JSON in one line, for programs that read several documents.
    pub(super) fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value);
        let text = text.map_err(|err| Failure::new("cannot write the result", err))?;
        print(format!("{text}\n").as_bytes())
    }

    /// Shows text in place of the whole screen.
    pub(super) fn screen(&mut self, text: &str) -> Result<(), Failure> {
        print(format!("\x1b[H\x1b[J{}", visible(text)).as_bytes())
    }

    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        let text = if stdout().is_terminal() {
            visible(text)
        } else {
            text.to_owned()
        };
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        print(format!("{text}{end}").as_bytes())
    }

    pub(super) fn call(&mut self, result: &CallToolResult) -> Result<(), Failure> {
        if *self == Self::Json {
            return self.json(result);
        }
        for block in &result.content {
            self.block(block)?;
        }
        match &result.structured_content {
            Some(value) if result.content.is_empty() => self.json(value),
            _ => Ok(()),
        }
    }

    pub(super) fn prompt(&mut self, result: &GetPromptResult) -> Result<(), Failure> {
        if *self == Self::Json {
            return self.json(result);
        }
        for message in &result.messages {
            let role = match message.role {
                lmcp::wire::Role::Assistant => "assistant",
                _ => "user",
            };
            self.line(&format!("[{role}]"))?;
            self.block(&message.content)?;
        }
        Ok(())
    }

    pub(super) fn resource(&mut self, result: &ReadResourceResult) -> Result<(), Failure> {
        if *self == Self::Json {
            return self.json(result);
        }
        result
            .contents
            .iter()
            .try_for_each(|part| self.contents(part))
    }

    fn block(&mut self, block: &Content) -> Result<(), Failure> {
        match block {
            Content::Text(text) => self.line(&text.text),
            Content::Image(media) | Content::Audio(media) => {
                let path = save(&media.data, &media.mime_type)?;
                self.line(&format!(
                    "[{}, saved as {}]",
                    unhidden(&media.mime_type),
                    path.display()
                ))
            }
            Content::Resource(embedded) => self.contents(&embedded.resource),
            Content::ResourceLink(link) => self.line(&linked(&link.name, &link.uri)),
            other => self.json(other),
        }
    }

    fn contents(&mut self, part: &ResourceContents) -> Result<(), Failure> {
        match (&part.text, &part.blob) {
            (Some(text), _) => self.line(text),
            (None, Some(blob)) if !stdout().is_terminal() => print(&decoded(blob)?),
            (None, Some(blob)) => {
                let kind = part
                    .mime_type
                    .as_deref()
                    .unwrap_or("application/octet-stream");
                let path = save(blob, kind)?;
                self.line(&format!(
                    "[{}, saved as {}]",
                    unhidden(kind),
                    path.display()
                ))
            }
            (None, None) => Ok(()),
        }
    }
}

/// Returns a link as one line.
fn linked(name: &str, uri: &str) -> String {
    format!("[{}: {}]", unhidden(name), unhidden(uri))
}

/// Reports why a command failed. Programs read it on stdout, people on stderr. The words may contain names and messages of
/// the server, so control characters in them are made visible.
pub(super) fn failure(mut output: Output, failure: Failure) -> Result<ExitCode, Failure> {
    let failure = failure.reworded(visible);
    if output == Output::Json && failure.is_answer() {
        output.json(&json!({ "error": failure.to_string() }))?;
    }
    Err(failure)
}

/// Replaces characters that would move the cursor, change a colour or set the window title.
pub(crate) fn visible(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.chars().map(visible_char).collect()
}

fn visible_char(char: char) -> char {
    match char {
        '\n' | '\t' => char,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ if char.is_control() => '\u{fffd}',
        _ => char,
    }
}

/// Escapes characters in JSON that a terminal would not show as text. Such characters only occur in strings.
fn escaped(json: &str) -> Cow<'_, str> {
    let is_hidden = |char: char| char != '\n' && visible_char(char) != char;
    if !json.contains(is_hidden) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match is_hidden(char) {
            true => text.extend([format!("\\u{:04x}", u32::from(char))]),
            false => text.push(char),
        }
    }
    text.into()
}

fn decoded(base64: &str) -> Result<Vec<u8>, Failure> {
    let engine = base64::engine::general_purpose::STANDARD;
    let bytes = engine.decode(base64);
    bytes.map_err(|err| Failure::new("the server sent something that is not Base64", err))
}

/// Writes the bytes to a new file for this user alone.
fn save(base64: &str, mime_type: &str) -> Result<PathBuf, Failure> {
    let bytes = decoded(base64)?;
    let kind = mime_type.split('/').nth(1).unwrap_or_default();
    let kind: String = kind
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .take(LONGEST_ENDING)
        .collect();
    let kind = if kind.is_empty() { "bin" } else { &kind };
    let folder = std::env::temp_dir();
    let failed =
        |err: io::Error| Failure::new(&format!("cannot write to {}", folder.display()), err);
    for number in 1_u32.. {
        let path = folder.join(format!("lmcp-{}-{number}.{kind}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match file {
            Ok(mut file) => return file.write_all(&bytes).map(|()| path).map_err(failed),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(failed(err)),
        }
    }
    Err(failed(io::ErrorKind::AlreadyExists.into()))
}

/// The longest ending of a file name that is taken from a media type. A server may send a type of any length.
const LONGEST_ENDING: usize = 16;

fn print(bytes: &[u8]) -> Result<(), Failure> {
    super::progress::clear();
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // The reader closed its end, as `head` does, and does not want the rest.
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|err| Failure::new("cannot write to stdout", err)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_in_escapes_what_would_drive_the_terminal() {
        let json = "{\n  \"a\": \"\u{9b}2J\u{7f}\u{202e}ü\"\n}";
        assert_eq!(escaped(json), "{\n  \"a\": \"\\u009b2J\\u007f\\u202eü\"\n}");
    }

    #[test]
    fn a_link_stays_on_its_line() {
        assert_eq!(linked("a\nb", "x://\r1"), r"[a\u{a}b: x://\u{d}1]");
    }

    #[test]
    fn a_type_of_any_length_becomes_the_end_of_a_file_name() {
        let path = save("YQ==", &format!("image/{}", "x".repeat(300))).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_a_server_says_cannot_drive_the_terminal() {
        assert_eq!(
            visible("a\r\n\tb\x1b[2Jc\u{202e}d\u{9b}"),
            "a\n\tb\u{fffd}[2Jc\u{fffd}d\u{fffd}"
        );
    }
}
