//! A connection that writes a short answer as one buffer. hyper hands over head and body apart, and one buffer is less work for
//! the system than a list of two.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that joins short buffers before it writes them.
pub(crate) struct OneWrite<S>(pub(crate) S);

impl<S: AsyncRead + Unpin> AsyncRead for OneWrite<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, space)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OneWrite<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.0);
        let mut whole = [0; SHORT];
        match join(parts, &mut whole) {
            Some(length) => stream.poll_write(cx, &whole[..length]),
            None => stream.poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Copies all parts one after another, and returns their length. `None`: they are too long.
fn join(parts: &[IoSlice<'_>], whole: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    for part in parts {
        let end = length + part.len();
        whole.get_mut(length..end)?.copy_from_slice(part);
        length = end;
    }
    Some(length)
}

/// The most bytes that are copied.
const SHORT: usize = 1024;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Counts the writes of one buffer and of several.
    #[derive(Default)]
    struct Counts {
        written: Vec<u8>,
        single: usize,
        lists: usize,
    }

    impl AsyncWrite for Counts {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.single += 1;
            self.written.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.lists += 1;
            parts
                .iter()
                .for_each(|part| self.written.extend_from_slice(part));
            Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_is_short_is_written_as_one_and_what_is_long_is_not_copied() {
        for (length, single, lists) in [(10, 1, 0), (SHORT - 4, 1, 0), (SHORT - 3, 0, 1)] {
            let mut stream = OneWrite(Counts::default());
            let body = vec![b'b'; length];
            let parts = [IoSlice::new(b"head"), IoSlice::new(&body)];
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &parts)).await;
            assert_eq!(written.unwrap(), 4 + length);
            stream.flush().await.unwrap();
            let Counts { written, .. } = &stream.0;
            assert_eq!(*written, [b"head", &body[..]].concat());
            assert_eq!((stream.0.single, stream.0.lists), (single, lists));
        }
    }
}
