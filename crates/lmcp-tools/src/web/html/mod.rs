//! HTML for readers that are no browsers: as Markdown, as plain text, or without scripts.
//!
//! There is no tree. The tokenizer is the one of the HTML standard. Its tokens go straight into the output, and
//! errors of nesting are handled where they matter. A tree would need forty more crates, and be thrown away at once.

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

/// The form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Markdown,
    Plain,
}

/// Why a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The text was longer than the limit.
    Length,
    /// Time ran out.
    Time,
}

/// Returns whether it is time to stop. Called now and then.
pub(crate) type IsLate<'a> = &'a dyn Fn() -> bool;

/// How many tokens are read between two looks at the clock.
const TOKENS_AT_ONCE: usize = 256;

/// Returns the text of a piece of HTML, in one line.
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

/// Returns the words with one space between them.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
