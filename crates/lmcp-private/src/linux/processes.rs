//! The processes of this system as `/proc` lists them, and which of them hold a socket.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read as _},
};

use rustix::{
    fs::{CWD, Dir, Mode, OFlags, openat, readlinkat},
    process::Pid,
};

/// More than the fifty numbers and the name of a process take.
const STAT_BYTES: usize = 2048;

/// The numbers of all processes that we can see.
///
/// # Errors
/// There is no `/proc`, or too many files are open.
pub fn numbers() -> io::Result<impl Iterator<Item = Pid>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| number(entry.file_name().to_str()?)))
}

/// The threads of a process.
fn all_threads(process: Pid) -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))?.flatten();
    Ok(entries
        .filter_map(|entry| number(entry.file_name().to_str()?))
        .collect())
}

/// A process as the kernel lists it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Who started or adopted it.
    pub parent: Option<Pid>,
    /// The session it belongs to.
    pub session: Option<Pid>,
    group: Option<Pid>,
    /// The group that its terminal gives its keys to.
    front: Option<Pid>,
    /// When it was started, in ticks since the system was.
    pub started: u64,
    state: char,
}

impl Process {
    /// The process with this number, if there is one that we can see.
    pub fn of(pid: Pid) -> Option<Self> {
        // With room from the start, one read takes all of it. Searches look at every process of the system.
        let mut stat = Vec::with_capacity(STAT_BYTES);
        let file = File::open(format!("/proc/{pid}/stat")).ok()?;
        file.take(STAT_BYTES as u64).read_to_end(&mut stat).ok()?;
        // The name in front may hold anything, so the rest is looked for behind its last bracket.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut words = rest.split_ascii_whitespace();
        let state = words.next()?.chars().next()?;
        let parent = words.next().and_then(number);
        let group = words.next().and_then(number);
        let session = words.next().and_then(number);
        // Between the two is the number of its terminal.
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

    /// It gets what is typed on its terminal.
    pub fn is_in_front(&self) -> bool {
        self.group.is_some() && self.group == self.front
    }

    /// It waits for something.
    pub fn is_asleep(&self) -> bool {
        self.state == 'S'
    }

    /// It waits for its parent to take note, and does nothing any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Of some processes those that are below others, by what each of them says of its parent.
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

/// Looks for sockets in the descriptors of processes.
#[derive(Debug)]
pub struct Search {
    /// Those that are looked for, by their numbers, and who holds them.
    pub found: HashMap<u64, Vec<Process>>,
    /// So many more descriptors are read.
    left: usize,
}

impl Search {
    /// A search for sockets with these numbers that reads at most so many descriptors.
    pub fn of(inodes: impl Iterator<Item = u64>, most: usize) -> Self {
        Self {
            found: inodes.map(|inode| (inode, Vec::new())).collect(),
            left: most,
        }
    }

    /// Looks into the files of these processes. Gives those that live and do not show them.
    ///
    /// # Errors
    /// Nothing can be read, of whichever process.
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

    /// The same for processes that may hide something: a thread can have files of its own, and those of a process go on
    /// when its first thread has ended. Gives those that live and do not show their files.
    ///
    /// # Errors
    /// Nothing can be read, of whichever process.
    pub fn through_all_threads<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process> + Clone,
    ) -> io::Result<Vec<Pid>> {
        let mut hidden = Vec::new();
        // The first threads come first: most processes have no files elsewhere, and what is read has a bound.
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

    /// Was there more to be read than was asked for?
    pub fn is_cut_short(&self) -> bool {
        self.left == 0
    }

    /// Looks into a thread, and tells whether it lives and does not let us.
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

    /// The process was there before: if its start is still the same afterwards, it was this one all the time.
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
            // It may have been closed.
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

/// The threads of a process. None if it has ended.
fn threads(process: Pid) -> io::Result<Vec<Pid>> {
    match all_threads(process) {
        Err(err) if is_about_the_process(&err) => Ok(Vec::new()),
        threads => threads,
    }
}

/// The number in `socket:[NUMBER]`.
fn socket_number(target: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// It has ended, or is not for us to look into: all others can still be looked at.
pub fn is_about_the_process(err: &io::Error) -> bool {
    use rustix::io::Errno;
    let about = [Errno::NOENT, Errno::SRCH, Errno::ACCESS, Errno::PERM];
    Errno::from_io_error(err).is_some_and(|err| about.contains(&err))
}

/// The user of a process. (Who owns its folder in `/proc` is another question: root, if it cannot be dumped.)
pub fn user(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A process's number in such a list. Of a process without a terminal, the group in front of it is -1.
pub fn number(text: &str) -> Option<Pid> {
    let number = text.parse().ok().filter(|number| *number > 0)?;
    Pid::from_raw(number)
}
