//! The tokens of HTML: tags and text.

use std::{collections::BTreeMap, mem::take};

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{Callback, CallbackEmitter, CallbackEvent},
};

/// One piece of a page. Comments and errors are left out.
#[derive(Debug)]
pub(crate) enum Token {
    Start(Tag),
    /// An end tag, by its name.
    End(String),
    Text(String),
}

/// A start tag. Only the first attributes are kept, and none that is very long.
#[derive(Debug, Default)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) self_closing: bool,
    pub(super) attributes: BTreeMap<String, String>,
}

impl Tag {
    /// Returns the value of an attribute.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Returns whether an attribute has this value, in any case.
    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name)
            .is_some_and(|own| own.trim().eq_ignore_ascii_case(value))
    }

    /// Returns whether the element has this class.
    pub(crate) fn has_class(&self, class: &str) -> bool {
        let classes = self.get("class").unwrap_or_default();
        classes.split_ascii_whitespace().any(|own| own == class)
    }
}

/// Returns the pieces of a page, in order.
pub(crate) fn tokens(html: &str) -> impl Iterator<Item = Token> {
    let mut emitter = CallbackEmitter::new(Collector::default());
    // Without this, `<b>` within a script would be a tag.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).flatten()
}

/// Collects the parts of a tag. Browsers take any number of them; here only a few are needed.
#[derive(Default)]
struct Collector {
    tag: Tag,
    /// The attribute whose value comes next, if it is kept.
    attribute: Option<String>,
}

impl Callback<Token, ()> for Collector {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _: Span<()>) -> Option<Token> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = Tag {
                    name: text(&name[..name.len().min(LONGEST_NAME)]),
                    ..Tag::default()
                };
                None
            }
            CallbackEvent::AttributeName { name } => {
                self.attribute = None;
                let is_kept = self.tag.attributes.len() < MOST_ATTRIBUTES;
                if is_kept && name.len() <= LONGEST_NAME {
                    let name = text(name);
                    // Of several attributes with one name, the first counts.
                    if !self.tag.attributes.contains_key(&name) {
                        self.tag.attributes.insert(name.clone(), String::new());
                        self.attribute = Some(name);
                    }
                }
                None
            }
            CallbackEvent::AttributeValue { value } => {
                if let Some(name) = self.attribute.take() {
                    match value.len() {
                        ..=LONGEST_VALUE => self.tag.attributes.insert(name, text(value)),
                        _ => self.tag.attributes.remove(&name),
                    };
                }
                None
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                self.tag.self_closing = self_closing;
                Some(Token::Start(take(&mut self.tag)))
            }
            CallbackEvent::EndTag { name } => {
                Some(Token::End(text(&name[..name.len().min(LONGEST_NAME)])))
            }
            CallbackEvent::String { value } => Some(Token::Text(text(value))),
            CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => None,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The most attributes that are kept of one tag.
const MOST_ATTRIBUTES: usize = 256;
/// The bytes of the longest value that is kept, and of the longest name.
const LONGEST_VALUE: usize = 64 * 1024;
const LONGEST_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn first(html: &str) -> Tag {
        let tag = tokens(html).find_map(|token| match token {
            Token::Start(tag) => Some(tag),
            Token::End(_) | Token::Text(_) => None,
        });
        tag.expect("there is a tag")
    }

    #[test]
    fn of_attributes_without_end_the_first_ones_are_kept() {
        let many: String = (0..10_000).map(|at| format!("x{at}=1 ")).collect();
        let tag = first(&format!("<a href='/to' {many} id=last>"));
        assert_eq!(tag.attributes.len(), MOST_ATTRIBUTES);
        assert_eq!((tag.get("href"), tag.get("id")), (Some("/to"), None));
    }

    #[test]
    fn a_value_without_end_is_left_out_and_the_others_stay() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        let tag = first(&format!(
            "<a title='{long}' href=/to href=/other {long}=1 hidden>"
        ));
        assert_eq!((tag.get("title"), tag.get("href")), (None, Some("/to")));
        assert_eq!(tag.get("hidden"), Some(""));
        assert_eq!(tag.attributes.len(), 2);
    }
}
