//! What the server and the guard of a command say to each other: one JSON value a line.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{long, rights::Rights};

/// The first line to a guard: what to run. It is also what a job is started again from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Where output and end are recorded.
    pub(crate) dir: PathBuf,
    pub(crate) argv: Vec<String>,
    /// Is the last word a line that a shell runs?
    #[serde(default)]
    pub(crate) is_line: bool,
    /// The last word is not here: so many bytes follow the order on the socket, as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line_follows: Option<usize>,
    pub(crate) env: BTreeMap<String, String>,
    /// The tool chain of the session that started it; the server's, where that is not known.
    #[serde(default)]
    pub(crate) session: Option<BTreeMap<String, String>>,
    /// What the umask of that session takes from the modes of new files, beside that of the server.
    #[serde(default)]
    pub(crate) umask: u32,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Stdin,
    /// Run it on a terminal of this size.
    pub(crate) tty: Option<Size>,
    /// After this time it is stopped.
    pub(crate) timeout_ms: Option<u64>,
    /// From TERM to KILL.
    pub(crate) grace_ms: u64,
    /// A job from the start.
    pub(crate) keep: bool,
    /// Ends with the server even if it is a job: nobody could find it again, and its record goes with it.
    #[serde(default)]
    pub(crate) passing: bool,
    /// Ends with the conversation it was started in, even if it is a job.
    #[serde(default)]
    pub(crate) with_session: bool,
    /// How much output is recorded; of more, the beginning and the end.
    pub(crate) spool_bytes: u64,
    /// What the command may do, for those who come to the guard's socket. Not recorded with the order.
    #[serde(default)]
    pub(crate) rights: Rights,
    /// Where the command may go, if that is confined.
    pub(crate) fence: Option<Fence>,
    /// What whoever comes to the guard's socket must know.
    pub(crate) key: String,
    /// The guard's standard output is a file that gets the command's output, too.
    pub(crate) log: bool,
}

/// What a command reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stdin {
    Closed,
    /// The content of a file, then the end. The guard finds the file open as its own standard error.
    Given,
    /// What is sent later.
    Open,
}

impl Order {
    /// The command as its caller wrote it.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self.argv.last() {
            Some(line) if self.is_line => Cow::Borrowed(line),
            _ => Cow::Owned(self.argv.join(" ")),
        }
    }

    /// Takes the line out that is too long for a command line. It may have megabytes, of which an order would be one copy, and
    /// the message with the order another.
    pub(super) fn take_long_line(&mut self) -> Option<String> {
        if !long::is_long_line(self) {
            return None;
        }
        let line = std::mem::take(self.argv.last_mut()?);
        self.line_follows = Some(line.len());
        Some(line)
    }

    /// Puts it back.
    pub(super) fn put_line(&mut self, line: String) {
        self.line_follows = None;
        if let Some(last) = self.argv.last_mut() {
            *last = line;
        }
    }

    /// Reads the line that follows an order.
    pub(super) fn read_line(&mut self, from: &mut impl Read) -> io::Result<()> {
        let Some(bytes) = self.line_follows else {
            return Ok(());
        };
        let mut line = String::with_capacity(bytes);
        from.take(bytes as u64).read_to_string(&mut line)?;
        if line.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.put_line(line);
        Ok(())
    }
}

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) cols: u16,
}

/// What a confined command may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    /// Everything below these.
    pub(crate) write: Vec<Folder>,
    /// Reading and running below these.
    pub(crate) read: Vec<Folder>,
}

/// A folder by its path, and which one it was when the server looked: what is put in its place is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folder {
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub(crate) path: PathBuf,
    #[serde(flatten)]
    pub(crate) id: Id,
}

/// Which folder it is. The number of a folder that was removed is soon another's, so the time at which it was made is part of
/// it where the file system knows that; a record from before that was kept is of no folder that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Id {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// In nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<i64>,
}

fn is_nowhere(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// From the server to a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// The first that is said by who came through the socket.
    Hello {
        key: String,
        /// It stays to hear what happens, and gives up its place for one who comes to do something.
        #[serde(default)]
        follows: bool,
    },
    /// More for its stdin; then perhaps the end of it.
    Input {
        text: String,
        eof: bool,
    },
    /// A signal to the command's process group, by number.
    Signal {
        number: i32,
    },
    /// TERM to everything, and KILL after a while.
    Stop {
        grace_ms: u64,
    },
    Resize(Size),
    /// Say whether it waits for input.
    Look,
    /// Let other servers in, and be listed.
    Open,
    /// That, and go on when the server is gone.
    Keep,
}

