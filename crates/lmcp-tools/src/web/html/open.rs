//! The elements that are open, and which of them are hidden.
//!
//! An end tag ends the nearest element of its name, and the elements that were left open in it. Some elements end
//! where another begins. These rules of HTML are enough to tell text within a hidden element from text after its end.

use std::collections::BTreeMap;

use super::token::Tag;

#[derive(Debug, Default)]
pub(super) struct Open {
    /// The names of the open elements, the innermost at the end.
    names: Vec<String>,
    /// How many more elements are open of each name, if there are too many to keep.
    deeper: BTreeMap<String, usize>,
    /// The position of the outermost element that is left out.
    skipped: Option<usize>,
    /// The same for elements that are not kept: the name, and how many of that name were open with it.
    skipped_deeper: Option<(String, usize)>,
    /// The position at which SVG or MathML begins.
    foreign: Option<usize>,
}

/// The effect of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The tag is for the reader.
    Shown,
    /// The tag is part of an element that is left out.
    Skipped,
}

impl Open {
    /// Begins an element, which may end others. Returns false if the element has no end.
    pub(super) fn start(&mut self, tag: &Tag) -> bool {
        let name = tag.name.as_str();
        self.end_implied(name);
        let is_open = match self.foreign {
            Some(_) => !tag.self_closing,
            None if is_foreign(name) => !tag.self_closing,
            None => !is_void(name),
        };
        if !is_open {
            return false;
        }
        if self.names.len() == MOST_OPEN {
            if self.deeper.len() < MOST_OPEN || self.deeper.contains_key(name) {
                *self.deeper.entry(name.to_owned()).or_default() += 1;
            }
            return true;
        }
        if self.foreign.is_none() && is_foreign(name) {
            self.foreign = Some(self.names.len());
        }
        self.names.push(name.to_owned());
        true
    }

    /// Leaves out the element of this name that was just opened.
    pub(super) fn skip(&mut self, name: &str) {
        match self.deeper.get(name) {
            Some(count) if *count > 0 => self.skipped_deeper = Some((name.to_owned(), *count)),
            _ => self.skipped = Some(self.names.len().saturating_sub(1)),
        }
    }

    pub(super) fn is_skipped(&self) -> bool {
        self.skipped.is_some() || self.skipped_deeper.is_some()
    }

    /// Handles an end tag.
    pub(super) fn end(&mut self, name: &str) -> Effect {
        let (was_skipped, skipped) = (self.is_skipped(), self.skipped);
        let ended = match self.deeper.get_mut(name).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                let count = *count;
                self.skipped_deeper
                    .take_if(|(skipped, with)| skipped == name && count < *with);
                None
            }
            None => self.close(|open| open == name, |open| holds(open, name)),
        };
        // The end of an outer element also ended the element that was left out.
        let ended_both = ended.is_some_and(|ended| skipped.is_none_or(|skipped| ended < skipped));
        if !was_skipped || (ended_both && !self.is_skipped()) {
            Effect::Shown
        } else {
            Effect::Skipped
        }
    }

    /// Ends the elements that end because this one begins.
    fn end_implied(&mut self, name: &str) {
        match name {
            "li" => self.close(|open| open == "li", |open| is_list(open) || is_cell(open)),
            "dt" | "dd" => self.close(
                |open| matches!(open, "dt" | "dd"),
                |open| open == "dl" || is_cell(open),
            ),
            "option" | "optgroup" => self.close(|open| open == "option", |open| open == "select"),
            "td" | "th" => self.close(is_cell, |open| open == "table"),
            "tr" => self.close(|open| open == "tr", |open| open == "table"),
            "thead" | "tbody" | "tfoot" => self.close(
                |open| matches!(open, "thead" | "tbody" | "tfoot"),
                |open| open == "table",
            ),
            "body" => self.close(|open| open == "head", |_| false),
            _ => None,
        };
        if ends_paragraph(name) {
            self.close(
                |open| open == "p",
                |open| is_cell(open) || matches!(open, "table" | "button" | "object"),
            );
        }
    }

    /// Closes the innermost element that is wanted and those in it, unless a barrier comes first. Returns its
    /// position.
    fn close(
        &mut self,
        wanted: impl Fn(&str) -> bool,
        barrier: impl Fn(&str) -> bool,
    ) -> Option<usize> {
        let either = |open: &String| wanted(open) || barrier(open);
        let at = self.names.iter().rposition(either)?;
        if !wanted(&self.names[at]) {
            return None;
        }
        self.names.truncate(at);
        self.deeper.clear();
        self.skipped_deeper = None;
        self.skipped = self.skipped.filter(|skipped| *skipped < at);
        self.foreign = self.foreign.filter(|foreign| *foreign < at);
        Some(at)
    }
}

/// Returns whether an element keeps end tags of this name from ending elements around it.
fn holds(open: &str, name: &str) -> bool {
    let is_part = matches!(name, "table" | "thead" | "tbody" | "tfoot" | "tr") || is_cell(name);
    match open {
        "table" => name != "table",
        "td" | "th" | "caption" => !is_part,
        "ul" | "ol" | "menu" => name == "li",
        "template" | "object" => name != open,
        _ => false,
    }
}

fn is_cell(name: &str) -> bool {
    matches!(name, "td" | "th" | "caption")
}

fn is_list(name: &str) -> bool {
    matches!(name, "ul" | "ol" | "menu" | "dir")
}

fn is_foreign(name: &str) -> bool {
    matches!(name, "svg" | "math")
}

/// Returns whether an element has no content and no end.
fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

fn ends_paragraph(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "li"
            | "listing"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "search"
            | "section"
            | "summary"
            | "table"
            | "ul"
            | "xmp"
    )
}

/// How many open elements are kept, as many as in browsers: a search among them must not take long.
const MOST_OPEN: usize = 512;
