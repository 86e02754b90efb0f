//! Reports in the log when a server fails and recovers. The log lines have no effect on calls.

use std::sync::atomic::{AtomicBool, Ordering};

/// Logs a line when a server is lost or cannot be reached, and another line when it is there again. Attempts in between are not logged.
#[derive(Debug)]
pub struct Health {
    what: String,
    is_failed: AtomicBool,
    /// Nothing more is logged.
    is_over: AtomicBool,
}

impl Health {
    /// Logs under this name of the server.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            is_failed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// Stops to log: the program itself now ends the server.
    pub fn over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Reports that the server was lost, or could not be reached.
    pub fn failed(&self, why: &str) {
        let is_over = self.is_over.load(Ordering::Acquire);
        if !is_over && !self.is_failed.swap(true, Ordering::AcqRel) {
            tracing::warn!("{} failed: {}", self.what, shown(why));
        }
    }

    /// Reports that the server is there.
    pub fn there(&self) {
        if self.is_failed.swap(false, Ordering::AcqRel) {
            tracing::info!("{} is there again", self.what);
        }
    }
}

/// Escapes the words of a server, so that they do not look like our lines, control a terminal or change the direction of
/// text.
fn shown(words: &str) -> String {
    let mut shown = String::new();
    for letter in words.chars() {
        let turns = matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match letter.is_control() || turns {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_server_stay_on_one_line() {
        assert_eq!(shown("a\nb\x1b[31mü"), "a\\nb\\u{1b}[31mü");
        // These characters change the order in which later letters are shown.
        let turned = "a\u{202a}b\u{202e}c\u{2066}d\u{2069}e";
        assert_eq!(shown(turned), "a\\u{202a}b\\u{202e}c\\u{2066}d\\u{2069}e");
    }
}
