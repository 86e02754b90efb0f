//! HTTP/1.1 over one socket: a request out, an answer in, and again.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::headers::Headers;
use crate::transcript::HttpPart;

pub(crate) struct Connection(BufReader<TcpStream>);

/// The status line and the headers of an answer.
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Headers,
}

/// How the end of a body is told.
pub(crate) enum Framing {
    /// So many bytes are left.
    Length(usize),
    Chunked,
    Ended,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await;
        stream
            .map(|stream| Self(BufReader::new(stream)))
            .map_err(|err| format!("cannot connect: {err}"))
    }

    pub(crate) async fn send(
        &mut self,
        part: &HttpPart,
        headers: &Headers,
        body: &[u8],
    ) -> Result<(), String> {
        let verb = part.verb.as_deref().unwrap_or("POST");
        let path = part.path.as_deref().unwrap_or("/mcp");
        let mut request = format!("{verb} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let request = [request.as_bytes(), body].concat();
        let written = self.0.write_all(&request).await;
        written.map_err(|err| format!("cannot send: {err}"))
    }

    pub(crate) async fn read_head(&mut self) -> Result<Head, String> {
        let line = self.read_line().await?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("not a status line: {line}"))?;
        let mut headers = Headers::new();
        loop {
            let line = self.read_line().await?;
            if line.is_empty() {
                return Ok(Head { status, headers });
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| format!("not a header: {line}"))?;
            headers.push((name.into(), value.trim().into()));
        }
    }

    /// A piece of the body; `None` at its end.
    pub(crate) async fn read_piece(
        &mut self,
        framing: &mut Framing,
    ) -> Result<Option<Vec<u8>>, String> {
        match framing {
            Framing::Ended => Ok(None),
            Framing::Length(length) => {
                let length = std::mem::take(length);
                *framing = Framing::Ended;
                self.read_exact(length).await.map(Some)
            }
            Framing::Chunked => {
                let line = self.read_line().await?;
                let length = usize::from_str_radix(&line, 16)
                    .map_err(|_| format!("not the length of a chunk: {line}"))?;
                let piece = self.read_exact(length).await?;
                self.read_line().await?;
                if length > 0 {
                    return Ok(Some(piece));
                }
                *framing = Framing::Ended;
                Ok(None)
            }
        }
    }

    async fn read_exact(&mut self, length: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; length];
        match self.0.read_exact(&mut bytes).await {
            Ok(_) => Ok(bytes),
            Err(err) => Err(format!("the body broke off: {err}")),
        }
    }

    async fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.0.read_line(&mut line).await {
            Ok(_) if line.ends_with("\r\n") => Ok(line.trim_end().into()),
            Ok(_) => Err(format!("the server closed the connection after `{line}`")),
            Err(err) => Err(format!("cannot read: {err}")),
        }
    }
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn framing(&self) -> Result<Framing, String> {
        if self.status == 204 {
            return Ok(Framing::Ended);
        }
        match (
            self.header("transfer-encoding"),
            self.header("content-length"),
        ) {
            (Some("chunked"), None) => Ok(Framing::Chunked),
            (None, Some(length)) => length
                .parse()
                .map(Framing::Length)
                .map_err(|_| format!("not a length: {length}")),
            _ => Err("the answer does not say where it ends".into()),
        }
    }

    /// Nobody uses a connection again that is closed, or whose last body was not read to its end.
    pub(crate) fn is_last(&self) -> bool {
        self.header("connection") == Some("close") || self.status == 413
    }
}
