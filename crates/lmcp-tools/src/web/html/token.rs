//! What HTML is made of: tags and text.

use std::collections::BTreeMap;

use html5gum::{DefaultEmitter, HtmlString, Spanned, Tokenizer};

/// One piece of a page. Comments and errors are left out.
#[derive(Debug)]
pub(crate) enum Token {
    Start(Tag),
    /// Its name.
    End(String),
    Text(String),
}

/// A start tag.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) self_closing: bool,
    pub(super) attributes: BTreeMap<HtmlString, Spanned<HtmlString, ()>>,
}

impl Tag {
    /// The value of an attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let value = self.attributes.get(name.as_bytes())?;
        std::str::from_utf8(value).ok()
    }

    /// Has an attribute this value? Letters may be large or small.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name)
            .is_some_and(|own| own.trim().eq_ignore_ascii_case(value))
    }

    /// Is this one of its classes?
    pub(crate) fn has_class(&self, class: &str) -> bool {
        let classes = self.get("class").unwrap_or_default();
        classes.split_ascii_whitespace().any(|own| own == class)
    }
}

/// The pieces of a page, in order.
pub(crate) fn tokens(html: &str) -> impl Iterator<Item = Token> {
    let mut emitter = DefaultEmitter::default();
    // So that `<b>` within a script is no tag.
    emitter.naively_switch_states(true);
    let tokens = Tokenizer::new_with_emitter(html, emitter).flatten();
    tokens.filter_map(|token| match token {
        html5gum::Token::StartTag(tag) => Some(Token::Start(Tag {
            name: text(tag.name),
            self_closing: tag.self_closing,
            attributes: tag.attributes,
        })),
        html5gum::Token::EndTag(tag) => Some(Token::End(text(tag.name))),
        html5gum::Token::String(piece) => Some(Token::Text(text(piece.value))),
        html5gum::Token::Comment(_) | html5gum::Token::Doctype(_) | html5gum::Token::Error(_) => {
            None
        }
    })
}

fn text(bytes: HtmlString) -> String {
    String::from_utf8(bytes.0)
        .unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned())
}
