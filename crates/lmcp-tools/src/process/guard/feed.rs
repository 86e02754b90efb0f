//! The input of a command: given with it, or sent later.

use std::io::{self, Read as _, Write as _};

use super::Guard;

/// The most bytes of input that the command has not taken yet.
const MOST_INPUT: usize = 16 * 1024 * 1024;
/// The most bytes that are read at once from a file with input: a pipe holds as many.
const FEED: u64 = 64 * 1024;

impl Guard {
    pub(super) fn take_input(&mut self, text: &str, eof: bool) -> io::Result<()> {
        if self.input.is_none() || self.feed_ends {
            return Err(io::Error::other("its standard input is closed"));
        }
        if self.feed.len() + text.len() > MOST_INPUT {
            return Err(io::Error::other("it has not read what it was sent before"));
        }
        self.feed.extend_from_slice(text.as_bytes());
        if eof && self.terminal.is_some() {
            // A terminal does not close; this character means the end of the input.
            self.feed.push(4);
        } else {
            self.feed_ends = eof;
        }
        self.give_input();
        Ok(())
    }

    /// Writes as much input as the command can take.
    pub(super) fn give_input(&mut self) {
        loop {
            self.read_feed();
            let Some(input) = self.input.as_mut().filter(|_| !self.feed.is_empty()) else {
                break;
            };
            match input.write(&self.feed) {
                Ok(count) => drop(self.feed.drain(..count)),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => return,
                // The command has closed its input.
                Err(_) => self.input = None,
            }
        }
        if self.feed_ends && self.feed.is_empty() {
            self.input = None;
        }
    }

    /// Reads the next part of the input that was given in a file.
    fn read_feed(&mut self) {
        let Some(file) = self.feed_file.as_mut().filter(|_| self.feed.is_empty()) else {
            return;
        };
        match file.take(FEED).read_to_end(&mut self.feed) {
            Ok(0) | Err(_) => self.feed_file = None,
            Ok(_) => {}
        }
    }
}
