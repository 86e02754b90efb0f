//! Guards: the processes of ours that stand above a command and say on their command line what they confine it to. Whoever
//! is below one cannot leave it, nor change that line.
//!
//! A server judges with this who connects to it, a client whom it connects to.

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

/// How a program is called to guard a command.
pub const GUARD: &str = "__guard";
/// Longest form of rights in a record and on a command line, in bytes: hundreds of roots.
pub const MOST_RIGHTS: usize = 64 * 1024;

/// Bytes in which the second word of a guard's command line is found: the first is a path.
const FIRST_WORDS: u64 = 4096 + 64;
/// More generations than anybody has who does not hide something.
const MOST_GENERATIONS: usize = 256;
/// A search reads no more descriptors than this.
const MOST_DESCRIPTORS: usize = 1 << 18;
/// How often it is looked again where nobody could tell, and how long after the time before.
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(20);

/// The command line of a process: all of it if it is a guard's, else as much as it takes to see that it is not. Others may
/// have megabytes there.
///
/// # Errors
/// It cannot be read: the process has ended, or too many files are open.
pub fn command_line(process: Pid) -> io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/{process}/cmdline"))?;
    // With room from the start, one read takes all of an ordinary line.
    let mut line = Vec::with_capacity(512);
    (&mut file).take(FIRST_WORDS).read_to_end(&mut line)?;
    if is_guard(&line) {
        file.take(MOST_RIGHTS as u64).read_to_end(&mut line)?;
    }
    Ok(line)
}

/// Is this the command line of a guard?
pub fn is_guard(command_line: &[u8]) -> bool {
    let mut words = command_line.split(|byte| *byte == 0);
    words.nth(1) == Some(GUARD.as_bytes())
}

/// Is this the command line of a guard whose command is behind a fence?
pub fn has_fence(command_line: &[u8]) -> bool {
    confinement(command_line).is_some()
}

/// Of these processes, those that bear the mark of a fence and are below none of these guards: their own guard is gone.
///
/// # Errors
/// Too many files are open.
pub fn orphans(processes: &[Process], guards: &[Pid]) -> io::Result<Vec<Pid>> {
    if mark::is_on_us() {
        return Ok(Vec::new());
    }
    let below = processes::below(processes, guards);
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

/// Refuses a socket that a confined command may hold: whatever is sent there, the command reads, and with a secret it could
/// do more than it may. A guard that confines this process as well, or just so, takes nothing from anybody.
#[expect(
    clippy::disallowed_methods,
    reason = "no runtime is here, and whoever asks has a thread for it"
)]
pub(crate) fn expect_unconfined(socket: TcpSocket) -> io::Result<()> {
    for _ in 1..TRIES {
        match judge(socket)? {
            Verdict::Free => return Ok(()),
            Verdict::Confined => return Err(refused("a confined command listens there")),
            // Processes came and went while they were looked at. One that is about to end hides its files, too.
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
    /// No process seems to hold it, or a confined one does not show what it holds or ended meanwhile.
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
    // Commands of other users do not show their files, and hold no socket of this one.
    let is_hidden = hidden.into_iter().any(|pid| user(pid) == Some(socket.uid));
    if is_hidden || search.is_cut_short() {
        return Ok(Verdict::Unknown);
    }
    let mut search = Search::of([socket.inode].into_iter(), MOST_DESCRIPTORS);
    let hidden = search.through(outside.into_iter())?;
    if is_found(&search) {
        return Ok(Verdict::Free);
    }
    // A server with secrets of its own does not show its files. Then it counts that no confined process holds the socket, as
    // long as none of them ended while they were looked at: its files may have gone to another.
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

/// The processes that guards fence in, or did, but for guards that do the same to us; and all that was seen. `None`: no guard
/// is there, and none left anybody behind.
fn confined(uid: u32) -> io::Result<Option<(HashSet<Pid>, Arc<Seen>)>> {
    let seen = LAST.look()?;
    // Nobody below a guard can become another user.
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

/// What a look at all processes found.
#[derive(Debug, Default)]
struct Seen {
    /// Guards with a fence, and their command lines.
    guards: Vec<(Pid, Vec<u8>)>,
    orphans: Vec<Pid>,
    /// All processes; none, if there is neither a guard nor an orphan.
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

/// The last look. A hub that connects to a hundred servers at once looks a few times and not a hundred times: whoever waited
/// while another looked takes what the next one sees.
struct LastLook(Mutex<Option<(Instant, Arc<Seen>)>>);

static LAST: LastLook = LastLook(Mutex::new(None));

impl LastLook {
    /// What was seen by a look that began after this was asked for.
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

/// What a guard with this command line confines to, in its own words. `None`: to nothing, or it is no guard's.
fn confinement(command_line: &[u8]) -> Option<&[u8]> {
    if !is_guard(command_line) {
        return None;
    }
    let mut words = command_line.split(|byte| *byte == 0);
    // A guard of another version that says nothing is taken for a strict one.
    let rights = words.nth(2).unwrap_or_default();
    let is_open = rights.starts_with(b"{") && !contains(rights, b"\"fence\"");
    (!is_open).then_some(rights)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// This process and those above it.
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
