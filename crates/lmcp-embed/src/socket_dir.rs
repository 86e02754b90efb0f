//! The place where a host listens: a folder that only this user can enter, and a name that tells the process of the host.

use std::{
    env,
    ffi::OsString,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _},
    path::{Path, PathBuf},
};

use lmcp_core::{
    Error,
    transport::{Unix, is_served},
};

use lmcp_private::{fixed_folders, make_or_mend, make_private, runtime_folder};

use crate::{
    folder::{SUFFIX, is_left_over},
    lock::{Lock, is_held},
    random, register,
};

/// The length that the path of a socket must stay below on every system.
const PATH_BYTES: usize = 104;

/// The ends of the names of a host's files.
const SOCKET: &str = ".sock";
const LOCK: &str = ".lock";

/// The number of hosts in one process that find a name.
const HOSTS: usize = 64;

/// A folder to listen in. A folder that was made for one host is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketDir {
    folder: PathBuf,
    is_own: bool,
    /// The name that the program chose.
    name: Option<OsString>,
}

impl SocketDir {
    /// Returns the place for a socket at a path that the program chose.
    ///
    /// # Errors
    /// Others can enter the folder, or the name cannot be used for a socket.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let unfit =
            |why: &str| Error::config(format!("cannot listen at {}: {why}", path.display()));
        let name = path
            .file_name()
            .ok_or_else(|| unfit("it is not the name of a file"))?;
        let ends = |end: &str| name.as_encoded_bytes().ends_with(end.as_bytes());
        if ends(LOCK) || ends(SUFFIX) {
            return Err(unfit("other files of a host are called so"));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut place = Self::chosen(folder.unwrap_or(Path::new(".")))?;
        if place.folder.as_os_str().len() + 1 + name.len() >= PATH_BYTES {
            return Err(unfit("its name is too long for a socket"));
        }
        place.name = Some(name.to_owned());
        Ok(place)
    }

    /// Returns the path that the program chose, or the folder if the program chose no path.
    pub(crate) fn path(&self) -> PathBuf {
        self.name
            .as_ref()
            .map_or_else(|| self.folder.clone(), |name| self.folder.join(name))
    }

    /// Returns whether the program chose the name.
    pub(crate) fn is_path(&self) -> bool {
        self.name.is_some()
    }

    /// Returns a usual folder that is safe and has a short enough name, or else a new one.
    pub(crate) fn usual() -> Result<Self, Error> {
        register::clean();
        let mut usual = runtime_folder().into_iter().chain(fixed_folders());
        let usable = usual.find(|folder| fits(folder) && make_or_mend(folder).is_ok());
        if let Some(folder) = usable {
            remove_stale(&folder);
            return Ok(Self {
                folder,
                is_own: false,
                name: None,
            });
        }
        let folder = fresh_folder().map_err(|err| {
            Error::io(
                "cannot make a folder for the socket, in $TMPDIR or /tmp",
                err,
            )
        })?;
        Ok(Self {
            folder,
            is_own: true,
            name: None,
        })
    }

