//! Messages as lines, over any pair of byte streams.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use lmcp_wire::{
    Envelope, Incoming,
    framing::{Framer, join_lines},
    jsonrpc,
};
use memchr::{memchr2, memmem};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::consume_budget,
    time::timeout,
};

use crate::{
    failures,
    limits::{ENOUGH_BYTES, FLUSHING, LINE_BYTES, MOST_LINES, RUBBISH_BYTES, UNREAD_BYTES},
};

type Reader = Pin<Box<dyn AsyncRead + Send>>;
type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Both directions, with the bytes that wait in each.
pub(super) struct Lines {
    /// `None` when it has ended.
    reader: Option<Reader>,
    /// `None` when it is closed, or the other side does not read any more.
    writer: Option<Writer>,
    /// Bytes that were read and are not yet a line.
    input: Framer,
    /// The number of bytes that were read since the last line.
    lineless: usize,
    /// Lines to be written; a part of the first may be written already.
    queue: VecDeque<Unwritten>,
    queue_bytes: usize,
    written: usize,
    was_full: bool,
    /// Answers to requests that are not sent, because the server does not read.
    refusals: VecDeque<Bytes>,
    /// The last line, if it is an error without an id: often the reason why the server closes.
    complaint: Option<String>,
    ended: Option<String>,
}

/// A line that waits to be written.
struct Unwritten {
    text: Bytes,
    /// The text ends with a line end. The line end of a long line is written separately, so that the line is not copied, and
    /// its memory is counted until it is written.
    has_end: bool,
}

impl Unwritten {
    fn new(line: Bytes) -> Self {
        if line.len() > SHORT && memchr2(b'\n', b'\r', &line).is_none() {
            return Self {
                text: line,
                has_end: false,
            };
        }
        let mut whole = BytesMut::with_capacity(line.len() + 1);
        whole.extend_from_slice(&line);
        join_lines(&mut whole);
        whole.extend_from_slice(b"\n");
        Self {
            text: whole.freeze(),
            has_end: true,
        }
    }

    /// Returns how many bytes are to be written.
    fn len(&self) -> usize {
        self.text.len() + usize::from(!self.has_end)
    }

    /// Returns the rest after the written bytes.
    fn after(&self, written: usize) -> &[u8] {
        match self.text.get(written..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => b"\n",
        }
    }

    fn into_line(mut self) -> Bytes {
        self.text
            .truncate(self.text.len() - usize::from(self.has_end));
        self.text
    }
}

/// An event of the lines.
pub(super) enum Output {
    Line(Bytes),
    /// The answer to a request that is not sent.
    Refusal(Bytes),
    Unsent(Bytes),
    Room,
    /// The end, in words that follow the name of the server.
    Ended(String),
}

impl Lines {
    pub(super) fn new(
        reader: impl AsyncRead + Send + 'static,
        writer: impl AsyncWrite + Send + 'static,
    ) -> Self {
        Self {
            reader: Some(Box::pin(reader)),
            writer: Some(Box::pin(writer)),
            input: Framer::new(LINE_BYTES),
            lineless: 0,
            queue: VecDeque::new(),
            queue_bytes: 0,
            written: 0,
            was_full: false,
            refusals: VecDeque::new(),
            complaint: None,
            ended: None,
        }
    }

    /// Queues a line. While too many lines wait, a request is answered here with an error, and is never sent. A long request
    /// is refused at half of the bytes that other lines have room for, so that it does not keep short requests out. A
    /// message without an answer has twice the room, and is dropped after that; so a server that reads late still gets
    /// cancellations.
    pub(super) fn send(&mut self, line: Bytes) {
        let (lines, bytes) = (self.queue.len(), self.queue_bytes);
        let is_past = |share: usize| lines >= share * MOST_LINES || bytes >= share * UNREAD_BYTES;
        let is_crowded = match line.len() > SHORT {
            true => is_past(1),
            false => lines >= MOST_LINES || is_past(2),
        };
        if is_crowded && let Envelope::Request { id, method, .. } = Envelope::read(&line) {
            let error = failures::unread(&method, self.queue.len());
            let refusal = jsonrpc::error(Some(&id), &error);
            return self.refusals.push_back(refusal.into());
        }
        if is_past(2) {
            return;
        }
        let line = Unwritten::new(line);
        self.queue_bytes += line.len();
        self.queue.push_back(line);
        self.was_full |= !self.has_room();
    }

    pub(super) fn has_room(&self) -> bool {
        self.queue_bytes < ENOUGH_BYTES
    }

