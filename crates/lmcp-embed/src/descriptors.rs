//! Open files, such as terminals, that a program keeps for the program that it becomes: [`ChildHandle::keep`].
//!
//! `exec` closes every descriptor that is marked so, and all are. A host copies those that the program has named without the mark, and
//! writes their numbers into the records of the children. The numbers mean something to the next program alone, so they count only for
//! the same process, and only with the word in the variable that [`Host::exec`](crate::Host::exec) sets.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    sync::{MutexGuard, PoisonError},
};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};

use crate::{
    member::{ChildHandle, Member},
    stat::{Started, Stat},
};

/// The variable that tells the next program that the numbers in the records are its own. Children of that program inherit it, and it
/// tells them nothing. It does not begin as settings of `lmcp` do, so no child takes it for one.
pub(crate) const WORD: &str = "KEPT_FOR_LMCP";

/// The descriptors of one child.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// Those that the program keeps, by name.
    kept: BTreeMap<String, OwnedFd>,
    /// Present while the program becomes another one.
    left: Option<Left>,
}

/// The numbers of descriptors in the program that this one becomes.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Left {
    word: String,
    pid: i32,
    start: u64,
    numbers: BTreeMap<String, RawFd>,
}

impl ChildHandle {
    /// Keeps an open file for the program that this one becomes by [`Host::exec`](crate::Host::exec), under a name of the program's
    /// own: the terminal of the child, for example, which `exec` would close. The next program gets it by
    /// [`ChildHandle::take_kept`]. The same name replaces the earlier file.
    ///
    /// The host holds a copy, so the file stays open here, too. Call this in the function of
    /// [`Host::exec_with`](crate::Host::exec_with), else the terminal of a child does not hang up when the program closes it.
    ///
    /// ```no_run
    /// # use std::{io, os::fd::OwnedFd, process::Command};
    /// # use lmcp::embed::{ChildHandle, Host};
    /// fn restart(host: Host, panes: &[(ChildHandle, OwnedFd)]) -> io::Error {
    ///     host.exec_with(|| {
    ///         for (child, terminal) in panes {
    ///             child.keep("terminal", terminal)?;
    ///         }
    ///         Ok(Command::new(std::env::current_exe()?))
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// The number is not that of an open file, or this process may open no more files.
    pub fn keep(&self, name: impl Into<String>, file: &impl AsRawFd) -> io::Result<()> {
        let copy = copy(file.as_raw_fd())?;
        self.member.descriptors().kept.insert(name.into(), copy);
        Ok(())
    }

    /// Returns an open file that the program kept with this child before it became this program. The second call returns `None`, as
    /// does every call after the program was killed: its files were closed then.
    pub fn take_kept(&self, name: &str) -> Option<OwnedFd> {
        self.member.descriptors().kept.remove(name)
    }
}

impl Member {
    pub(crate) fn descriptors(&self) -> MutexGuard<'_, Descriptors> {
        let descriptors = self.descriptors.lock();
        descriptors.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Descriptors {
    /// Makes copies for the next program, which `exec` does not close. They must stay open until then.
    pub(crate) fn leave(&mut self, word: &str) -> io::Result<Vec<OwnedFd>> {
        if self.kept.is_empty() {
            return Ok(Vec::new());
        }
        let this = Stat::of_this_process()?.process;
        let (mut copies, mut numbers) = (Vec::new(), BTreeMap::new());
        for (name, file) in &self.kept {
            let copy = rustix::io::dup(file)?;
            numbers.insert(name.clone(), copy.as_raw_fd());
            copies.push(copy);
        }
        self.left = Some(Left {
            word: word.to_owned(),
            pid: this.process.as_raw_pid(),
            start: this.at,
            numbers,
        });
        Ok(copies)
    }

    pub(crate) fn left(&self) -> Option<Left> {
        self.left.clone()
    }

    /// Takes the descriptors that this process left when it was another program. The numbers of others mean nothing here.
    pub(crate) fn take(left: Option<&Left>) -> Self {
        let word = std::env::var(WORD).ok();
        let this = Stat::of_this_process().map(|stat| stat.process);
        let is_for = |this: Started, left: &Left| {
            Some(&left.word) == word.as_ref()
                && (this.process.as_raw_pid(), this.at) == (left.pid, left.start)
        };
        let mut taken = Self::default();
        let Some(left) = left.filter(|left| this.is_ok_and(|this| is_for(this, left))) else {
            return taken;
        };
        for (name, number) in &left.numbers {
            match copy(*number) {
                Ok(copy) => drop(taken.kept.insert(name.clone(), copy)),
                Err(err) => tracing::warn!("cannot take over the open file `{name}`: {err}"),
            }
            let _ = nix::unistd::close(*number);
        }
        taken
    }
}

/// Copies a descriptor by its number, without the words that would promise the compiler that the number is that of an open file: the
/// kernel checks it when the number goes through a socket.
fn copy(number: RawFd) -> io::Result<OwnedFd> {
    let (from, to) = UnixStream::pair()?;
    let (byte, numbers) = ([IoSlice::new(b"d")], [number]);
    let rights = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<()>(from.as_raw_fd(), &byte, &rights, MsgFlags::empty(), None)?;
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(to.as_fd(), &mut bytes, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
    let copies = rights.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    copies
        .last()
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Seek as _, Write as _},
    };

    use super::*;

    #[test]
    fn a_copy_is_the_same_open_file() {
        let mut file = tempfile::tempfile().unwrap();
        let mut copied = File::from(copy(file.as_raw_fd()).unwrap());
        file.write_all(b"hello").unwrap();
        copied.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(copy(-1).is_err());
    }

    #[test]
    fn numbers_of_another_exec_are_not_touched() {
        let file = tempfile::tempfile().unwrap();
        let mut descriptors = Descriptors::default();
        descriptors.kept.insert("t".into(), file.into());
        let copies = descriptors.leave("a word that no variable has").unwrap();
        let left = descriptors.left();
        assert_eq!(left.as_ref().unwrap().numbers.len(), 1);
        assert!(Descriptors::take(left.as_ref()).kept.is_empty());
        rustix::io::fcntl_getfd(&copies[0]).unwrap();
    }
}
