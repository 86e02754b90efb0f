//! The standard input of a child process.
//!
//! The runtime watches the pipe only while it is full. A watched pipe wakes this program each time the child has read, although
//! there is nothing to do: one more turn of the runtime for every call.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::io::ioctl_fionbio;
use tokio::{io::AsyncWrite, net::unix::pipe::Sender, process::ChildStdin};

/// The end of the pipe that is written to. Dropping it closes the pipe.
pub(super) struct Input(Option<Pipe>);

enum Pipe {
    /// A write may succeed at once.
    Open(File),
    /// The pipe was full at the last write.
    Full(Sender),
}

impl Input {
    pub(super) fn new(pipe: ChildStdin) -> io::Result<Self> {
        let pipe = File::from(pipe.into_owned_fd()?);
        ioctl_fionbio(&pipe, true)?;
        Ok(Self(Some(Pipe::Open(pipe))))
    }

    fn watch(&mut self) -> io::Result<()> {
        self.0 = match self.0.take() {
            Some(Pipe::Open(pipe)) => {
                let watched = Sender::from_owned_fd_unchecked(pipe.into())?;
                Some(Pipe::Full(watched))
            }
            other => other,
        };
        Ok(())
    }

    fn unwatch(&mut self) -> io::Result<()> {
        self.0 = match self.0.take() {
            Some(Pipe::Full(pipe)) => {
                let unwatched = pipe.into_nonblocking_fd()?;
                Some(Pipe::Open(unwatched.into()))
            }
            other => other,
        };
        Ok(())
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.0 {
                None => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
                Some(Pipe::Open(pipe)) => match pipe.write(bytes) {
                    Err(err) if err.kind() == ErrorKind::WouldBlock => self.watch()?,
                    Err(err) if err.kind() == ErrorKind::Interrupted => {}
                    written => return Poll::Ready(written),
                },
                Some(Pipe::Full(pipe)) => {
                    let written = ready!(Pin::new(pipe).poll_write(cx, bytes));
                    self.unwatch()?;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::{io::AsyncWriteExt as _, process::Command};

    use super::*;

    #[tokio::test]
    async fn more_than_a_pipe_holds_reaches_the_child_whole_and_in_order() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = Input::new(child.stdin.take().unwrap()).unwrap();
        let said: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let writing = async {
            input.write_all(&said).await.unwrap();
            input.shutdown().await.unwrap();
        };
        let ((), heard) = tokio::join!(writing, child.wait_with_output());
        assert!(heard.unwrap().stdout == said);
    }

    #[tokio::test]
    async fn a_child_that_is_gone_is_an_error() {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let mut input = Input::new(child.stdin.take().unwrap()).unwrap();
        child.wait().await.unwrap();
        let refused = input.write_all(b"anybody there?\n").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    }
}
