//! Reads a body, decodes it as it comes, and stops at the limit: a few kilobytes of gzip can hold gigabytes.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::Incoming;
use tokio::task::yield_now;

use super::{Deadline, Ending, Memory};

/// The host that a body comes from, and the call that it is for.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) host: &'a str,
    pub(super) deadline: Deadline,
    pub(super) cx: &'a Cx,
}

/// Returns the body, how it ended, and the memory that is reserved for it. Once the limit is reached nothing
/// more is read.
pub(super) async fn read(
    incoming: Incoming,
    headers: &HeaderMap,
    limit: usize,
    from: From<'_>,
) -> ToolResult<(Vec<u8>, Ending, Memory)> {
    let mut memory = Memory::default();
    if limit == 0 {
        return Ok((Vec::new(), Ending::Whole, memory));
    }
    let mut decoder = Decoder::new(headers, limit)?;
    let taken = take(incoming, &mut decoder, limit, &mut memory, from).await;
    // Data that came before an unexpected end is still of use.
    let finished = decoder.finish();
    let ending = match taken {
        Err(err) => Ending::Broken(err),
        Ok(Taken::TooMuch) => Ending::TooLong,
        Ok(_) if decoder.is_full() => Ending::TooLong,
        // An empty body cannot be compressed, but some servers say that it is.
        Ok(Taken::Nothing) => Ending::Whole,
        Ok(Taken::All) => match finished {
            Ok(()) => Ending::Whole,
            Err(err) => Ending::Broken(is_broken(from.host, err)),
        },
    };
    Ok((decoder.into_bytes(), ending, memory))
}

/// The bytes that are taken at once.
const PIECE: usize = 16 * 1024;
/// The bytes of compressed data that are taken at once, and what they may become: a thousand times as much.
const PACKED: usize = 64;
const UNPACKED: usize = 72 * 1024;

/// Data that is many bytes longer than what it decodes to consists of empty parts, which cost far more time than they have bytes.
const EXCESS: usize = 64 * 1024;
/// After so much compressed data, other callers get their turn: parts that decode to little cost most.
const TURN: usize = 4 * 1024;

enum Taken {
    Nothing,
    All,
    TooMuch,
}

async fn take(
    mut incoming: Incoming,
    decoder: &mut Decoder,
    limit: usize,
    memory: &mut Memory,
    From { host, deadline, cx }: From<'_>,
) -> ToolResult<Taken> {
    let (mut received, mut packed, mut turn) = (0, 0, 0);
    loop {
        let step = format!("{received} bytes into the body from `{host}`");
        let Some(frame) = deadline.limit(&step, incoming.frame()).await? else {
            return Ok(match received {
                0 => Taken::Nothing,
                _ => Taken::All,
            });
        };
        let frame = frame.map_err(|err| {
            ToolError::new(format!(
                "the body from `{host}` ended after {received} bytes"
            ))
            .source(err)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        received += data.len();
        let (piece, most) = decoder.step();
        for piece in data.chunks(piece) {
            memory.hold(decoder.len() + most, cx).await?;
            if decoder.write(piece).map_err(|err| is_broken(host, err))? {
                return Ok(Taken::TooMuch);
            }
            if matches!(decoder, Decoder::Plain(_)) {
                continue;
            }
            turn += piece.len();
            packed += piece.len();
            if packed > decoder.len() + EXCESS {
                return Err(ToolError::new(format!(
                    "the compressed body from `{host}` has {EXCESS} bytes more than its content"
                )));
            }
            if turn >= TURN {
                turn = 0;
                yield_now().await;
            }
        }
        // Data that decodes to nothing could go on for ever.
        if received > limit {
            return Ok(Taken::TooMuch);
        }
    }
}

fn is_broken(host: &str, err: io::Error) -> ToolError {
    ToolError::new(format!("the compressed body from `{host}` is broken")).source(err)
}

enum Decoder {
    Plain(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
    /// Deflate has two forms; the first byte tells which.
    Deflate(Option<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
    RawDeflate(DeflateDecoder<Bounded>),
}

impl Decoder {
    fn new(headers: &HeaderMap, limit: usize) -> ToolResult<Self> {
        let sink = Bounded {
            bytes: Vec::new(),
            limit,
            full: false,
        };
        let coding = headers.get(header::CONTENT_ENCODING);
        let coding =
            coding.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
        match coding.as_deref().unwrap_or_default().trim() {
            "" | "identity" => Ok(Self::Plain(sink)),
            "gzip" | "x-gzip" => Ok(Self::Gzip(MultiGzDecoder::new(sink))),
            "deflate" => Ok(Self::Deflate(Some(sink))),
            other => Err(ToolError::new(format!(
                "the body is compressed with `{other}`, which was not asked for"
            ))),
        }
    }

    /// Decodes more data. Returns true once the limit is reached.
    fn write(&mut self, data: &[u8]) -> io::Result<bool> {
        if let Self::Deflate(sink) = self {
            let Some(first) = data.first() else {
                return Ok(false);
            };
            let sink = sink.take().unwrap_or_default();
            *self = if first & 0x0f == 8 {
                Self::Zlib(ZlibDecoder::new(sink))
            } else {
                Self::RawDeflate(DeflateDecoder::new(sink))
            };
        }
        let written = match self {
            Self::Plain(sink) => sink.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
            Self::Zlib(decoder) => decoder.write_all(data),
            Self::RawDeflate(decoder) => decoder.write_all(data),
            Self::Deflate(_) => Ok(()),
        };
        if self.is_full() {
            Ok(true)
        } else {
            written.map(|()| false)
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let finished = match self {
            Self::Plain(_) | Self::Deflate(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::RawDeflate(decoder) => decoder.try_finish(),
        };
        if self.is_full() { Ok(()) } else { finished }
    }

    /// Returns how many bytes are taken at once, and how many they may become.
    fn step(&self) -> (usize, usize) {
        match self {
            Self::Plain(_) => (PIECE, PIECE),
            Self::Gzip(_) | Self::Deflate(_) | Self::Zlib(_) | Self::RawDeflate(_) => {
                (PACKED, UNPACKED)
            }
        }
    }

    /// Returns how many bytes are decoded.
    fn len(&self) -> usize {
        match self {
            Self::Plain(sink) => sink.bytes.len(),
            Self::Gzip(decoder) => decoder.get_ref().bytes.len(),
            Self::Zlib(decoder) => decoder.get_ref().bytes.len(),
            Self::RawDeflate(decoder) => decoder.get_ref().bytes.len(),
            Self::Deflate(_) => 0,
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Plain(sink) => sink.full,
            Self::Gzip(decoder) => decoder.get_ref().full,
            Self::Zlib(decoder) => decoder.get_ref().full,
            Self::RawDeflate(decoder) => decoder.get_ref().full,
            Self::Deflate(_) => false,
        }
    }

    fn into_bytes(mut self) -> Vec<u8> {
        let sink = match &mut self {
            Self::Plain(sink) => sink,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::RawDeflate(decoder) => decoder.get_mut(),
            Self::Deflate(sink) => sink.get_or_insert_default(),
        };
        std::mem::take(&mut sink.bytes)
    }
}

/// A buffer that takes only so many bytes.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = self.limit.saturating_sub(self.bytes.len());
        let taken = room.min(data.len());
        self.bytes.extend_from_slice(&data[..taken]);
        if taken < data.len() {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
