//! Cutting what comes in into lines, in bounded memory.

use memchr::memchr;

/// One line, or what is left of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A line without its end; never blank.
    Line(Vec<u8>),
    /// A line past the limit was skipped as it came: how it began and how it ended.
    TooLong { head: Vec<u8>, tail: Vec<u8> },
}

#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins, and up to where it is known not to end.
    start: usize,
    scanned: usize,
    limit: usize,
    /// The beginning of a line past the limit; the rest of it is being thrown away.
    skipping: Option<Vec<u8>>,
}

impl Lines {
    /// Lines of at most this many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            limit,
            skipping: None,
        }
    }

    /// Where to put what was read: there is room for a while.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(ROOM);
        } else {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.reserve(ROOM);
        &mut self.buffer
    }

    /// The next line that is whole.
    pub(crate) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(end) = memchr(b'\n', unseen).map(|at| self.scanned + at) else {
                self.scanned = self.buffer.len();
                self.check_length();
                return None;
            };
            let line = self.take(end);
            if let Some(head) = self.skipping.take() {
                return Some(too_long(head, &line));
            }
            if line.len() > self.limit {
                return Some(too_long(beginning(&line), &line));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Frame::Line(line));
            }
        }
    }

    /// What stands after the last line end, when nothing more will come: a peer may forget the last one.
    pub(crate) fn last_frame(&mut self) -> Option<Frame> {
        self.buffer.drain(..self.start);
        let rest = std::mem::take(&mut self.buffer);
        (self.start, self.scanned) = (0, 0);
        if let Some(head) = self.skipping.take() {
            return Some(too_long(head, &rest));
        }
        (!rest.trim_ascii().is_empty()).then_some(Frame::Line(rest))
    }

    fn take(&mut self, end: usize) -> Vec<u8> {
        let start = std::mem::replace(&mut self.start, end + 1);
        self.scanned = self.start;
        if start == 0 && self.start == self.buffer.len() && end > ROOM {
            // A long line that stands alone is not copied.
            (self.start, self.scanned) = (0, 0);
            let mut line = std::mem::take(&mut self.buffer);
            line.truncate(end);
            return line;
        }
        self.buffer.get(start..end).unwrap_or_default().to_vec()
    }

    /// Lets go of a line that has outgrown the limit, but for its two ends.
    fn check_length(&mut self) {
        let line = self.buffer.get(self.start..).unwrap_or_default();
        if line.len() <= self.limit && self.skipping.is_none() {
            return;
        }
        let head = self.skipping.take().unwrap_or_else(|| beginning(line));
        self.buffer = ending(line);
        (self.start, self.scanned) = (0, self.buffer.len());
        self.skipping = Some(head);
    }
}

fn too_long(head: Vec<u8>, line: &[u8]) -> Frame {
    Frame::TooLong {
        head,
        tail: ending(line),
    }
}

fn beginning(line: &[u8]) -> Vec<u8> {
    line.get(..line.len().min(END)).unwrap_or_default().to_vec()
}

fn ending(line: &[u8]) -> Vec<u8> {
    let start = line.len().saturating_sub(END);
    line.get(start..).unwrap_or_default().to_vec()
}

/// Room made for each read.
const ROOM: usize = 16 << 10;

/// What is kept of either end of a line that is too long: its id stands in one of them.
const END: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(limit: usize, chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut frames = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |frame| match frame {
            Frame::Line(line) => text(&line),
            Frame::TooLong { head, tail } => format!("{}…{}", text(&head), text(&tail)),
        };
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk.as_bytes());
            while let Some(frame) = lines.next_frame() {
                frames.push(show(frame));
            }
        }
        frames.extend(lines.last_frame().map(show));
        frames
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        assert_eq!(frames(9, &["a\nb", "c\n\n \r\n", "d"]), ["a", "bc", "d"]);
    }

    #[test]
    fn a_line_past_the_limit_is_told_when_it_ends_and_the_next_one_is_read() {
        for chunks in [&["abcd", "efgh", "ij\nok\n"][..], &["abcdefghij\nok\n"]] {
            let found = frames(3, chunks);
            assert_eq!(found[1], "ok");
            assert!(
                found[0].starts_with("abcd") && found[0].ends_with("ij"),
                "{}",
                found[0]
            );
        }
        assert_eq!(frames(3, &["abc\nabcd"]), ["abc", "abcd…abcd"]);
    }

    #[test]
    fn a_skipped_line_leaves_no_memory() {
        let mut lines = Lines::new(1000);
        for _ in 0..1000 {
            lines.buffer().extend_from_slice(&[b'x'; 1000]);
            assert_eq!(lines.next_frame(), None);
        }
        assert!(lines.buffer.capacity() < 64 << 10);
    }

    #[test]
    fn a_long_line_is_handed_over_whole() {
        let mut lines = Lines::new(1 << 20);
        let long = vec![b'x'; 300_000];
        for part in long.chunks(10_000) {
            lines.buffer().extend_from_slice(part);
            assert_eq!(lines.next_frame(), None);
        }
        lines.buffer().extend_from_slice(b"\n");
        assert_eq!(lines.next_frame(), Some(Frame::Line(long)));
        lines.buffer().extend_from_slice(b"next\n");
        assert_eq!(lines.next_frame(), Some(Frame::Line(b"next".to_vec())));
    }
}
