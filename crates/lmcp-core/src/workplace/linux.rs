//! Where the process that connected works, as `/proc` says.

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

/// A process that somebody is about to look at.
pub(crate) struct Looked {
    process: Pid,
    handle: OwnedFd,
}

impl Looked {
    /// Takes hold of the process that connected, before anybody judges it: if it is still there afterwards, nobody else has
    /// had its number meanwhile. `None` where there is nothing to be known: the process is another user's, of another pid
    /// namespace, or gone.
    ///
    /// # Errors
    /// That cannot be told now: too many files are open.
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

    /// Where it works.
    ///
    /// # Errors
    /// As for [`Looked::at`].
    pub(crate) fn workplace(&self) -> io::Result<Option<Workplace>> {
        let of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", self.process));
        // In another mount namespace the same name may be another folder.
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
        // Readable when it has ended.
        poll(&mut asked, Some(&at_once)) != Ok(0)
    }
}

/// Whatever the kernel does not tell is not known. Only where too many files are open, it may tell a little later.
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

/// The name of a process's folder. Of one that was removed it is the name it had: there may be another of that name by now.
fn folder(link: &Path) -> io::Result<PathBuf> {
    const REMOVED: &str = " (deleted)";
    let name = fs::read_link(link)?;
    let Some(before) = name.to_str().and_then(|name| name.strip_suffix(REMOVED)) else {
        return Ok(name);
    };
    // A folder may be called so. Whether it is there is known without asking a network for it.
    let links = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::NLINK)?.stx_nlink;
    Ok(if links == 0 { before.into() } else { name })
}

/// The umask of a process. Kernels before 4.7 do not tell it.
fn umask(status: &str) -> u32 {
    let mut lines = status.lines();
    let said = lines.find_map(|line| line.strip_prefix("Umask:"));
    said.and_then(|said| u32::from_str_radix(said.trim(), 8).ok())
        .unwrap_or_default()
}

/// The variables of a session that a process was started with. Of more than a megabyte the rest is not looked at, and what is no text is
/// passed over.
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

    /// A process that stays until it is told, in a folder, with its environment in place.
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
