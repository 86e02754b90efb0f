//! A body, decoded as it comes and never more of it than wanted: a few kilobytes of gzip can hold gigabytes.

use std::io::{self, Write};

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::Incoming;

use super::{Deadline, Ending, Memory};

/// Whom a body comes from, and for whom.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) host: &'a str,
    pub(super) deadline: Deadline,
    pub(super) cx: &'a Cx,
}

/// The body, how it ended, and the memory that is set aside for it. Once the limit is met nothing more is read.
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
    // What came before the end that was not expected is still of use.
    let finished = decoder.finish();
    let ending = match taken {
        Err(err) => Ending::Broken(err),
        Ok(Taken::TooMuch) => Ending::TooLong,
        Ok(_) if decoder.is_full() => Ending::TooLong,
        // An empty body is nothing that was compressed, but servers say so.
        Ok(Taken::Nothing) => Ending::Whole,
        Ok(Taken::All) => match finished {
            Ok(()) => Ending::Whole,
            Err(err) => Ending::Broken(is_broken(from.host, err)),
        },
    };
    Ok((decoder.into_bytes(), ending, memory))
}

/// Taken at once, in bytes.
const PIECE: usize = 16 * 1024;
/// The same of what is compressed, and what that may become: a thousand times as much.
const PACKED: usize = 64;
const UNPACKED: usize = 72 * 1024;

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
    let mut received = 0;
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
    /// Which of the two ways to write it, the first byte tells.
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

    /// Takes in more; true once the limit is met.
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

    /// How much is taken in at once, and what that may become.
    fn step(&self) -> (usize, usize) {
        match self {
            Self::Plain(_) => (PIECE, PIECE),
            Self::Gzip(_) | Self::Deflate(_) | Self::Zlib(_) | Self::RawDeflate(_) => {
                (PACKED, UNPACKED)
            }
        }
    }

    /// So much is decoded.
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

/// Holds so many bytes and takes no more.
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
