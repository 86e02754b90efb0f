//! Cutting a stream of bytes into lines, in bounded memory.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::budget::NoRoom;

/// Room made for each read. One page of lines; a longer line grows the buffer up to the limit.
const CHUNK: usize = 16 << 10;

/// Lines out of a larger buffer are copied where they are small: a slice would keep the whole buffer for as long as its call
/// runs. One of this size is less than what a running call counts for.
const ORDINARY_BUFFER: usize = 2 * CHUNK;

/// A line up to this size is small beside a buffer that is not ordinary.
const SMALL: usize = 4096;

/// One line, or what is left of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// A line without its end; never blank.
    Line(Bytes),
    /// A line that went past the limit. It was skipped as it came.
    TooLong,
    /// A line that callers left no memory for. It was skipped as it came.
    NoRoom(NoRoom),
}

/// Cuts bytes into lines.
#[derive(Debug)]
pub struct Framer {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    /// The buffer has grown beyond an ordinary one.
    is_large: bool,
    limit: usize,
    /// The rest of a line past the limit is being thrown away.
    skipping: bool,
    /// No line has come yet.
    is_first: bool,
}

/// The mark that some programs write before the first byte of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Framer {
    /// Lines of at most this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            is_large: false,
            limit,
            skipping: false,
            is_first: true,
        }
    }

    /// Another limit, from the next line on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where to put what was read.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.is_large && self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.is_large = false;
        }
        self.buffer.reserve(CHUNK);
        self.is_large |= self.buffer.capacity() > ORDINARY_BUFFER;
        &mut self.buffer
    }

    /// The next line that is whole.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                return self.check_length();
            };
            let mut length = self.scanned + end;
            self.scanned = 0;
            if std::mem::take(&mut self.is_first) && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.advance(BYTE_ORDER_MARK.len());
                length -= BYTE_ORDER_MARK.len();
            }
            if std::mem::take(&mut self.skipping) {
                self.buffer.advance(length + 1);
                continue;
            }
            if length > self.limit {
                self.buffer.advance(length + 1);
                return Some(Frame::TooLong);
            }
            let line = if self.is_large && length <= SMALL {
                let line = Bytes::copy_from_slice(&self.buffer[..length]);
                self.buffer.advance(length);
                line
            } else {
                self.buffer.split_to(length).freeze()
            };
            self.buffer.advance(1);
            if !line.trim_ascii().is_empty() {
                return Some(Frame::Line(line));
            }
        }
    }

    /// How much of a line is there that has not ended.
    pub fn unfinished(&self) -> usize {
        if self.skipping { 0 } else { self.buffer.len() }
    }

    /// Throws away the line that has not ended, and the rest of it as it comes.
    pub fn skip(&mut self) {
        self.buffer = BytesMut::new();
        self.is_large = false;
        self.scanned = 0;
        self.skipping = true;
    }

    /// Is another whole line there?
    pub fn has_frame(&self) -> bool {
        self.buffer[self.scanned..].contains(&b'\n')
    }

    /// What stands after the last line end, when nothing more will come: a peer may forget the last one.
    pub fn last_frame(&mut self) -> Option<Frame> {
        let rest = self.buffer.split().freeze();
        self.scanned = 0;
        (!self.skipping && !rest.trim_ascii().is_empty()).then_some(Frame::Line(rest))
    }

    /// Lets go of a line that has outgrown the limit, and says so once.
    fn check_length(&mut self) -> Option<Frame> {
        if self.buffer.len() <= self.limit && !self.skipping {
            return None;
        }
        let told = self.skipping;
        self.skip();
        (!told).then_some(Frame::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(limit: usize, chunks: &[&str]) -> Vec<String> {
        let mut framer = Framer::new(limit);
        let mut frames = Vec::new();
        let show = |frame| match frame {
            Frame::Line(line) => String::from_utf8_lossy(&line).into_owned(),
            Frame::TooLong | Frame::NoRoom(_) => "TOO LONG".into(),
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
    }

    #[test]
    fn lines_are_cut_wherever_the_chunks_end() {
        assert_eq!(frames(9, &["a\nb", "c\n\n \r\n", "d"]), ["a", "bc", "d"]);
    }

    #[test]
    fn a_line_past_the_limit_is_told_once_and_the_next_one_is_read() {
        assert_eq!(frames(3, &["abcd", "efgh", "ij\nok\n"]), ["TOO LONG", "ok"]);
        assert_eq!(frames(3, &["abcd\nok\n"]), ["TOO LONG", "ok"]);
        assert_eq!(frames(3, &["abc\nabcd"]), ["abc", "TOO LONG"]);
    }

    #[test]
    fn after_the_last_piece_there_is_nothing() {
        let mut framer = Framer::new(9);
        framer.buffer().extend_from_slice(b"tail");
        assert_eq!((framer.next_frame(), framer.has_frame()), (None, false));
        assert_eq!(framer.last_frame(), Some(Frame::Line("tail".into())));
        assert_eq!((framer.has_frame(), framer.next_frame()), (false, None));
    }

    #[test]
    fn a_skipped_line_leaves_no_memory() {
        let mut framer = Framer::new(1000);
        for _ in 0..1000 {
            framer.buffer().extend_from_slice(&[b'x'; 1000]);
            framer.next_frame();
        }
        assert!(framer.buffer.capacity() < 64 << 10);
    }

    #[test]
    fn a_small_line_behind_a_large_one_does_not_keep_its_memory() {
        let mut framer = Framer::new(1 << 20);
        for _ in 0..100 {
            framer.buffer().extend_from_slice(&[b'x'; 1000]);
            assert_eq!(framer.next_frame(), None);
        }
        framer.buffer().extend_from_slice(b"\nsmall\n");
        let (large, small) = (framer.next_frame(), framer.next_frame());
        assert!(matches!(large, Some(Frame::Line(line)) if line.len() == 100_000));
        assert!(matches!(small, Some(Frame::Line(line)) if line.is_unique() && line == "small"));
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
