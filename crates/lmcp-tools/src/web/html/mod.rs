//! HTML for readers that are no browsers: as Markdown, as plain text, or without what runs.
//!
//! There is no tree. The tokenizer is the one of the HTML standard; what it finds goes straight into the output, and
//! errors of nesting are met where they hurt. A tree would bring forty crates and be thrown away at once.

mod inline;
mod math;
mod open;
mod reader;
mod strip;
mod table;
mod token;
mod writer;

pub(crate) use reader::readable;
pub(crate) use strip::strip;
pub(crate) use token::{Token, tokens};

/// How the text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Markdown,
    Plain,
}

/// Why a text is not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// There was more than the limit.
    Length,
    /// Time ran out.
    Time,
}

/// Is it time to stop? Asked now and then.
pub(crate) type IsLate<'a> = &'a dyn Fn() -> bool;

/// How many tokens are read between two looks at the clock.
const TOKENS_AT_ONCE: usize = 256;

/// The text of a piece of HTML, in one line.
pub(crate) fn text_of(html: &str) -> String {
    let mut text = String::new();
    for token in tokens(html) {
        match token {
            Token::Text(piece) => text.push_str(&piece),
            Token::Start(_) | Token::End(_) => {}
        }
    }
    one_line(&text)
}

/// Words with one space between them.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
