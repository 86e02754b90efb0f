//! The messages between the server and the guard of a command: one JSON value a line.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{long, rights::Rights};

/// The first line to a guard: what to run. A job is also started again from its order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The folder in which the output and the end are recorded.
    pub(crate) dir: PathBuf,
    pub(crate) argv: Vec<String>,
    /// Whether the last word is a line that a shell runs.
    #[serde(default)]
    pub(crate) is_line: bool,
    /// The length in bytes of the last word, if that is not in the order but follows it on the socket as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line_follows: Option<usize>,
    pub(crate) env: BTreeMap<String, String>,
    /// The tool chain of the session that started the command; `None` stands for the server's.
    #[serde(default)]
    pub(crate) session: Option<BTreeMap<String, String>>,
    /// The bits that the umask of that session takes from the modes of new files, beside the umask of the server.
    #[serde(default)]
    pub(crate) umask: u32,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Stdin,
    /// The size of the terminal on which the command runs, if it has one.
    pub(crate) tty: Option<Size>,
    /// The time after which the command is stopped.
    pub(crate) timeout_ms: Option<u64>,
    /// The time between TERM and KILL.
    pub(crate) grace_ms: u64,
    /// Whether the command is a job from the start.
    pub(crate) keep: bool,
    /// Whether the command ends with the server even if it is a job: nobody could find it again, and its record is removed
    /// with it.
    #[serde(default)]
    pub(crate) passing: bool,
    /// Whether the command ends with the conversation in which it was started, even if it is a job.
    #[serde(default)]
    pub(crate) with_session: bool,
    /// How many bytes of output are recorded. Of a longer output, the beginning and the end are recorded.
    pub(crate) spool_bytes: u64,
    /// The rights of the command, against which the guard checks processes that connect to its socket. Not recorded with the
    /// order.
    #[serde(default)]
    pub(crate) rights: Rights,
    /// The folders that the command may use, if it is confined.
    pub(crate) fence: Option<Fence>,
    /// The mode of the program file of the guard, before any command could change it. Not recorded with the order either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program_mode: Option<u32>,
    /// The key that every peer on the guard's socket must send.
    pub(crate) key: String,
    /// Whether the guard's standard output is a file that gets the command's output, too.
    pub(crate) log: bool,
}

/// The standard input of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stdin {
    Closed,
    /// The content of a file, then the end. The guard finds the file open as its own standard error.
    Given,
    /// Text that is sent later.
    Open,
}

impl Order {
    /// Returns the command as its caller wrote it.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self.argv.last() {
            Some(line) if self.is_line => Cow::Borrowed(line),
            _ => Cow::Owned(self.argv.join(" ")),
        }
    }

    /// Takes out a line that is too long for a command line. The line may have megabytes: the order would hold one copy, and
    /// the message with the order another.
    pub(super) fn take_long_line(&mut self) -> Option<String> {
        if !long::is_long_line(self) {
            return None;
        }
        let line = std::mem::take(self.argv.last_mut()?);
        self.line_follows = Some(line.len());
        Some(line)
    }

    /// Puts the line back.
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

/// The folders that a confined command may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    /// Folders below which everything is allowed.
    pub(crate) write: Vec<Folder>,
    /// Folders below which reading and running is allowed.
    pub(crate) read: Vec<Folder>,
    /// The folder for scratch files of one command, below which everything is allowed, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Folder>,
}

/// A folder by its path, and its identity when the server looked. Another folder at the same path has another identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folder {
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub(crate) path: PathBuf,
    #[serde(flatten)]
    pub(crate) id: Id,
}

/// The identity of a folder. The number of a removed folder is soon used again, so the time at which the folder was made is
/// part of the identity, where the file system knows that time. There, an older record without the time matches no folder.
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

/// Messages from the server to a guard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// The first message of a peer that came through the socket.
    Hello {
        key: String,
        /// Whether the peer stays to hear what happens. Such a peer gives up its place to one that asks for something.
        #[serde(default)]
        follows: bool,
    },
    /// More text for the standard input, and perhaps its end.
    Input {
        text: String,
        eof: bool,
    },
    /// A signal to the command's process group, by number.
    Signal {
        number: i32,
    },
    /// Sends TERM to everything, and KILL after a while.
    Stop {
        grace_ms: u64,
    },
    Resize(Size),
    /// Asks whether the command waits for input.
    Look,
    /// Lets other servers connect, and lists the command.
    Open,
    /// Does the same, and lets the command go on when the server is gone.
    Keep,
}

/// Messages from a guard to the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Started {
        pid: i32,
    },
    /// The command could not be started.
    Failed {
        error: String,
    },
    /// The number of bytes of output, and how they are kept.
    Grown {
        bytes: u64,
        #[serde(flatten)]
        extent: Extent,
    },
    Ended(End),
    /// Whether the command waits for input on its terminal.
    Looks {
        waits: Option<Waits>,
    },
    /// The guard did what it was asked.
    Done,
    /// The guard did not do what it was asked, and why.
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
    /// Returns the words for the line that tells the state of a job.
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
    /// The number of the signal that ended the command.
    pub(crate) signal: Option<i32>,
    /// Why the command was never run: the last step before it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_run: Option<String>,
    /// Whether the command was stopped because its time was over.
    pub(crate) timed_out: bool,
    /// Whether the command was stopped because a caller asked for it.
    pub(crate) stopped: bool,
    pub(crate) duration_ms: u64,
    /// The processor time of the command and of all children that it waited for.
    pub(crate) cpu_ms: u64,
    /// The peak memory of the largest of these processes.
    pub(crate) peak_memory_bytes: u64,
    /// The processes that the command left behind.
    pub(crate) left_running: Vec<i32>,
    /// The length of all output, recorded or not.
    pub(crate) bytes: u64,
    #[serde(flatten)]
    pub(crate) extent: Extent,
    /// How many bytes of the output are kept nowhere, because they could not be recorded.
    #[serde(default)]
    pub(crate) lost: u64,
    /// Why some of the output could not be recorded: the disk is full, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_recorded: Option<String>,
    /// Seconds since 1970.
    pub(crate) ended_at: u64,
}

/// Which part of a command's output is kept, and where.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// The bytes that are not kept: from the first offset to before the second.
    pub(crate) dropped: Option<(u64, u64)>,
    /// The files in memory that hold the output, if it could not be recorded in the command's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<InMemory>,
}

/// Files in memory that the guard of a command has open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct InMemory {
    /// The number of the guard's process.
    pub(crate) guard: i32,
    /// The number of the open file with the output.
    pub(crate) output: i32,
    /// The number of the open file with the changes of the stream.
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
