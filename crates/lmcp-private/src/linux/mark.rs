//! A mark that every process inside a fence bears, and that none can remove. It shows that a process is confined when its guard
//! is gone: the kernel ran out of memory, or somebody ended the guard by force.
//!
//! The mark is an unusual choice of the memory that would be written to a core file: memory that is shared with a device (DAX),
//! and not private memory of a device. No other program chooses that. Child processes inherit the choice, everybody can read it
//! in `/proc`, and to change it a process must write to `/proc`, which a fence does not allow.

use std::{fs, io, path::Path};

use rustix::process::Pid;

/// The bit for memory that is shared with a device.
const SHARED_DAX: u32 = 1 << 8;
/// The bit for private memory of a device.
const PRIVATE_DAX: u32 = 1 << 7;

/// Marks this process, and all processes that it starts from now on.
///
/// # Errors
/// This kernel writes no core files, or this process is inside a fence already.
pub fn set() -> io::Result<()> {
    let path = "/proc/self/coredump_filter";
    let own = parse(&fs::read_to_string(path)?).ok_or(io::ErrorKind::InvalidData)?;
    fs::write(path, format!("{:#x}", own & !PRIVATE_DAX | SHARED_DAX))
}

/// Whether a process bears the mark. `None`: the process has ended, or it is one of the kernel's, and has no memory of its own.
///
/// # Errors
/// The mark cannot be read: the process is gone, or too many files are open.
pub fn is_on(process: Pid) -> io::Result<Option<bool>> {
    match fs::read_to_string(format!("/proc/{process}/coredump_filter")) {
        Ok(text) => Ok(parse(&text)
            .or_else(|| of_other_threads(process))
            .map(is_mark)),
        // A kernel that writes no core files has no marks. A process that has ended has no folder.
        Err(err) if err.kind() == io::ErrorKind::NotFound && !has_marks() => Ok(Some(false)),
        Err(err) => Err(err),
    }
}

/// Returns the choice of a process whose first thread has ended while others go on. With that thread, `/proc` hides the choice
/// of the process, but each thread has a folder of its own there, which is not listed.
fn of_other_threads(process: Pid) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads.flatten().find_map(|thread| {
        let folder = Path::new("/proc").join(thread.file_name());
        parse(&fs::read_to_string(folder.join("coredump_filter")).ok()?)
    })
}

/// Whether this process is inside a fence itself. In that case the mark says nothing about others.
pub fn is_on_us() -> bool {
    fs::read_to_string("/proc/self/coredump_filter")
        .is_ok_and(|text| parse(&text).is_some_and(is_mark))
}

fn has_marks() -> bool {
    fs::exists("/proc/self/coredump_filter").unwrap_or(true)
}

fn is_mark(chosen: u32) -> bool {
    chosen & (SHARED_DAX | PRIVATE_DAX) == SHARED_DAX
}

fn parse(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_process_and_what_it_starts_bear_the_mark() {
        assert_eq!(is_on(getpid()).unwrap(), Some(false));
        assert!(!is_on_us());
        // The shell writes the mark of `set` in a process of its own: all tests share this one.
        let own = parse(&fs::read_to_string("/proc/self/coredump_filter").unwrap()).unwrap();
        let marked = own & !PRIVATE_DAX | SHARED_DAX;
        let script =
            format!("echo {marked:#x} >/proc/self/coredump_filter; sleep 60 & echo $!; wait");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = io::BufReader::new(shell.stdout.take().unwrap());
        io::BufRead::read_line(&mut said, &mut line).unwrap();
        let below = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        assert_eq!(is_on(Pid::from_child(&shell)).unwrap(), Some(true));
        assert_eq!(is_on(below).unwrap(), Some(true));
        rustix::process::kill_process(below, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_bears_the_mark() {
        let script = "import ctypes, platform, threading, time\n\
            open('/proc/self/coredump_filter', 'w').write('0x133')\n\
            threading.Thread(target=time.sleep, args=(60,)).start()\n\
            print(flush=True)\n\
            ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = io::BufReader::new(child.stdout.take().unwrap());
        io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
        let pid = Pid::from_child(&child);
        let own = format!("/proc/{pid}/coredump_filter");
        while !fs::read_to_string(&own).unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(is_on(pid).unwrap(), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn everything_at_once_is_no_mark() {
        for ordinary in [0, 0x33, 0x7f, 0x80, 0x1ff] {
            assert!(!is_mark(ordinary), "{ordinary:#x}");
        }
        assert!(is_mark(0x133));
    }
}
