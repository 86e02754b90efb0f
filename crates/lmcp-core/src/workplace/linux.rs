//! The workplace of the process that connected, read from `/proc`.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, CWD, StatxFlags, statx},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{Workplace, is_of_session};
use crate::peer::Process;

/// A process whose workplace is about to be read.
pub(crate) struct Looked {
    process: Pid,
    handle: OwnedFd,
}

impl Looked {
    /// Opens the process that connected, before a check decides about it: if the process is still there afterwards, no other
    /// process had its number meanwhile. `None` if nothing can be known: the process belongs to another user or another pid
    /// namespace, or is gone.
    ///
    /// # Errors
    /// Too many files are open, so this cannot be known now.
    pub(crate) fn at(process: Process) -> io::Result<Option<Self>> {
        let pid = process.pid.and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| lmcp_private::is_ours(process.uid)) else {
            return Ok(None);
        };
        let held = told(pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from))?;
        Ok(held.map(|handle| Self {
            process: pid,
            handle,
        }))
    }

    /// Reads the workplace of the process.
    ///
    /// # Errors
    /// The same as for [`Looked::at`].
    pub(crate) fn workplace(&self) -> io::Result<Option<Workplace>> {
        let of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", self.process));
        // In another mount namespace, the same path may be another folder.
        let namespace = told(fs::read_link(of("ns/mnt")))?;
        let is_here = namespace.is_some() && namespace == told(fs::read_link("/proc/self/ns/mnt"))?;
        if !is_here {
            return Ok(None);
        }
        let Some(folder) = told(folder(&of("cwd")))? else {
            return Ok(None);
        };
        let Some(variables) = told(environment(&of("environ")))? else {
            return Ok(None);
        };
        let Some(status) = told(fs::read_to_string(of("status")))? else {
            return Ok(None);
        };
        let workplace = Workplace::new(folder)
            .with_variables(variables)
            .with_umask(umask(&status));
        Ok(Some(workplace).filter(|_| !self.has_ended()))
    }

    fn has_ended(&self) -> bool {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut asked = [PollFd::new(&self.handle, PollFlags::IN)];
        // The descriptor is readable once the process has ended.
        poll(&mut asked, Some(&at_once)) != Ok(0)
    }
}

/// Turns an error into `None`: the kernel does not tell. Only if too many files are open, the error stays, because a later try
/// may succeed.
fn told<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    const LATER: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    match found {
        Err(err)
            if LATER
                .iter()
                .any(|code| Some(code.raw_os_error()) == err.raw_os_error()) =>
        {
            Err(err)
        }
        found => Ok(found.ok()),
    }
}

/// Returns the folder that a link in `/proc` names. A removed folder keeps its former name, even if another folder has that
/// name by now.
fn folder(link: &Path) -> io::Result<PathBuf> {
    const REMOVED: &str = " (deleted)";
    let name = fs::read_link(link)?;
    let Some(before) = name.to_str().and_then(|name| name.strip_suffix(REMOVED)) else {
        return Ok(name);
    };
    // The real name of a folder may end so. The number of links tells whether the folder was removed, without a question to a
    // network.
    let links = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::NLINK)?.stx_nlink;
    Ok(if links == 0 { before.into() } else { name })
}

/// Reads the umask of a process. Kernels before 4.7 do not tell it.
fn umask(status: &str) -> u32 {
    let mut lines = status.lines();
    let said = lines.find_map(|line| line.strip_prefix("Umask:"));
    said.and_then(|said| u32::from_str_radix(said.trim(), 8).ok())
        .unwrap_or_default()
}

/// Reads the variables that a process was started with, and keeps those of a session. Only the first megabyte is read, and
/// variables that are not text are skipped.
fn environment(path: &Path) -> io::Result<Vec<(String, String)>> {
    const MOST: u64 = 1 << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    let pair = |text: &[u8]| {
        let (name, value) = std::str::from_utf8(text).ok()?.split_once('=')?;
        is_of_session(name).then(|| (name.to_owned(), value.to_owned()))
    };
    Ok(bytes.split(|byte| *byte == 0).filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command};

    use rustix::process::geteuid;

    use super::*;

    fn workplace(pid: u32) -> Option<Workplace> {
        let pid = i32::try_from(pid).ok();
        let process = Process::new(geteuid().as_raw(), pid);
        Looked::at(process).unwrap()?.workplace().unwrap()
    }

    /// Starts a process in a folder, with its environment in place, that stays until it is told to end.
    fn stay(command: &mut Command) -> std::process::Child {
        let mut child = command.stdin(std::process::Stdio::piped());
        child = child.stdout(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut said = [0; 1];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        child
    }

    fn shell() -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "umask 027; echo; read x"]);
        command
    }

    #[test]
    fn a_process_is_found_where_it_is_with_what_it_has() {
        let folder = env::temp_dir().canonicalize().unwrap();
        let mut child = stay(
            shell()
                .current_dir(&folder)
                .env("VIRTUAL_ENV", "/x/venv")
                .env("MY_SECRET", "hush"),
        );
        let found = workplace(child.id()).unwrap();
        assert_eq!(found.folder(), folder);
        assert_eq!(found.variables()["VIRTUAL_ENV"], "/x/venv");
        assert!(!found.variables().contains_key("MY_SECRET"));
        assert_eq!(found.umask(), 0o027);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(workplace(child.id()), None);
    }

    #[test]
    fn a_folder_that_was_removed_keeps_its_name() {
        let name = format!("lmcp-{}-gone (deleted)", std::process::id());
        let folder = env::temp_dir().canonicalize().unwrap().join(name);
        fs::create_dir(&folder).unwrap();
        let mut child = stay(shell().current_dir(&folder));
        assert_eq!(workplace(child.id()).unwrap().folder(), folder);
        fs::remove_dir(&folder).unwrap();
        assert_eq!(workplace(child.id()).unwrap().folder(), folder);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nothing_is_known_of_another_users_process() {
        let other = Process::new(geteuid().as_raw() + 1, Some(1));
        assert!(Looked::at(other).unwrap().is_none());
        let nobody = Process::new(geteuid().as_raw(), None);
        assert!(Looked::at(nobody).unwrap().is_none());
    }
}
