//! A tunnel through a proxy (`CONNECT`): the proxy sees the host and the port, and after that only encrypted bytes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{Error, Url, connection::Stream, limits::PROXY_HEAD_BYTES, proxies::Proxy};

/// Asks a proxy for a tunnel to the host of a URL.
pub(crate) async fn open(mut stream: Stream, proxy: &Proxy, url: &Url) -> Result<Stream, Error> {
    let broken = |why: &dyn std::fmt::Display| {
        Error::Unreachable(format!("the proxy `{proxy}` hung up: {why}"))
    };
    let host = format!("{}:{}", url.host(), url.port());
    let mut request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let written = stream.write_all(&request).await;
    written.map_err(|err| broken(&err))?;
    stream.flush().await.map_err(|err| broken(&err))?;
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head_end(&head) {
            break end;
        }
        if head.len() > PROXY_HEAD_BYTES {
            return Err(refused(proxy, &host, "answers without end"));
        }
        let read = stream.read_buf(&mut head).await;
        if read.map_err(|err| broken(&err))? == 0 {
            return Err(broken(&"no answer came"));
        }
    };
    let status = status(&head);
    match status {
        // A host sends nothing before the client does, so these bytes would come from the proxy.
        Some(200..=299) if end < head.len() => Err(refused(proxy, &host, "says too much")),
        Some(200..=299) => Ok(stream),
        Some(407) => Err(proxy.unauthorized()),
        Some(status @ 500..=599) => Err(Error::Unreachable(format!(
            "the proxy `{proxy}` cannot reach `{host}` ({status})"
        ))),
        Some(status) => Err(refused(
            proxy,
            &host,
            &format!("does not let us go there ({status})"),
        )),
        None => Err(refused(proxy, &host, "does not answer as a proxy does")),
    }
}

fn refused(proxy: &Proxy, host: &str, why: &str) -> Error {
    Error::Refused(format!("the proxy `{proxy}`, asked for `{host}`, {why}"))
}

/// Returns the end of the head.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut places = bytes.windows(4);
    let at = places.position(|window| window == b"\r\n\r\n");
    at.map(|at| at + 4)
}

/// Returns the status, if this is an answer of HTTP/1.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let digits = words.next().filter(|digits| is_http && digits.len() == 3)?;
    digits.parse().ok()
}