    /// Returns the next event. Other tasks get their turns between the lines of a server that writes without pause.
    pub(super) async fn next(&mut self) -> Output {
        consume_budget().await;
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Closes the writing side.
    pub(super) fn hang_up(&mut self) {
        self.writer = None;
    }

    /// Writes the queued lines, within a second.
    pub(super) async fn flush(&mut self) {
        let written = poll_fn(|cx| {
            self.poll_write(cx);
            if self.queue.is_empty() || self.writer.is_none() {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let _ = timeout(FLUSHING, written).await;
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Output> {
        self.poll_write(cx);
        if let Some(refusal) = self.refusals.pop_front() {
            return Poll::Ready(Output::Refusal(refusal));
        }
        if self.was_full && self.has_room() {
            self.was_full = false;
            return Poll::Ready(Output::Room);
        }
        for _ in 0..READS {
            match self.input.next_frame() {
                Some(Ok(mut line)) => {
                    self.lineless = 0;
                    self.complaint = complaint(&line);
                    // A carriage return between two tokens would end a line of an event stream.
                    join_lines(&mut line);
                    let line = Bytes::from(line);
                    return Poll::Ready(Output::Line(line.slice_ref(line.trim_ascii())));
                }
                // A line of this length would exceed the limit, so the bytes are blank lines.
                None if self.lineless > LINE_BYTES + RUBBISH_BYTES => {
                    self.end(format!("sent {RUBBISH_BYTES} bytes of blank lines"));
                }
                None if !self.input.is_past_limit() => {}
                _ => self.end(format!("sent a line of more than {LINE_BYTES} bytes")),
            }
            let Some(reader) = &mut self.reader else {
                return Poll::Ready(self.last_words());
            };
            let mut space = [MaybeUninit::uninit(); READ];
            let mut read = ReadBuf::uninit(&mut space);
            match reader.as_mut().poll_read(cx, &mut read) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if read.filled().is_empty() => {
                    let complaint = self.complaint.take();
                    let words = complaint.map(|words| format!("hung up: {words}"));
                    self.end(words.unwrap_or_else(|| "hung up".to_owned()));
                }
                Poll::Ready(Ok(())) => {
                    self.lineless += read.filled().len();
                    self.input.buffer().extend_from_slice(read.filled());
                }
                Poll::Ready(Err(err)) => self.end(format!("cannot be read: {err}")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn end(&mut self, why: String) {
        self.reader = None;
        self.writer = None;
        self.input = Framer::new(LINE_BYTES);
        self.ended.get_or_insert(why);
    }

    /// Hands back lines that were never written, then reports the end.
    fn last_words(&mut self) -> Output {
        if std::mem::take(&mut self.written) > 0
            && let Some(torn) = self.queue.pop_front()
        {
            self.queue_bytes -= torn.len();
        }
        match self.queue.pop_front() {
            Some(line) => {
                self.queue_bytes -= line.len();
                Output::Unsent(line.into_line())
            }
            None => Output::Ended(self.ended.clone().unwrap_or_default()),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) {
        while let (Some(writer), Some(line)) = (&mut self.writer, self.queue.front()) {
            match writer.as_mut().poll_write(cx, line.after(self.written)) {
                Poll::Pending => return,
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.written += count;
                    if self.written == line.len() {
                        self.queue_bytes -= line.len();
                        self.queue.pop_front();
                        self.written = 0;
                    }
                }
                // The other side does not read any more. Its earlier messages may still be read here.
                Poll::Ready(_) => self.writer = None,
            }
        }
        if let Some(writer) = &mut self.writer {
            let _ = writer.as_mut().poll_flush(cx);
        }
    }
}

/// Returns the words of an error without an id.
fn complaint(line: &[u8]) -> Option<String> {
    let is_short = line.len() <= COMPLAINT_BYTES;
    if !is_short || memmem::find(line, b"\"error\"").is_none() {
        return None;
    }
    match Incoming::parse(line) {
        Ok(Incoming::Response {
            id: None,
            outcome: Err(error),
        }) => Some(error.message.into_owned()),
        _ => None,
    }
}

/// The longest line that is checked for a complaint, in bytes.
const COMPLAINT_BYTES: usize = 4096;

/// The greatest length of a short line, in bytes.
const SHORT: usize = 64 << 10;

/// The number of bytes that are read at once.
const READ: usize = 16 << 10;

/// The number of reads before other tasks get a turn.
const READS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that writes the same bytes for ever, as fast as they are read.
    struct Flood(&'static [u8]);

    impl AsyncRead for Flood {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            space: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let count = space.remaining() / self.0.len();
            space.put_slice(&self.0.repeat(count));
            Poll::Ready(Ok(()))
        }
    }

    const BLANK: &[u8] = concat!(
        "                                                                ",
        "                                                               \n"
    )
    .as_bytes();

    #[tokio::test]
    async fn a_flood_of_lines_leaves_turns_to_other_tasks() {
        for said in [&b"x\n"[..], b"\n"] {
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async move {
                let mut lines = Lines::new(Flood(said), tokio::io::sink());
                for _ in 0..100_000 {
                    if let Output::Ended(_) = lines.next().await {
                        return;
                    }
                }
            });
            tokio::task::yield_now().await;
            let has_ended = tasks.try_join_next().is_some();
            assert!(!has_ended, "other tasks had to wait for all of it");
        }
    }

    /// A stream whose other side never reads.
    struct Deaf;

    impl AsyncWrite for Deaf {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
        let long = "x".repeat(1 << 20);
        let request = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":["{long}"]}}"#);
        let news = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{long}"]}}"#);
        for (line, most) in [(&request, UNREAD_BYTES), (&news, 2 * UNREAD_BYTES)] {
            let mut lines = Lines::new(tokio::io::empty(), Deaf);
            for _ in 0..100 {
                lines.send(line.clone().into());
            }
            assert!(lines.queue_bytes < most + line.len() + 1);
        }
        let mut lines = Lines::new(tokio::io::empty(), Deaf);
        let pong = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for _ in 0..3 * MOST_LINES {
            lines.send(Bytes::from_static(pong));
        }
        assert_eq!(lines.queue.len(), 2 * MOST_LINES);
        lines.send(request.into());
        let Output::Refusal(refused) = lines.next().await else {
            panic!("the request is answered");
        };
        let refused: serde_json::Value = serde_json::from_slice(&refused).unwrap();
        assert_eq!(refused["id"], 7);
        assert_eq!(refused["error"]["data"]["retriable"], true);
        let words = refused["error"]["message"].as_str().unwrap();
        assert!(words.contains("does not read"), "{words}");
    }

    #[tokio::test]
    async fn long_lines_of_others_keep_no_short_request_out() {
        let mut lines = Lines::new(tokio::io::empty(), Deaf);
        let long = format!(
            r#"{{"id":1,"method":"m","params":["{}"]}}"#,
            "x".repeat(8 << 20)
        );
        for _ in 0..3 {
            lines.send(long.clone().into());
        }
        assert_eq!((lines.queue.len(), lines.refusals.len()), (2, 1));
        lines.send(Bytes::from_static(
            br#"{"jsonrpc":"2.0","id":2,"method":"m"}"#,
        ));
        assert_eq!((lines.queue.len(), lines.refusals.len()), (3, 1));
    }

    /// A server that takes so many bytes, and hangs up.
    struct Takes(usize);

    impl AsyncWrite for Takes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_line_comes_back_only_if_the_server_has_no_part_of_it() {
        for length in [3, 2 * SHORT] {
            // All but the end of the line: the server may have understood it.
            for (written, back) in [
                (0, 2),
                (1, 1),
                (length, 1),
                (length + 1, 1),
                (length + 2, 0),
            ] {
                let mut lines = Lines::new(tokio::io::empty(), Takes(written));
                let sent = ["a", "b"].map(|letter| Bytes::from(letter.repeat(length)));
                sent.iter().for_each(|line| lines.send(line.clone()));
                let mut unsent = Vec::new();
                while let Output::Unsent(line) = lines.next().await {
                    unsent.push(line);
                }
                assert!(unsent == sent[2 - back..], "{written} of {length}");
                assert_eq!(lines.queue_bytes, 0);
            }
        }
    }

    #[tokio::test]
    async fn lines_of_every_length_are_written_one_below_the_other() {
        let (here, mut there) = tokio::io::duplex(1000);
        let mut lines = Lines::new(tokio::io::empty(), here);
        let (short, long) = ("a\rb".to_owned(), "x".repeat(3 * SHORT));
        for line in [&short, &long, &short] {
            lines.send(line.clone().into());
        }
        let mut read = String::new();
        let reading = tokio::io::AsyncReadExt::read_to_string(&mut there, &mut read);
        let writing = async {
            lines.flush().await;
            lines.hang_up();
        };
        let (read_all, ()) = tokio::join!(reading, writing);
        read_all.unwrap();
        assert_eq!(read, format!("a b\n{long}\na b\n"));
    }

    #[tokio::test]
    async fn a_carriage_return_between_tokens_goes_no_further() {
        let mut lines = Lines::new(&b"{\"a\":\r1}\r\n"[..], tokio::io::sink());
        match lines.next().await {
            Output::Line(line) => assert_eq!(line, r#"{"a": 1}"#),
            _ => panic!("a line is told"),
        }
    }

    #[tokio::test]
    async fn a_server_that_hangs_up_is_quoted_with_its_last_line() {
        let refusal = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"who are you?\"}}\n";
        let answer =
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,\"message\":\"no\"}}\n";
        for (said, expected) in [
            (refusal.to_owned(), "hung up: who are you?"),
            (format!("{refusal}{answer}"), "hung up"),
            (answer.to_owned(), "hung up"),
        ] {
            let said = std::io::Cursor::new(said.into_bytes());
            let mut lines = Lines::new(said, tokio::io::sink());
            let ended = loop {
                if let Output::Ended(why) = lines.next().await {
                    break why;
                }
            };
            assert_eq!(ended, expected);
        }
    }

    #[tokio::test]
    async fn a_server_that_writes_nothing_but_blank_lines_is_left() {
        let mut lines = Lines::new(Flood(BLANK), tokio::io::sink());
        match lines.next().await {
            Output::Ended(why) => assert!(why.contains("blank lines"), "{why}"),
            _ => panic!("a blank line is no line"),
        }
    }
}
