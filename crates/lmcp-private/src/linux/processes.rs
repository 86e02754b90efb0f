//! The processes in `/proc`, and a search for those that hold a socket.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read as _},
    sync::OnceLock,
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, openat, readlinkat},
    process::{Pid, getpid},
};

/// More bytes than the fifty numbers and the name of a process take.
const STAT_BYTES: usize = 2048;

/// Checks that `/proc` shows processes by the numbers that they have for this process. The `/proc` of another pid namespace
/// shows other processes under the same numbers. Without this, everything here acts as if there were no `/proc`.
///
/// # Errors
/// There is no `/proc`, or it is that of another pid namespace.
pub fn expect_own_numbers() -> io::Result<()> {
    static FOUND: OnceLock<()> = OnceLock::new();
    if FOUND.get().is_some() {
        return Ok(());
    }
    let shown = fs::read_link("/proc/self").map_err(|err| {
        let words = format!("/proc does not show this process: {err}");
        io::Error::new(err.kind(), words)
    })?;
    if shown.to_str().and_then(number) != Some(getpid()) {
        return Err(io::Error::other(
            "/proc shows the processes of another pid namespace",
        ));
    }
    FOUND.get_or_init(|| ());
    Ok(())
}

/// Returns the numbers of all processes that we can see.
///
/// # Errors
/// `/proc` does not exist, or too many files are open.
pub fn numbers() -> io::Result<impl Iterator<Item = Pid>> {
    expect_own_numbers()?;
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| number(entry.file_name().to_str()?)))
}

/// Returns the threads of a process.
fn all_threads(process: Pid) -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
    Ok(entries
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect())
}

/// A process in the kernel's list.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Process {
    /// The number of the process.
    pub pid: Pid,
    /// The process that started or adopted it.
    pub parent: Option<Pid>,
    /// The session that it belongs to.
    pub session: Option<Pid>,
    group: Option<Pid>,
    /// The group that gets the input of its terminal.
    front: Option<Pid>,
    /// The time of its start, in ticks since the start of the system.
    pub started: u64,
    state: char,
}

impl Process {
    /// Returns the process with this number, if it exists and we can see it.
    pub fn of(pid: Pid) -> Option<Self> {
        expect_own_numbers().ok()?;
        // With room from the start, one read takes the whole file. Searches read every process of the system.
        let mut stat = Vec::with_capacity(STAT_BYTES);
        let file = File::open(format!("/proc/{pid}/stat")).ok()?;
        file.take(STAT_BYTES as u64).read_to_end(&mut stat).ok()?;
        // The name at the front may contain anything, so the rest begins after its last bracket.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut words = rest.split_ascii_whitespace();
        let state = words.next()?.chars().next()?;
        let parent = words.next().and_then(number);
        let group = words.next().and_then(number);
        let session = words.next().and_then(number);
        // The number of its terminal is between the two.
        let front = words.nth(1).and_then(number);
        let started = words.nth(13)?.parse().ok()?;
        Some(Self {
            pid,
            parent,
            session,
            group,
            front,
            started,
            state,
        })
    }

    /// Whether the process gets the input of its terminal.
    pub fn is_in_front(&self) -> bool {
        self.group.is_some() && self.group == self.front
    }

    /// Whether the process waits for something.
    pub fn is_asleep(&self) -> bool {
        self.state == 'S'
    }

    /// Whether the process has ended, and only waits for its parent to take note.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Returns those of some processes that are below others, by the parent that each names.
pub fn below(processes: &[Process], tops: &[Pid]) -> HashSet<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for process in processes {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(process.pid);
        }
    }
    let mut found = HashSet::new();
    let mut next = tops.to_vec();
    while let Some(pid) = next.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                next.push(*child);
            }
        }
    }
    found
}

/// A search for sockets in the descriptors of processes.
#[derive(Debug)]
pub struct Search {
    /// The wanted sockets by their numbers, with the processes that hold them.
    pub found: HashMap<u64, Vec<Process>>,
    /// The number of descriptors that may still be read.
    left: usize,
}

impl Search {
    /// Makes a search for sockets with these numbers, which reads at most `most` descriptors.
    pub fn of(inodes: impl Iterator<Item = u64>, most: usize) -> Self {
        Self {
            found: inodes.map(|inode| (inode, Vec::new())).collect(),
            left: most,
        }
    }

    /// Searches the files of these processes. Returns those that are alive and do not show their files.
    ///
    /// # Errors
    /// No process at all can be read.
    pub fn through<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
    ) -> io::Result<Vec<Pid>> {
        let mut hidden = Vec::new();
        for process in processes {
            if self.is_hidden(*process, process.pid)? {
                hidden.push(process.pid);
            }
        }
        Ok(hidden)
    }

    /// Does the same for processes that may hide something: a thread can have files of its own, and the files of a process stay
    /// open when its first thread has ended. Returns the processes that are alive and do not show their files.
    ///
    /// # Errors
    /// No process at all can be read.
    pub fn through_all_threads<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process> + Clone,
    ) -> io::Result<Vec<Pid>> {
        let mut hidden = Vec::new();
        // The first threads are searched first: most processes have no files elsewhere, and the search is bounded.
        for process in processes.clone() {
            if self.is_hidden(*process, process.pid)? {
                hidden.push(process.pid);
            }
        }
        for process in processes {
            for thread in threads(process.pid)? {
                if thread != process.pid && self.is_hidden(*process, thread)? {
                    hidden.push(process.pid);
                }
            }
        }
        Ok(hidden)
    }

    /// Whether the search stopped at its bound.
    pub fn is_cut_short(&self) -> bool {
        self.left == 0
    }

    /// Searches a thread. Returns whether it is alive and does not show its files.
    fn is_hidden(&mut self, process: Process, thread: Pid) -> io::Result<bool> {
        match self.look_into(process, thread) {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
                let now = Process::of(thread);
                Ok(now.is_some_and(|now| !now.has_ended()))
            }
            Err(err) if !is_about_the_process(&err) => Err(err),
            _ => Ok(false),
        }
    }

    /// Searches one thread. `process` was read before: if its start is the same afterwards, the number was its own all the
    /// time.
    fn look_into(&mut self, process: Process, thread: Pid) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("/proc/{}/task/{thread}/fd", process.pid);
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let mut target = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let Some(rest) = self.left.checked_sub(1) else {
                return Ok(());
            };
            self.left = rest;
            let entry = entry?;
            // The descriptor may have been closed meanwhile.
            let Ok(link) = readlinkat(&folder, entry.file_name(), target) else {
                target = Vec::new();
                continue;
            };
            target = link.into_bytes();
            let inode = socket_number(&target);
            if let Some(holders) = inode.and_then(|inode| self.found.get_mut(&inode)) {
                holders.push(process);
            }
        }
        Ok(())
    }
}

/// Returns the threads of a process; none if it has ended.
fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    match all_threads(process) {
        Err(err) if is_about_the_process(&err) => Ok(Vec::new()),
        threads => threads,
    }
}

/// Returns the number in `socket:[NUMBER]`.
fn socket_number(target: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Whether the error is about one process, which has ended or may not be read: all others can still be searched.
pub fn is_about_the_process(err: &io::Error) -> bool {
    use rustix::io::Errno;
    let about = [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM];
    Errno::from_io_error(err).is_some_and(|err| about.contains(&err))
}

/// Returns the user of a process. The owner of its folder in `/proc` may be another: root, if the process cannot be dumped.
pub fn user(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads the number of a process. In such a list, a process without a terminal has the group -1 in front.
pub fn number(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number| *number > 0)?;
    Pid::from_raw(number)
}
