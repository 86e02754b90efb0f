//! The text of one block, with its emphasis, code and links.

use super::Style;

/// Text that is being collected. Several blanks become one space, as browsers show them.
#[derive(Debug)]
pub(super) struct Inline {
    style: Style,
    text: String,
    marks: Vec<Mark>,
}

/// A mark that was opened and is not yet closed.
#[derive(Debug)]
struct Mark {
    kind: Kind,
    /// The position at which its content begins.
    at: usize,
    /// Whether the mark is within another of its kind, and so has no effect.
    again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Strong,
    Emphasis,
    Code,
    /// Above the line, like a power.
    Raised,
    /// Below the line, like an index.
    Lowered,
    /// A link, with its target.
    Link(String),
}

impl Inline {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            text: String::new(),
            marks: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        for character in text.chars() {
            if character.is_whitespace() {
                if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
                    self.text.push(' ');
                }
            } else if !is_invisible(character) {
                self.text.push(character);
            }
        }
    }

    /// Adds text as it is, with its blanks.
    pub(super) fn push_raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn line_break(&mut self) {
        self.trim();
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    pub(super) fn open(&mut self, kind: Kind) {
        if self.marks.len() < MOST_MARKS {
            let again = self.marks.iter().any(|mark| mark.kind.is_like(&kind));
            let at = self.text.len();
            self.marks.push(Mark { kind, at, again });
        }
    }

    /// Closes the last mark of this kind, and those that were opened in it and left open.
    pub(super) fn close(&mut self, kind: &Kind) {
        let Some(at) = self.marks.iter().rposition(|mark| mark.kind.is_like(kind)) else {
            return;
        };
        while self.marks.len() > at {
            if let Some(mark) = self.marks.pop() {
                self.wrap(&mark);
            }
        }
    }

    /// Closes all marks, and takes the whole text.
    pub(super) fn take(&mut self) -> String {
        while let Some(mark) = self.marks.pop() {
            self.wrap(&mark);
        }
        let text = std::mem::take(&mut self.text);
        match text.trim() {
            trimmed if trimmed.len() == text.len() => text,
            trimmed => trimmed.to_owned(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Puts the signs around the content of a mark, without the blanks at its ends.
    fn wrap(&mut self, mark: &Mark) {
        let Some(content) = self.text.get(mark.at..) else {
            return;
        };
        let start = mark.at + (content.len() - content.trim_start().len());
        let end = mark.at + content.trim_end().len();
        if start >= end {
            return;
        }
        let content = &self.text[start..end];
        if let Some(sign) = mark.kind.sign() {
            let (before, after) = match is_one_word(content) {
                // A note such as `[1]` needs no sign.
                _ if content.starts_with('[') => return,
                true => (sign.into(), ""),
                false => (format!("{sign}("), ")"),
            };
            self.text.insert_str(end, after);
            self.text.insert_str(start, &before);
            return;
        }
        if self.style == Style::Plain || mark.again {
            return;
        }
        let (before, after) = match &mark.kind {
            Kind::Strong => ("**".into(), "**".into()),
            Kind::Emphasis => ("*".into(), "*".into()),
            Kind::Code => {
                let ticks = fence(content, 1);
                (ticks.clone(), ticks)
            }
            Kind::Link(to) => ("[".into(), format!("]({to})")),
            Kind::Raised | Kind::Lowered => return,
        };
        self.text.insert_str(end, &after);
        self.text.insert_str(start, &before);
    }

    fn trim(&mut self) {
        let length = self.text.trim_end_matches(' ').len();
        self.text.truncate(length);
    }
}

impl Kind {
    /// Returns the sign that tells a power or an index from one more digit, even in plain text.
    fn sign(&self) -> Option<&'static str> {
        match self {
            Self::Raised => Some("^"),
            Self::Lowered => Some("_"),
            Self::Strong | Self::Emphasis | Self::Code | Self::Link(_) => None,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Returns whether the end of the text is clear without brackets.
fn is_one_word(text: &str) -> bool {
    let text = text.trim_start_matches(['+', '-', '−']);
    text.chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '.' | ',' | '+' | '-' | '−' | '*' | '†' | '′'))
}

/// Returns more backticks than the code has in a row.
pub(super) fn fence(code: &str, least: usize) -> String {
    let (mut run, mut longest) = (0, 0);
    for byte in code.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(least.max(if longest == 0 { 0 } else { longest + 1 }))
}

/// Returns whether a person does not see a character that a model reads: soft hyphens, zero widths,
/// tags.
pub(super) fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}'
            | '\u{e}'..='\u{1f}'
            | '\u{7f}'
            | '\u{ad}'
            | '\u{200b}'
            | '\u{2060}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// How deep marks may be nested. Closing one moves the text after it.
const MOST_MARKS: usize = 16;
