//! Log lines on stderr, at the requested level. Writing them never blocks.
//!
//! The program that started a server may never read its standard error. A pipe takes 64 KiB; a server that waited for room
//! in it would answer nobody any more. So a line that does not fit is left out, and the next line that fits says how many
//! are missing.

use std::{
    io::{self, Write, stderr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::EnvFilter;

/// Starts the log. `RUST_LOG` wins over `-v`. Quiet means that the terminal belongs to another program.
pub(crate) fn start(verbose: u8, is_quiet: bool) {
    let default = match verbose {
        0 if is_quiet => "off",
        0 => "warn",
        1 => "info,lmcp=debug,lmcp_core=debug,lmcp_http=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = Log::default();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || log.clone())
        .with_ansi(false)
        .init();
}

/// Standard error, written without waiting.
#[derive(Clone, Default)]
struct Log {
    /// The number of lines that were left out since the last one that was written.
    left_out: Arc<AtomicUsize>,
}

impl Write for Log {
    /// Accepts a whole line, even if it is not written.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let words =
                format!("{left_out} lines of the log are left out here: nobody read them\n");
            if !put(words.as_bytes()) {
                self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
                return Ok(line.len());
            }
        }
        if !put(line) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes as much of a line as there is room for, in pieces that a pipe with room takes at once. False: a part is missing.
fn put(line: &[u8]) -> bool {
    let mut stderr = stderr().lock();
    for piece in line.chunks(PIECE) {
        let mut asked = [PollFd::from_borrowed_fd(
            rustix::stdio::stderr(),
            PollFlags::OUT,
        )];
        let at_once = Timespec::default();
        let has_room = poll(&mut asked, Some(&at_once)).is_ok_and(|count| count > 0);
        if !has_room || stderr.write_all(piece).is_err() {
            return false;
        }
    }
    true
}

/// `PIPE_BUF`: a pipe that reports room takes this many bytes without blocking.
const PIECE: usize = 4096;