    /// Returns a folder that the program chose, and creates it if it does not exist.
    ///
    /// # Errors
    /// Others can enter the folder, or its name is too long.
    pub(crate) fn chosen(folder: &Path) -> Result<Self, Error> {
        let failed = |err| Error::io(format!("cannot listen in {}", folder.display()), err);
        // The path is made absolute, because children may work in another folder. A slash at the end is removed, because it
        // would follow a link.
        let folder = &std::path::absolute(folder).map_err(failed)?;
        let folder: &PathBuf = &folder.components().collect();
        make_private(folder).map_err(failed)?;
        if !fits(folder) {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its name is too long for a socket",
            )));
        }
        register::clean();
        remove_stale(folder);
        Ok(Self {
            folder: folder.to_owned(),
            is_own: false,
            name: None,
        })
    }

    /// Listens under the first free name: the process number, and a further number from the second host on. The lock shows
    /// others that this host is alive.
    pub(crate) fn listen(&self) -> Result<(Unix, Lock), Error> {
        if let Some(name) = &self.name {
            let path = self.folder.join(name);
            let lock = path.with_extension(&LOCK[1..]);
            let failed = |err| Error::io(format!("cannot lock {}", lock.display()), err);
            let taken = || Error::config(format!("another host listens at {}", path.display()));
            let lock = Lock::take(&lock).map_err(failed)?.ok_or_else(taken)?;
            return Ok((lmcp_core::unix(&path)?, lock));
        }
        let process = std::process::id();
        let mut refused = None;
        for number in 1..=HOSTS {
            let name = match number {
                1 => process.to_string(),
                number => format!("{process}-{number}"),
            };
            let path = self.folder.join(format!("{name}{SOCKET}"));
            let lock = self.folder.join(format!("{name}{LOCK}"));
            let failed = |err| Error::io(format!("cannot lock {}", lock.display()), err);
            let Some(lock) = Lock::take(&lock).map_err(failed)? else {
                continue;
            };
            if is_served(&path) {
                continue;
            }
            match lmcp_core::unix(&path) {
                Ok(unix) => return Ok((unix, lock)),
                Err(err) => refused = Some(err),
            }
        }
        let many = || Error::config(format!("{HOSTS} hosts listen already in this process"));
        Err(refused.unwrap_or_else(many))
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        if self.is_own {
            // This fails if a file is left in the folder; then the file belongs to somebody else.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Makes a folder with a name that cannot be guessed, so that nobody can create it first.
fn fresh_folder() -> io::Result<PathBuf> {
    let name = format!("lmcp-{}", random::hex::<8>());
    let temporary = std::path::absolute(env::temp_dir())?;
    let candidates = [temporary, PathBuf::from("/tmp")];
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for folder in candidates.map(|above| above.join(&name)) {
        if !fits(&folder) {
            continue;
        }
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(err) => failed = err,
        }
    }
    Err(failed)
}

/// Returns whether the longest name of a socket still fits.
fn fits(folder: &Path) -> bool {
    let longest = format!("/{}-{HOSTS}.sock", u32::MAX);
    folder.as_os_str().len() + longest.len() < PATH_BYTES
}

/// Removes files that dead hosts left: sockets without a listener, locks without a holder, and the folders of children that
/// have ended. A process that cannot be seen may be alive in another container, so the sockets and the locks decide, and
/// never the number in a name.
fn remove_stale(folder: &Path) {
    let names = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let names: Vec<String> = entries.flatten().filter_map(names).collect();
    for name in &names {
        let path = folder.join(name);
        if name.strip_suffix(SOCKET).is_some_and(is_host) {
            let is_socket =
                fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket());
            if is_socket && !is_served(&path) {
                let _ = fs::remove_file(&path);
            }
        } else if name.strip_suffix(LOCK).is_some_and(is_host) {
            // A process that can take the lock may remove it. Dropping the lock does so.
            drop(Lock::take(&path));
        }
    }
    for name in &names {
        let host = name
            .strip_suffix(SUFFIX)
            .and_then(|name| name.split_once('.'));
        let host = host.map(|(host, _)| host).filter(|host| is_host(host));
        // Folders with the number of this process are left to its hosts: the process may have been another program before.
        let host = host.filter(|host| !is_of_this_process(host));
        if host.is_some_and(|host| !is_alive(folder, host) && is_left_over(&folder.join(name))) {
            let _ = fs::remove_dir_all(folder.join(name));
        }
    }
}

/// Returns whether a host with this name is alive. A living host makes and removes the folders of its children itself.
fn is_alive(folder: &Path, host: &str) -> bool {
    is_held(&folder.join(format!("{host}{LOCK}")))
        || is_served(&folder.join(format!("{host}{SOCKET}")))
}

/// Returns whether a host of this process could have this name.
fn is_of_this_process(host: &str) -> bool {
    let process = host.split_once('-').map_or(host, |(process, _)| process);
    process == std::process::id().to_string()
}

