//! What people are told of servers that go and come: each thing once.

use std::time::Instant;

use crate::{limits::NOTE_PAUSE, stdio::takes_notes};

pub(crate) struct Notes<'a> {
    note: &'a mut dyn FnMut(&str),
    /// What they were told last. Empty: all is well.
    last: String,
    /// When they were last told something besides, and how often it happened since.
    remarked: Option<(Instant, usize)>,
}

impl<'a> Notes<'a> {
    pub(crate) fn new(note: &'a mut dyn FnMut(&str)) -> Self {
        Self {
            note,
            last: String::new(),
            remarked: None,
        }
    }

    /// Something that happened, whether there is a server or not. It may happen often, and is said now and then.
    pub(crate) fn remark(&mut self, words: &str) {
        let now = Instant::now();
        if let Some((at, unsaid)) = &mut self.remarked
            && now < *at + NOTE_PAUSE
        {
            *unsaid += 1;
            return;
        }
        let unsaid = self.remarked.map_or(0, |(_, unsaid)| unsaid);
        self.remarked = Some((now, 0));
        if takes_notes() {
            match unsaid {
                0 => (self.note)(words),
                more => (self.note)(&format!("{words} ({more} times more since)")),
            }
        }
    }

    pub(crate) fn say(&mut self, words: String) {
        if words != self.last && takes_notes() {
            (self.note)(&words);
        }
        self.last = words;
    }

    /// There is no server. Where people know that it is gone, they need not hear that it is not back yet.
    pub(crate) fn say_missing(&mut self, why: &str, goes_on: bool) {
        if self.last.is_empty() {
            let hope = if goes_on { "; trying again" } else { "" };
            self.say(format!("there is no server: {why}{hope}"));
        }
    }

    /// There is one, which is told to whoever heard that there was none.
    pub(crate) fn all_is_well(&mut self) {
        if !self.last.is_empty() {
            self.say("the server is back".to_owned());
            self.last.clear();
        }
    }
}
