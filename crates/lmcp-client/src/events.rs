//! Parses server-sent events from bytes, however the bytes are cut into pieces.
//!
//! HTML standard (9.2, "Server-sent events"): lines end with LF, CR or both, an event ends with an empty line, and an event
//! that has not ended at the end of the stream does not count.

use std::time::Duration;

use memchr::memchr2;

use crate::limits::{EVENT_ID_BYTES, SERVER_RETRY};

/// A parser. It keeps the data that a client needs to resume the stream: the last event id, and the time to wait.
#[derive(Debug)]
pub(crate) struct Events {
    /// The greatest number of bytes in one event.
    limit: usize,
    /// The line that is being read.
    line: Vec<u8>,
    /// The last byte was a CR: an LF after it belongs to the same line end.
    after_return: bool,
    is_start: bool,
    /// The data of the event that is being read.
    data: Vec<u8>,
    has_data: bool,
    kind: Vec<u8>,
    id: Option<Vec<u8>>,
    /// The data of the first `endpoint` event: the address for messages in HTTP+SSE.
    endpoint: Option<Vec<u8>>,
    /// The id of the last event that ended.
    last_id: Vec<u8>,
    retry: Option<Duration>,
}

/// An event is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            is_start: true,
            data: Vec::new(),
            has_data: false,
            kind: Vec::new(),
            id: None,
            endpoint: None,
            last_id: Vec::new(),
            retry: None,
        }
    }

    /// Reads a piece, and adds the messages that end in it. Events of other kinds, and events without data, are left out.
    pub(crate) fn read(&mut self, piece: &[u8], out: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        let mut rest = piece;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, tail) = rest.split_at(end);
            self.add(line)?;
            out.extend(self.end_line());
            rest = match tail {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.add(rest)
    }

    /// Begins to read another stream that continues this one.
    pub(crate) fn begin_again(&mut self) {
        let (last_id, retry) = (std::mem::take(&mut self.last_id), self.retry);
        *self = Self::new(self.limit);
        (self.last_id, self.retry) = (last_id, retry);
    }

    /// Returns the id of the last event. `None`: there was none, and the stream cannot be resumed.
    pub(crate) fn last_id(&self) -> Option<&[u8]> {
        Some(&*self.last_id).filter(|id| !id.is_empty())
    }

    /// Returns how long to wait before the stream is resumed, if the server said so.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns the address for messages, if the server named it: HTTP+SSE.
    pub(crate) fn endpoint(&self) -> Option<&[u8]> {
        self.endpoint.as_deref()
    }

    /// Returns how many bytes of an unfinished event are held.
    pub(crate) fn unfinished(&self) -> usize {
        self.line.len() + self.data.len()
    }

    fn add(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.unfinished() + part.len() > self.limit + FIELD_NAME {
            return Err(TooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.end_event();
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.kind = value.to_vec(),
            b"id" if !value.contains(&0) && value.len() <= EVENT_ID_BYTES => {
                self.id = Some(value.to_vec());
            }
            b"retry" => self.retry = milliseconds(value).or(self.retry),
            // It is a comment, or an unknown field.
            _ => {}
        }
        // The memory that one long line needed is freed.
        line.clear();
        line.shrink_to(SMALL);
        self.line = line;
        None
    }

    fn end_event(&mut self) -> Option<Vec<u8>> {
        if let Some(id) = self.id.take() {
            self.last_id = id;
        }
        self.has_data = false;
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        if kind == b"endpoint" && self.endpoint.is_none() {
            self.endpoint = Some(data);
            return None;
        }
        let is_message = kind.is_empty() || kind == b"message";
        (is_message && !data.trim_ascii().is_empty()).then_some(data)
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(value).ok()?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| digits.parse().unwrap_or(u64::MAX))?;
    Some(Duration::from_millis(number).min(SERVER_RETRY))
}

/// The approximate length of the text before the data of an event.
const FIELD_NAME: usize = 64;