/// Returns whether a name is that of a host: a process number, and perhaps a further number.
fn is_host(name: &str) -> bool {
    let (process, number) = name.split_once('-').unwrap_or((name, "2"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(process) && is_number(number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt as _, net::UnixListener};

    use lmcp_core::Server;

    use super::*;
    use crate::{
        Host, HostHandle, State,
        folder::{Credentials, Folder},
        setup::Labels,
        stat::Stat,
    };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    #[test]
    fn sockets_of_the_dead_go_and_those_of_the_living_stay() {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        // A dropped listener leaves its file.
        drop(UnixListener::bind(path("4242.sock")).unwrap());
        drop(UnixListener::bind(path("other.sock")).unwrap());
        let alive = UnixListener::bind(path("4243-2.sock")).unwrap();
        for name in ["4242.abc.child", "4243-2.abc.child", "4245.abc.child"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("identity.json"), "").unwrap();
        }
        fs::write(path("4242.lock"), "").unwrap();
        let locked = Lock::take(&path("4246.lock")).unwrap().unwrap();
        fs::create_dir(path("4246.abc.child")).unwrap();
        for name in ["42.txt", "4244.sock"] {
            fs::write(path(name), "").unwrap();
        }
        SocketDir::chosen(folder.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = [
            "42.txt",
            "4243-2.abc.child",
            "4243-2.sock",
            "4244.sock",
            "4246.abc.child",
            "4246.lock",
            "other.sock",
        ];
        assert_eq!(left, expected);
        drop((alive, locked));
    }

    /// Makes the folder of a child as a killed host leaves it. The process of the child is this one.
    fn left_by_a_killed_host(folder: &Path, host: &str, child: &str) -> PathBuf {
        let socket = folder.join(format!("{host}.sock"));
        let credentials = Credentials {
            socket: &socket,
            identity: "t",
            host_lock: Some(&folder.join(format!("{host}.lock"))),
            returns: false,
        };
        let made = Folder::make(&credentials, child).unwrap();
        let process = Stat::of_this_process().unwrap().process;
        made.note(process).unwrap();
        let (path, kept) = (made.path().to_owned(), made.path().with_extension("kept"));
        fs::rename(&path, &kept).unwrap();
        drop(made);
        fs::rename(&kept, &path).unwrap();
        path
    }

    #[test]
    fn credentials_of_living_children_stay_whoever_starts_after_a_killed_host() {
        let folder = folder();
        let own = std::process::id().to_string();
        // One folder has the number of another process, and one has our number, as after a program became a new version of
        // itself.
        for host in ["4242", &own] {
            let living = left_by_a_killed_host(folder.path(), host, "abc");
            let place = SocketDir::chosen(folder.path()).unwrap();
            assert!(living.join("identity.json").exists());
            let _listening = place.listen().unwrap();
            SocketDir::chosen(folder.path()).unwrap();
            assert!(living.join("identity.json").exists());
        }
        // All files of ended processes are removed.
        let ended = left_by_a_killed_host(folder.path(), "4243", "def");
        let mut process = Stat::of_this_process().unwrap().process;
        process.at += 1;
        fs::remove_file(ended.join("process.json")).unwrap();
        let text = serde_json::json!({
            "pid": process.process.as_raw_pid(), "start": process.at, "namespace": register::namespace(),
        });
        fs::write(ended.join("process.json"), text.to_string()).unwrap();
        SocketDir::chosen(folder.path()).unwrap();
        assert!(!ended.exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let folder = folder();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        let refused = SocketDir::chosen(folder.path()).unwrap_err();
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("others can enter it"), "{why}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(SocketDir::chosen(&link).is_err());
        assert!(SocketDir::chosen(&link.join("")).is_err());
    }

    #[test]
    fn a_fresh_folder_is_private_and_goes_with_its_host() {
        let folder = fresh_folder().unwrap();
        assert!(lmcp_private::expect_private(&folder).is_ok());
        let place = || SocketDir {
            folder: folder.clone(),
            is_own: true,
            name: None,
        };
        let server = |_: &HostHandle| Server::new("t", "1");
        let host = Host::on_thread(
            place(),
            State::default(),
            Labels::Any,
            &Host::setup().handle(),
            server,
        )
        .unwrap();
        let child = host.child("ann", "worker").unwrap();
        host.close();
        assert!(child.credentials().exists());
        drop(child);
        assert!(!folder.exists());
    }

    #[test]
    fn names_too_long_for_a_socket_are_refused() {
        let folder = folder().path().join("x".repeat(100));
        assert!(SocketDir::chosen(&folder).is_err());
    }
}
