//! Messages as lines (`basic/transports`, stdio): cutting a stream of bytes into lines, in bounded memory.
//!
//! Servers, clients and the proxy cut lines with this. They read and wait themselves.

use memchr::{memchr, memchr2, memrchr};

/// A line without its line end, never blank; or the two ends of a line that is longer than the limit.
pub type Frame = Result<Vec<u8>, TooLong>;

/// A line that is longer than the limit. Its bytes were skipped as they came. The id of its message is in one of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// The beginning of the line.
    pub head: Vec<u8>,
    /// The end of the line.
    pub tail: Vec<u8>,
}

/// Cuts bytes into lines.
#[derive(Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    /// The beginning of the next line, and the end of the part that has no line end.
    start: usize,
    scanned: usize,
    limit: usize,
    skipping: Skipping,
    /// Whether no line has come yet.
    is_first: bool,
    /// The bytes of blank lines since the last line that was not blank.
    blank: usize,
    /// The number of bytes that may be read at once.
    room: usize,
}

/// What happens to the unfinished line.
#[derive(Debug, Default)]
enum Skipping {
    #[default]
    No,
    /// The line is longer than the limit. Its beginning is kept.
    TooLong(Vec<u8>),
    /// The line is skipped without a frame.
    Silently,
}

impl Framer {
    /// Makes a framer for lines of at most this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            limit,
            skipping: Skipping::No,
            is_first: true,
            blank: 0,
            room: LITTLE_ROOM,
        }
    }

    /// Sets another limit, from the next line on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the buffer to append bytes to. It has free space. Before the first line, the buffer contains nothing else.
    ///
    /// The space is kept while no bytes come, and most peers send little at a time. So only a peer that has filled the space
    /// gets more.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        let held = self.buffer.len();
        if held < LITTLE_ROOM {
            self.room = LITTLE_ROOM;
        } else if held == self.buffer.capacity() {
            self.room = ROOM;
        }
        if self.start == held {
            self.buffer.clear();
            self.buffer.shrink_to(self.room);
        } else {
            self.buffer.drain(..self.start);
        }
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.reserve(self.room);
        &mut self.buffer
    }

    /// Returns the next whole line.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            self.skip_blank_lines();
            let Some(end) = memchr(b'\n', self.unseen()) else {
                self.scanned = self.buffer.len();
                self.check_length();
                return None;
            };
            let line = self.take(self.scanned + end);
            let frame = self.frame(line);
            if frame.is_some() {
                self.blank = 0;
                return frame;
            }
        }
    }

    /// The bytes of blank lines that came since the last line that was not blank.
    pub fn blank_bytes(&self) -> usize {
        self.blank
    }

    /// Whether another whole line is there.
    pub fn has_frame(&self) -> bool {
        memchr(b'\n', self.unseen()).is_some()
    }

    /// Returns the text after the last line end, when no more bytes will come: a peer may forget the last line end.
    pub fn last_frame(&mut self) -> Option<Frame> {
        let rest = self.take(self.buffer.len());
        self.buffer = Vec::new();
        (self.start, self.scanned) = (0, 0);
        self.frame(rest)
    }

    /// The length of the unfinished line, if it is not skipped.
    pub fn unfinished(&self) -> usize {
        match self.skipping {
            Skipping::No => self.buffer.len() - self.start,
            Skipping::TooLong(_) | Skipping::Silently => 0,
        }
    }

    /// Whether the unfinished line is longer than the limit. [`TooLong`] comes when the line ends.
    pub fn is_past_limit(&self) -> bool {
        matches!(self.skipping, Skipping::TooLong(_)) || self.unfinished() > self.limit
    }

    /// Drops the unfinished line, and the rest of it as it comes. There is no frame for it.
    pub fn skip(&mut self) {
        self.buffer = Vec::new();
        (self.start, self.scanned) = (0, 0);
        self.skipping = Skipping::Silently;
    }

    /// Skips the blank lines before the next line. There may be millions, so they are not cut out one by one.
    fn skip_blank_lines(&mut self) {
        let begins = self.scanned == self.start && matches!(self.skipping, Skipping::No);
        let rest = self.unseen();
        if !begins || !rest.first().is_some_and(u8::is_ascii_whitespace) {
            return;
        }
        let text = rest.iter().position(|byte| !byte.is_ascii_whitespace());
        let blank = rest.get(..text.unwrap_or(rest.len()).min(self.limit));
        let Some(end) = blank.and_then(|blank| memrchr(b'\n', blank)) else {
            return;
        };
        self.start += end + 1;
        self.scanned = self.start;
        self.blank = self.blank.saturating_add(end + 1);
        self.is_first = false;
    }

    fn unseen(&self) -> &[u8] {
        self.buffer.get(self.scanned..).unwrap_or_default()
    }

    /// Takes the line that ends at `end` out of the buffer.
    fn take(&mut self, end: usize) -> Vec<u8> {
        let mut start = std::mem::replace(&mut self.start, self.buffer.len().min(end + 1));
        self.scanned = self.start;
        let has_mark = |line: &[u8]| line.starts_with(BYTE_ORDER_MARK);
        if std::mem::take(&mut self.is_first) && self.buffer.get(start..end).is_some_and(has_mark) {
            start += BYTE_ORDER_MARK.len();
        }
        if end - start > ROOM {
            // A long line is not copied: the buffer becomes the line, and the bytes after it become the next buffer.
            let rest = self.buffer.split_off(self.start);
            let mut line = std::mem::replace(&mut self.buffer, rest);
            (self.start, self.scanned) = (0, 0);
            line.truncate(end);
            line.drain(..start);
            line.shrink_to_fit();
            return line;
        }
        self.buffer.get(start..end).unwrap_or_default().to_vec()
    }

    /// Returns the frame for a line that has ended.
    fn frame(&mut self, line: Vec<u8>) -> Option<Frame> {
        let head = match std::mem::take(&mut self.skipping) {
            Skipping::Silently => return None,
            Skipping::TooLong(head) => head,
            Skipping::No if line.len() > self.limit => beginning(&line),
            Skipping::No => return (!line.trim_ascii().is_empty()).then_some(Ok(line)),
        };
        let tail = ending(&line);
        Some(Err(TooLong { head, tail }))
    }

    /// Drops a line that is longer than the limit, except for its two ends.
    fn check_length(&mut self) {
        let line = self.buffer.get(self.start..).unwrap_or_default();
        let head = match std::mem::take(&mut self.skipping) {
            // Until both ends are there, nothing can be dropped.
            Skipping::No if line.len() <= self.limit.max(END) => return,
            Skipping::No => beginning(line),
            Skipping::TooLong(head) => head,
            Skipping::Silently => return self.skip(),
        };
        self.buffer = ending(line);
        (self.start, self.scanned) = (0, self.buffer.len());
        self.skipping = Skipping::TooLong(head);
    }
}

