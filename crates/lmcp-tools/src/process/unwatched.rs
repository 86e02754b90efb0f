//! Asks the guard of a job for something where the runtime cannot watch one more socket. The kernel counts watched files
//! (epoll) for all programs of a user together, so a command can use up the limit. The command can be ended all the same.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::Instant,
};

use rustix::{
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
    process::Pid,
};

use super::{
    dir,
    link::{AGAIN, HUNG_UP, IS_GONE, OUT_OF_REACH, PERSISTENCE, SOON},
    protocol::{Ask, Word},
    store::{Job, is_locked},
};

/// The answer of a guard.
#[derive(Debug)]
pub(super) struct GuardAnswer {
    /// The process of the guard, as the kernel reports it.
    pub(super) guard: Option<Pid>,
    /// The result, as `Link::ask` returns it.
    pub(super) said: io::Result<()>,
}

/// Returns whether this is the error of a runtime that cannot watch one more socket.
pub(super) fn is_for_want_of_watches(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::StorageFull
}

/// Asks the guard of a job for something, on a blocking thread that waits for the answer.
pub(super) async fn ask(job: &Job, ask: &Ask) -> io::Result<GuardAnswer> {
    let hello = Ask::Hello {
        key: job.about.key.clone(),
        follows: false,
    };
    let mut lines = serde_json::to_vec(&hello)?;
    lines.push(b'\n');
    lines.extend(serde_json::to_vec(ask)?);
    lines.push(b'\n');
    let dir = job.dir.clone();
    let asked = tokio::task::spawn_blocking(move || ask_until_heard(&dir, &lines));
    asked.await.map_err(io::Error::other)?
}

/// Asks. A guard that hangs up before it has heard anything may have had no place, so the server tries again for a while.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread is there to wait, and no runtime can"
)]
fn ask_until_heard(dir: &Path, lines: &[u8]) -> io::Result<GuardAnswer> {
    let until = Instant::now() + PERSISTENCE;
    loop {
        match ask_at(dir, lines)? {
            Heard::Answer(answer) => return Ok(answer),
            Heard::Nothing if !is_locked(dir) => return Err(io::Error::other(IS_GONE)),
            Heard::Nothing if Instant::now() >= until => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, OUT_OF_REACH));
            }
            Heard::Nothing => thread::sleep(AGAIN),
        }
    }
}

/// The end of one try to ask a guard.
enum Heard {
    Answer(GuardAnswer),
    /// The guard hung up without a word.
    Nothing,
}

fn ask_at(dir: &Path, lines: &[u8]) -> io::Result<Heard> {
    let opened = dir::insist(dir, || File::open(dir))?;
    let path = dir::short_path(&opened, dir::SOCKET);
    let socket = dir::insist(&dir.join(dir::SOCKET), || meet(&path))?;
    let guard = Some(socket_peercred(&socket)?.pid);
    let said = match talk(&socket, lines) {
        Ok(None) => return Ok(Heard::Nothing),
        Ok(Some(said)) => said,
        Err(err) => Err(match err.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => err,
        }),
    };
    Ok(Heard::Answer(GuardAnswer { guard, said }))
}

/// Connects. The time limit holds for connecting, sending and receiving: a guard that is halted accepts no connection.
fn meet(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for kind in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, kind, Some(SOON))?;
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Sends the lines, and reads until the guard has done what they say. `None`: the guard hung up without a word.
fn talk(mut socket: &UnixStream, lines: &[u8]) -> io::Result<Option<io::Result<()>>> {
    let hung_up = |err: &io::Error| {
        matches!(
            err.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        )
    };
    match socket.write_all(lines) {
        Err(err) if !hung_up(&err) => return Err(err),
        _ => {}
    }
    let mut is_welcome = false;
    for line in BufReader::new(socket).lines() {
        let line = match line {
            Err(err) if hung_up(&err) => break,
            line => line?,
        };
        match serde_json::from_str(&line) {
            Ok(Word::Done) => return Ok(Some(Ok(()))),
            Ok(Word::Refused { why }) => return Ok(Some(Err(io::Error::other(why)))),
            _ => is_welcome = true,
        }
    }
    Ok(is_welcome.then(|| Err(io::Error::other(HUNG_UP))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::{
        fs::{FlockOperation, flock},
        net::{Shutdown, shutdown},
        process::getpid,
    };

    use super::{super::spool::Spool, *};

    /// Starts a guard that answers with these words.
    fn guard(dir: &Path, words: &'static [Word]) -> thread::JoinHandle<Vec<Ask>> {
        let listener = UnixListener::bind(dir.join(dir::SOCKET)).unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let lines = BufReader::new(socket.try_clone().unwrap()).lines();
            let asks = lines
                .take(2)
                .map(|line| serde_json::from_str(&line.unwrap()));
            let asks = asks.collect::<Result<_, _>>().unwrap();
            for word in words {
                let line = serde_json::to_string(word).unwrap();
                writeln!(socket, "{line}").unwrap();
            }
            asks
        })
    }

    #[test]
    fn a_guard_is_asked_and_answers_without_a_runtime() {
        static DONE: [Word; 2] = [Word::Looks { waits: None }, Word::Done];
        let refused: &'static [Word] = Box::leak(Box::new([Word::Refused {
            why: "no such thing".to_owned(),
        }]));
        let welcome: &'static [Word] = &[Word::Started { pid: 1 }];
        for (words, wanted) in [
            (&DONE[..], None),
            (refused, Some("no such thing")),
            (welcome, Some("its guard has closed the connection")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let guard = guard(folder.path(), words);
            let mut lines = serde_json::to_vec(&Ask::Look).unwrap();
            lines.push(b'\n');
            lines.extend(serde_json::to_vec(&Ask::Stop { grace_ms: 7 }).unwrap());
            lines.push(b'\n');
            let answer = ask_until_heard(folder.path(), &lines).unwrap();
            assert_eq!(answer.guard, Some(getpid()));
            let said = answer.said.err().map(|err| err.to_string());
            assert_eq!(said.as_deref(), wanted);
            let asks = guard.join().unwrap();
            assert!(matches!(asks[..], [Ask::Look, Ask::Stop { grace_ms: 7 }]));
        }
    }

    #[test]
    fn a_guard_that_hangs_up_is_gone_only_if_it_has_let_go_of_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), 1).unwrap();
        flock(spool.output(), FlockOperation::NonBlockingLockExclusive).unwrap();
        let hangs_up = UnixListener::bind(folder.path().join(dir::SOCKET)).unwrap();
        let tries = hangs_up.try_clone().unwrap();
        let hanging_up = thread::spawn(move || while tries.accept().is_ok() {});
        let why = || ask_until_heard(folder.path(), b"").unwrap_err().to_string();
        assert_eq!(why(), OUT_OF_REACH);
        drop(spool);
        assert_eq!(why(), IS_GONE);
        shutdown(&hangs_up, Shutdown::Both).unwrap();
        hanging_up.join().unwrap();
    }

    #[test]
    fn a_runtime_that_can_watch_no_more_is_told_from_other_troubles() {
        let of = |err: rustix::io::Errno| is_for_want_of_watches(&err.into());
        assert!(of(rustix::io::Errno::NOSPC));
        assert!(!of(rustix::io::Errno::CONNREFUSED) && !of(rustix::io::Errno::MFILE));
    }
}
