//! Notes for people about servers that go and come. The same note is not repeated.

use std::time::Instant;

use crate::{limits::NOTE_PAUSE, stdio::takes_notes};

pub(crate) struct Notes<'a> {
    note: &'a mut dyn FnMut(&str),
    /// The last note. Empty: all is well.
    last: String,
    /// The time of the last remark, and how often a remark was left out since then.
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

    /// Remarks something that may happen often, whether there is a server or not. Only one remark is written in a while.
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

    /// Notes that there is no server. If people know already that the server is gone, nothing is written.
    pub(crate) fn say_missing(&mut self, why: &str, goes_on: bool) {
        if self.last.is_empty() {
            let hope = if goes_on { "; trying again" } else { "" };
            self.say(format!("there is no server: {why}{hope}"));
        }
    }

    /// Notes that there is a server, if people were told that there was none.
    pub(crate) fn all_is_well(&mut self) {
        if !self.last.is_empty() {
            self.say("the server is back".to_owned());
            self.last.clear();
        }
    }
}