const SMALL: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Messages, the last event id and the time to wait.
    type Read = (Vec<String>, Option<String>, Option<u128>);

    fn read(pieces: &[&[u8]]) -> Read {
        let mut events = Events::new(1000);
        let mut out = Vec::new();
        for piece in pieces {
            events.read(piece, &mut out).unwrap();
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            out.iter().map(|data| text(data)).collect(),
            events.last_id().map(text),
            events.retry().map(|retry| retry.as_millis()),
        )
    }

    #[test]
    fn each_rule_of_the_standard_holds() {
        for (text, messages, id, retry) in [
            ("data: a\n\n", vec!["a"], None, None),
            ("data:a\n\ndata:  b\n\n", vec!["a", " b"], None, None),
            (
                "data: a\r\n\r\ndata: b\r\rdata: c\n\n",
                vec!["a", "b", "c"],
                None,
                None,
            ),
            ("data: a\ndata\ndata: b\n\n", vec!["a\n\nb"], None, None),
            ("\u{feff}data: a\n\n", vec!["a"], None, None),
            (": hello\n\n:\n\ndata: a\n: b\n\n", vec!["a"], None, None),
            ("id: 1\ndata: a\n\n", vec!["a"], Some("1"), None),
            ("id: 1\ndata: \n\n", vec![], Some("1"), None),
            ("id: 1\n\nid\n\n", vec![], None, None),
            ("id: 1\n\ndata: a\n\n", vec!["a"], Some("1"), None),
            ("id: 1\n\nid: 2\ndata: cut", vec![], Some("1"), None),
            ("id: 1\n\nid: a\0b\ndata: a\n\n", vec!["a"], Some("1"), None),
            (
                "event: message\ndata: a\n\nevent: endpoint\ndata: /m\n\n",
                vec!["a"],
                None,
                None,
            ),
            ("retry: 250\n\n", vec![], None, Some(250)),
            (
                "retry: -1\nretry: \nretry: 1s\ndata: a\n\n",
                vec!["a"],
                None,
                None,
            ),
            (
                "retry: 99999999999999999999999\n\n",
                vec![],
                None,
                Some(300_000),
            ),
            ("other: a\nnothing\ndata: a\n\n", vec!["a"], None, None),
            ("data: no end\n", vec![], None, None),
        ] {
            let expected = (
                messages.into_iter().map(str::to_owned).collect(),
                id.map(str::to_owned),
                retry,
            );
            assert_eq!(read(&[text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn an_event_has_a_limit_however_it_comes() {
        for text in [
            format!("data: {}\n\n", "x".repeat(2000)),
            "data: x\n".repeat(2000),
            "x".repeat(2000),
            format!(": {}", "x".repeat(2000)),
        ] {
            for size in [1, 7, 5000] {
                let mut events = Events::new(1000);
                let mut out = Vec::new();
                let mut pieces = text.as_bytes().chunks(size);
                let over = pieces.any(|piece| events.read(piece, &mut out) == Err(TooLong));
                assert!(over && out.is_empty(), "{} in pieces of {size}", text.len());
            }
        }
    }

    #[test]
    fn another_stream_forgets_what_was_cut_and_keeps_the_name() {
        let mut events = Events::new(1000);
        let mut out = Vec::new();
        events
            .read(b"id: 7\nretry: 5\ndata: a\n\ndata: cu", &mut out)
            .unwrap();
        events.begin_again();
        events.read(b"data: b\n\n", &mut out).unwrap();
        assert_eq!(out, [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(events.last_id(), Some(&b"7"[..]));
        assert_eq!(events.retry(), Some(Duration::from_millis(5)));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "data: {\"a\":1}", "data:", "id: 1-a", "id", "event: x", ": note", "retry: 10", "data: é",
                    "\n", "\r", "\r\n", "\n\n", "\u{feff}", "x",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(0_usize..8, 0..80),
        ) {
            let text = parts.concat();
            let whole = read(&[text.as_bytes()]);
            let (mut pieces, mut rest) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(read(&pieces), whole);
        }
    }
}