/// From a guard to the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Started {
        pid: i32,
    },
    /// It could not be started.
    Failed {
        error: String,
    },
    /// There are so many bytes of output, kept like this.
    Grown {
        bytes: u64,
        #[serde(flatten)]
        extent: Extent,
    },
    Ended(End),
    /// Whether it waits for input on its terminal.
    Looks {
        waits: Option<Waits>,
    },
    /// What was asked is done.
    Done,
    /// It is not, and why.
    Refused {
        why: String,
    },
}

/// Does a command wait for somebody to type?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Waits {
    /// It sleeps in reading its terminal.
    Yes,
    /// It sleeps, and its terminal is set for keys.
    Maybe,
}

impl Waits {
    /// For the line that says how a job is.
    pub(crate) fn words(waits: Option<Self>) -> &'static str {
        match waits {
            None => "",
            Some(Self::Yes) => ", waits for input",
            Some(Self::Maybe) => ", may be waiting for input",
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) exit_code: Option<i32>,
    /// The number of the signal that ended it.
    pub(crate) signal: Option<i32>,
    /// It was never run, and why: the last step before it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_run: Option<String>,
    /// It was stopped because its time was over.
    pub(crate) timed_out: bool,
    /// It was stopped because somebody asked for it.
    pub(crate) stopped: bool,
    pub(crate) duration_ms: u64,
    /// Of the command and all that it waited for.
    pub(crate) cpu_ms: u64,
    /// Of the largest process among them.
    pub(crate) peak_memory_bytes: u64,
    /// Processes that it left behind.
    pub(crate) left_running: Vec<i32>,
    /// All output, recorded or not.
    pub(crate) bytes: u64,
    #[serde(flatten)]
    pub(crate) extent: Extent,
    /// How much of it is kept nowhere, because it could not be recorded.
    #[serde(default)]
    pub(crate) lost: u64,
    /// Why not all of it could be recorded: the disk is full, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_recorded: Option<String>,
    /// Seconds since 1970.
    pub(crate) ended_at: u64,
}

/// What of a command's output is kept, and where.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// What is not kept, from the first offset to before the second.
    pub(crate) dropped: Option<(u64, u64)>,
    /// It is not in the command's folder, because it could not be recorded there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<InMemory>,
}

/// Files in memory that the guard of a command has open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct InMemory {
    /// The guard's process.
    pub(crate) guard: i32,
    /// The number of the open file with the output,
    pub(crate) output: i32,
    /// and of that with the changes of the stream.
    pub(crate) marks: i32,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_line_is_no_part_of_the_order_and_follows_it_as_it_is() {
        let line = "\n".repeat(1 << 20);
        let mut order: Order = serde_json::from_value(json!({
            "dir": "/", "argv": ["/bin/sh", "-c", line], "is_line": true, "env": {}, "cwd": "/", "stdin": "closed", "tty": null,
            "timeout_ms": null, "grace_ms": 0, "keep": false, "spool_bytes": 0, "fence": null, "key": "", "log": false,
        }))
        .unwrap();
        let place = order.argv[2].as_ptr();
        let taken = order.take_long_line().unwrap();
        assert_eq!(taken.as_ptr(), place, "it was moved and not copied");
        let told = serde_json::to_vec(&order).unwrap();
        assert!(told.len() < 1024, "{} bytes", told.len());
        let mut heard: Order = serde_json::from_slice(&told).unwrap();
        heard.read_line(&mut taken.as_bytes()).unwrap();
        assert_eq!(heard.argv[2], line);
        let mut cut: Order = serde_json::from_slice(&told).unwrap();
        assert!(cut.read_line(&mut &taken.as_bytes()[1..]).is_err());
    }

    #[test]
    fn a_line_of_usual_length_stays_in_its_order() {
        let mut order: Order = serde_json::from_value(json!({
            "dir": "/", "argv": ["/bin/sh", "-c", "true"], "is_line": true, "env": {}, "cwd": "/", "stdin": "closed", "tty": null,
            "timeout_ms": null, "grace_ms": 0, "keep": false, "spool_bytes": 0, "fence": null, "key": "", "log": false,
        }))
        .unwrap();
        assert_eq!(order.take_long_line(), None);
        assert_eq!(order.argv[2], "true");
    }
}