/// Makes one line of a message. Between the tokens of JSON, a line break is a space like any other.
pub fn join_lines(message: &mut [u8]) {
    let mut rest = message;
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

fn beginning(line: &[u8]) -> Vec<u8> {
    line.get(..line.len().min(END)).unwrap_or_default().to_vec()
}

fn ending(line: &[u8]) -> Vec<u8> {
    let start = line.len().saturating_sub(END);
    line.get(start..).unwrap_or_default().to_vec()
}

/// The free space for each read. A longer line grows the buffer up to the limit.
const ROOM: usize = 16 << 10;

/// The free space for a peer that sends little: more than most messages take.
const LITTLE_ROOM: usize = 2 << 10;

/// The bytes that are kept of each end of a line that is too long.
const END: usize = 2 << 10;

/// The mark that some programs write before the first byte of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(limit: usize, chunks: &[&str]) -> Vec<String> {
        let mut framer = Framer::new(limit);
        let mut frames = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |frame: Frame| match frame {
            Ok(line) => text(&line),
            Err(TooLong { head, tail }) => format!("{}…{}", text(&head), text(&tail)),
        };
        for chunk in chunks {
            framer.buffer().extend_from_slice(chunk.as_bytes());
            while let Some(frame) = framer.next_frame() {
                frames.push(show(frame));
            }
        }
        frames.extend(framer.last_frame().map(show));
        frames
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_is_skipped() {
        assert_eq!(frames(9, &["\u{feff}a\n\u{feff}b\n"]), ["a", "\u{feff}b"]);
        assert_eq!(frames(9, &["\u{feff}a"]), ["a"]);
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
    fn whoever_does_not_wait_for_the_end_of_a_long_line_skips_it() {
        let mut framer = Framer::new(3);
        framer.buffer().extend_from_slice(b"ab");
        assert_eq!((framer.next_frame(), framer.is_past_limit()), (None, false));
        assert_eq!(framer.unfinished(), 2);
        framer.buffer().extend_from_slice(b"cd");
        assert_eq!((framer.next_frame(), framer.is_past_limit()), (None, true));
        framer.skip();
        framer.buffer().extend_from_slice(b"ef");
        assert_eq!((framer.next_frame(), framer.is_past_limit()), (None, false));
        assert_eq!(framer.unfinished(), 0);
        framer.buffer().extend_from_slice(b"gh\nok\n");
        assert_eq!(framer.next_frame(), Some(Ok(b"ok".to_vec())));
    }

    #[test]
    fn after_the_last_piece_there_is_nothing() {
        let mut framer = Framer::new(9);
        framer.buffer().extend_from_slice(b"tail");
        assert_eq!((framer.next_frame(), framer.has_frame()), (None, false));
        assert_eq!(framer.last_frame(), Some(Ok(b"tail".to_vec())));
        assert_eq!((framer.has_frame(), framer.next_frame()), (false, None));
    }

    #[test]
    fn a_skipped_line_leaves_no_memory() {
        let mut framer = Framer::new(1000);
        for _ in 0..1000 {
            framer.buffer().extend_from_slice(&[b'x'; 1000]);
            assert_eq!(framer.next_frame(), None);
        }
        assert!(framer.buffer.capacity() < 64 << 10);
    }

    #[test]
    fn who_says_little_holds_little_memory_and_who_says_much_is_read_in_large_pieces() {
        let mut framer = Framer::new(1 << 20);
        let mut read = |bytes: usize| {
            let buffer = framer.buffer();
            let room = buffer.capacity();
            buffer.extend(std::iter::repeat_n(b'\n', bytes.min(room)));
            assert!(framer.next_frame().is_none());
            room
        };
        assert_eq!([read(10), read(0), read(2048)], [2048; 3]);
        assert_eq!([read(16 << 10), read(5000), read(100)], [16 << 10; 3]);
        assert_eq!(read(0), 2048);
    }

    #[test]
    fn a_long_line_is_cut_out_of_what_stands_around_it_and_takes_no_more_than_its_length() {
        let mut framer = Framer::new(1 << 20);
        let long = vec![b'x'; 100_000];
        let text = [b"first\n", &long[..], b"\nlast\nrest"].concat();
        framer.buffer().extend_from_slice(&text);
        assert_eq!(framer.next_frame(), Some(Ok(b"first".to_vec())));
        let line = framer.next_frame().and_then(Result::ok).unwrap();
        assert_eq!(line, long);
        assert!(line.capacity() < 101_000, "{}", line.capacity());
        assert!(
            framer.buffer.capacity() < 64,
            "{}",
            framer.buffer.capacity()
        );
        assert_eq!(framer.next_frame(), Some(Ok(b"last".to_vec())));
        framer.buffer().extend_from_slice(b" of it\n");
        assert_eq!(framer.next_frame(), Some(Ok(b"rest of it".to_vec())));
    }

    #[test]
    fn a_long_line_is_handed_over_whole_and_keeps_no_memory() {
        let mut framer = Framer::new(1 << 20);
        let long = vec![b'x'; 300_000];
        for part in long.chunks(10_000) {
            framer.buffer().extend_from_slice(part);
            assert_eq!(framer.next_frame(), None);
        }
        framer.buffer().extend_from_slice(b"\n");
        assert_eq!(framer.next_frame(), Some(Ok(long)));
        framer.buffer().extend_from_slice(b"next\n");
        assert_eq!(framer.next_frame(), Some(Ok(b"next".to_vec())));
        assert!(framer.buffer.capacity() < 64 << 10);
    }

    #[test]
    fn a_message_of_several_lines_becomes_one() {
        let mut message = b"{\r\n\"a\":1\n}".to_vec();
        join_lines(&mut message);
        assert_eq!(message, b"{  \"a\":1 }");
    }

    proptest::proptest! {
        #[test]
        fn where_the_chunks_end_does_not_matter(text in "[ab\n]{0,60}", cuts: [usize; 3], limit in 1..20_usize) {
            let mut cuts = cuts.map(|cut| cut % (text.len() + 1));
            cuts.sort_unstable();
            let [a, b, c] = cuts;
            let pieces = [&text[..a], &text[a..b], &text[b..c], &text[c..]];
            assert_eq!(frames(limit, &pieces), frames(limit, &[&text]));
        }
    }
}
