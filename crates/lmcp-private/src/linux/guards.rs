//! Guards: processes of ours that are above a command, and whose command line describes its confinement. A process below a
//! guard cannot leave it, nor change that command line.
//!
//! With this, a server checks who connects to it, and a client checks the server that it connects to.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read as _},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, getpid};

use crate::{
    TcpSocket,
    linux::{
        mark,
        processes::{self, Process, Search, is_about_the_process, user},
    },
    refused,
};

/// The argument that makes a program the guard of a command.
pub const GUARD: &str = "__guard";
/// The longest form of rights in a record and on a command line, in bytes: hundreds of roots.
pub const MOST_RIGHTS: usize = 64 * 1024;

/// The second word of a guard's command line is within this many bytes. The first word is a path.
const FIRST_WORDS: u64 = 4096 + 64;
/// The most generations of processes. Only a process that hides something has more.
const MOST_GENERATIONS: usize = 256;
/// The most descriptors that a search reads.
const MOST_DESCRIPTORS: usize = 1 << 18;
/// The number of tries if the answer is not known, and the time between two tries.
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(20);

/// Reads the command line of a process: all of it if it is a guard's, else only as much as is needed to see that it is not.
/// Other processes may have megabytes there.
///
/// # Errors
/// The command line cannot be read: the process has ended, or too many files are open.
pub fn command_line(process: Pid) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/{process}/cmdline"))?;
    // With room from the start, one read takes a whole ordinary line.
    let mut line = Vec::with_capacity(512);
    (&mut file).take(FIRST_WORDS).read_to_end(&mut line)?;
    if is_guard(&line) {
        file.take(MOST_RIGHTS as u64).read_to_end(&mut line)?;
    }
    Ok(line)
}

/// Whether this is the command line of a guard.
pub fn is_guard(command_line: &[u8]) -> bool {
    let mut words = command_line.split(|byte| *byte == 0);
    words.nth(1) == Some(GUARD.as_bytes())
}

/// Whether this is the command line of a guard whose command is behind a fence.
pub fn has_fence(command_line: &[u8]) -> bool {
    confinement(command_line).is_some()
}

/// Returns those of these processes that bear the mark of a fence and are below no guard outside of the fence: their own guard is
/// gone. A guard that bears the mark itself does not count. Such a guard has lost one above it, or a command behind a fence has
/// forged the guard.
///
/// # Errors
/// Too many files are open.
pub fn orphans(processes: &[Process], guards: &[Pid]) -> io::Result<Vec<Pid>> {
    if mark::is_on_us() {
        return Ok(Vec::new());
    }
    let mut outside = Vec::new();
    for guard in guards {
        match mark::is_on(*guard) {
            Ok(Some(false)) => outside.push(*guard),
            Ok(_) => {}
            Err(err) if is_about_the_process(&err) => {}
            Err(err) => return Err(err),
        }
    }
    let below = processes::below(processes, &outside);
    let mut orphans = Vec::new();
    for process in processes.iter().filter(|it| !below.contains(&it.pid)) {
        match mark::is_on(process.pid) {
            Ok(Some(true)) => orphans.push(process.pid),
            Ok(_) => {}
            Err(err) if is_about_the_process(&err) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(orphans)
}

/// Refuses a socket that a confined command may hold: the command would read everything that is sent there, and with a secret
/// it could do more than it may. Guards with the same confinement as a guard of this process are ignored, because their
/// commands have the same rights as this process.
#[expect(
    clippy::disallowed_methods,
    reason = "no runtime is here, and whoever asks has a thread for it"
)]
pub(crate) fn expect_unconfined(socket: TcpSocket) -> io::Result<()> {
    for _ in 1..TRIES {
        match judge(socket)? {
            Verdict::Free => return Ok(()),
            Verdict::Confined => return Err(refused("a confined command listens there")),
            // Processes came and went during the search. A process that is about to end hides its files, too.
            Verdict::Unknown => thread::sleep(AGAIN),
        }
    }
    match judge(socket)? {
        Verdict::Free => Ok(()),
        Verdict::Confined => Err(refused("a confined command listens there")),
        Verdict::Unknown => Err(refused(
            "nobody can tell whether a confined command listens there",
        )),
    }
}

enum Verdict {
    Free,
    Confined,
    /// No process seems to hold the socket, or a confined process does not show its files or ended meanwhile.
    Unknown,
}

fn judge(socket: TcpSocket) -> io::Result<Verdict> {
    let Some((confined, seen)) = confined(socket.uid)? else {
        return Ok(Verdict::Free);
    };
    let (inside, outside): (Vec<_>, Vec<_>) = seen
        .processes
        .iter()
        .partition(|process| confined.contains(&process.pid));
    let mut search = Search::of([socket.inode].into_iter(), MOST_DESCRIPTORS);
    let hidden = search.through_all_threads(inside.iter().copied())?;
    if is_found(&search) {
        return Ok(Verdict::Confined);
    }
    // Commands of other users do not show their files, and cannot hold a socket of this user.
    let is_hidden = hidden.into_iter().any(|pid| user(pid) == Some(socket.uid));
    if is_hidden || search.is_cut_short() {
        return Ok(Verdict::Unknown);
    }
    let mut search = Search::of([socket.inode].into_iter(), MOST_DESCRIPTORS);
    let hidden = search.through(outside.into_iter())?;
    if is_found(&search) {
        return Ok(Verdict::Free);
    }
    // A server with secrets of its own does not show its files. Then it is enough that no confined process holds the socket, if
    // none of them ended during the search: an ended process may have handed its files to another.
    let may_be_its = hidden.into_iter().any(|pid| user(pid) == Some(socket.uid));
    let has_ended = |process: &&Process| Process::of(process.pid).is_none_or(|now| now.has_ended());
    let mut living = inside.into_iter().filter(|process| !process.has_ended());
    Ok(
        match may_be_its && !living.any(|process| has_ended(&process)) {
            true => Verdict::Free,
            false => Verdict::Unknown,
        },
    )
}

fn is_found(search: &Search) -> bool {
    search.found.values().any(|holders| !holders.is_empty())
}

/// Returns the processes that guards fence in, or did before they were gone, and everything that the look found. Guards with
/// the same confinement as ours are ignored. `None`: there is no other guard, and none has left processes behind.
fn confined(uid: u32) -> io::Result<Option<(HashSet<Pid>, Arc<Seen>)>> {
    let seen = LAST.look()?;
    // No process below a guard can become another user.
    let of_user = seen
        .guards
        .iter()
        .filter(|(pid, _)| user(*pid).is_none_or(|user| user == uid));
    let mut guards: Vec<_> = of_user.collect();
    if !guards.is_empty() {
        let own = own_line();
        let ours = guards.iter().filter(|(pid, _)| own.contains(pid));
        let ours: Vec<_> = ours.map(|(_, line)| confinement(line)).collect();
        guards.retain(|(_, line)| !ours.contains(&confinement(line)));
    }
    if guards.is_empty() && seen.orphans.is_empty() {
        return Ok(None);
    }
    let guards: Vec<_> = guards.into_iter().map(|(pid, _)| *pid).collect();
    let mut confined = processes::below(&seen.processes, &guards);
    confined.extend(&seen.orphans);
    Ok(Some((confined, seen)))
}

/// The result of a look at all processes.
#[derive(Debug, Default)]
struct Seen {
    /// Guards with a fence, and their command lines.
    guards: Vec<(Pid, Vec<u8>)>,
    orphans: Vec<Pid>,
    /// All processes. Empty if there is neither a guard nor an orphan.
    processes: Vec<Process>,
}

impl Seen {
    fn now() -> io::Result<Self> {
        let (mut guards, mut processes) = (Vec::new(), Vec::new());
        for pid in processes::numbers()? {
            processes.extend(Process::of(pid));
            match command_line(pid) {
                Ok(line) if has_fence(&line) => guards.push((pid, line)),
                Ok(_) => {}
                Err(err) if is_about_the_process(&err) => {}
                Err(err) => return Err(err),
            }
        }
        let all: Vec<_> = guards.iter().map(|(pid, _)| *pid).collect();
        let orphans = orphans(&processes, &all)?;
        if guards.is_empty() && orphans.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self {
            guards,
            orphans,
            processes,
        })
    }
}

/// The last look. A hub that connects to a hundred servers at once looks only a few times: a caller that waited during one look
/// takes the result of the next.
struct LastLook(Mutex<Option<(Instant, Arc<Seen>)>>);

static LAST: LastLook = LastLook(Mutex::new(None));

impl LastLook {
    /// Returns the result of a look that began after this call.
    fn look(&self) -> io::Result<Arc<Seen>> {
        let asked = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((began, seen)) = &*last
            && *began > asked
        {
            return Ok(Arc::clone(seen));
        }
        let began = Instant::now();
        let seen = Arc::new(Seen::now()?);
        *last = Some((began, Arc::clone(&seen)));
        Ok(seen)
    }
}

/// Returns the confinement in a guard's command line, in its own words. `None`: the guard confines nothing, or the line is no
/// guard's.
fn confinement(command_line: &[u8]) -> Option<&[u8]> {
    if !is_guard(command_line) {
        return None;
    }
    let mut words = command_line.split(|byte| *byte == 0);
    // A guard of another version without such words counts as a strict one.
    let rights = words.nth(2).unwrap_or_default();
    let is_open = rights.starts_with(b"{") && !contains(rights, b"\"fence\"");
    (!is_open).then_some(rights)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns this process and those above it.
fn own_line() -> HashSet<Pid> {
    let mut line = HashSet::new();
    let mut next = Some(getpid());
    while let Some(pid) = next.filter(|pid| line.len() < MOST_GENERATIONS && line.insert(*pid)) {
        next = Process::of(pid).and_then(|process| process.parent);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_fences_nothing_in_confines_nobody() {
        let line = |rights: &str| format!("/proc/self/exe\0__guard\0{rights}\0").into_bytes();
        for open in ["{}", r#"{"rules":"00ff"}"#] {
            assert_eq!(confinement(&line(open)), None, "{open}");
        }
        for strict in [r#"{"fence":{"write":[],"read":[]}}"#, "", "?"] {
            assert_eq!(confinement(&line(strict)), Some(strict.as_bytes()));
        }
        assert_eq!(confinement(b"/bin/sh\0__guard"), Some(&b""[..]));
        assert_eq!(confinement(b"/bin/sh\0-c\0__guard\0{\"fence\""), None);
    }
}
