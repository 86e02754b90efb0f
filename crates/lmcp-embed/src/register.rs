//! A register of the processes that have an identity, in folders that are found without any variable.
//!
//! Many programs start others with hardly any environment. A process without variables may still belong to a host, so `lmcp
//! proxy` looks here for the processes above it (`above`). Each process with an identity has a file, `PID-START.process`,
//! while it lives. A host that is about to start a child has `PID-START.CHILD.starting`, so that a proxy below it waits
//! until the process of the child is known. Nothing here is secret, and no process is admitted because of it: only the host
//! decides that.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use lmcp_private::{fixed_folders, outer_folders, spare_folder};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::stat::Started;

const PROCESS: &str = "process";
const STARTING: &str = "starting";

/// The content of a file of the register.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The credentials of the child.
    pub(crate) identity_file: PathBuf,
    /// Locked while the host lives.
    pub(crate) host_lock: PathBuf,
    /// The namespace to which the process number belongs.
    pub(crate) namespace: Option<u64>,
}

/// A file of the register, parsed from its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) started: Started,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// This process has an identity.
    Process,
    /// This process is a host, and is about to start a process with an identity.
    Starting,
}

/// The files that were written into the register: the same file in each folder.
#[derive(Debug)]
pub(crate) struct Written(Vec<PathBuf>);

impl Record {
    pub(crate) fn new(identity_file: &Path, host_lock: &Path) -> Self {
        Self {
            identity_file: identity_file.to_owned(),
            host_lock: host_lock.to_owned(),
            namespace: namespace(),
        }
    }

    /// Registers a process. The file stays until [`Written::remove`], or until a host finds that the process has ended.
    pub(crate) fn write_process(&self, process: Started) -> io::Result<Written> {
        let Started { process, at } = process;
        self.write(&format!("{process}-{at}.{PROCESS}"))
    }

    /// Registers that this host is about to start a child.
    pub(crate) fn write_starting(&self, host: Started, child: &str) -> io::Result<Written> {
        let Started { process, at } = host;
        self.write(&format!("{process}-{at}.{child}.{STARTING}"))
    }

    /// Writes a file into all folders that are usable, because each folder may vanish, for example at the end of a session.
    /// One written file is enough.
    fn write(&self, name: &str) -> io::Result<Written> {
        let text = serde_json::to_vec(self)?;
        let mut written = Written(Vec::new());
        let mut failed = io::ErrorKind::NotFound.into();
        for folder in fixed_folders().into_iter().chain(spare_folder()) {
            let is_spare = spare_folder().as_ref() == Some(&folder);
            if is_spare && !written.0.is_empty() {
                break;
            }
            let made = lmcp_private::make_or_mend(&folder);
            match made.and_then(|_| put(&folder, name, &text)) {
                Ok(path) => written.0.push(path),
                Err(err) => {
                    failed = named(&folder, &err);
                }
            }
        }
        if written.0.is_empty() {
            return Err(failed);
        }
        Ok(written)
    }
}

impl Written {
    pub(crate) fn remove(self) {
        for path in self.0 {
            lmcp_private::restore_folder_of(&path);
            let _ = fs::remove_file(path);
        }
    }
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        let (rest, kind) = name.rsplit_once('.')?;
        let (process, kind) = match kind {
            PROCESS => (rest, Kind::Process),
            STARTING => (rest.split_once('.')?.0, Kind::Starting),
            _ => return None,
        };
        let (number, at) = process.split_once('-')?;
        let started = Started {
            process: Pid::from_raw(number.parse().ok()?)?,
            at: at.parse().ok()?,
        };
        Some(Self { started, kind })
    }
}

/// Returns all files of the register, of every namespace. The files are not read yet: there may be thousands, and few
/// matter.
///
/// Folders are listed twice, and a file that was seen once counts: a listing may miss a file that appears meanwhile, and the
/// start of a child first adds a file and then removes another.
///
/// # Errors
/// A folder cannot be read or trusted. The error names the folder.
pub(crate) fn list() -> io::Result<Vec<Listed>> {
    let mut all = BTreeMap::new();
    for folder in folders().chain(folders()) {
        all.extend(files(&folder).map_err(|err| named(&folder, &err))?);
    }
    let listed = all.into_iter().map(|(path, name)| Listed { name, path });
    Ok(listed.collect())
}

/// A file of the register.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: Name,
    path: PathBuf,
}

impl Listed {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read. The error names it.
    pub(crate) fn read(&self) -> io::Result<Said> {
        match read_record(&self.path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Said::Gone),
            Err(err) => Err(named(&self.path, &err)),
            Ok(text) => Ok(serde_json::from_slice(&text).map_or(Said::Nothing, Said::Record)),
        }
    }
}

/// The content of a file of the register.
#[derive(Debug)]
pub(crate) enum Said {
    Record(Record),
    /// Nothing that concerns us: other programs may have files with such names.
    Nothing,
    /// The file was removed after it was listed.
    Gone,
}

/// Reads a file of the register. If the permission to read it was removed, restores its mode first.
fn read_record(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            lmcp_private::mend_file(path)?;
            fs::read(path)
        }
        read => read,
    }
}

fn named(path: &Path, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{}: {err}", path.display()))
}

/// Removes the files of processes that have ended. Processes of other namespaces cannot be judged, and their files stay.
pub(crate) fn clean() {
    let here = namespace();
    // A folder that cannot be read or trusted is not cleaned.
    let all = folders().filter_map(|folder| files(&folder).ok());
    for (path, name) in all.flatten() {
        let text = fs::read(&path).unwrap_or_default();
        let Ok(record) = serde_json::from_slice::<Record>(&text) else {
            continue;
        };
        if here.is_some() && record.namespace == here && name.started.has_ended() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the namespace of process numbers that this process is in.
pub(crate) fn namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Returns the folders that may hold records.
fn folders() -> impl Iterator<Item = PathBuf> {
    let fixed = fixed_folders().into_iter().chain(outer_folders());
    fixed.chain(spare_folder())
}

/// Returns the files in one folder of the register, and restores the mode of the folder first. Empty if the folder does not
/// exist.
///
/// # Errors
/// The folder cannot be read, or other users can change it: then records may be missing.
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, Name)>> {
    let owner = match fs::symlink_metadata(folder) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?.uid(),
    };
    let is_spare = spare_folder().as_deref() == Some(folder);
    if is_spare && !lmcp_private::is_ours(owner) {
        // `HOME` may be the home of another user, and then no file in it is ours.
        return Ok(Vec::new());
    }
    lmcp_private::mend(folder)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(Name::parse) {
            files.push((entry.path(), name));
        }
    }
    Ok(files)
}

/// Puts a file in place in one step, so that nobody reads a half of it.
fn put(folder: &Path, name: &str, text: &[u8]) -> io::Result<PathBuf> {
    let (path, draft) = (folder.join(name), folder.join(format!("{name}.new")));
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&draft)
        .and_then(|mut file| file.write_all(text));
    let put = written.and_then(|()| fs::rename(&draft, &path));
    put.inspect_err(|_| drop(fs::remove_file(&draft)))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_process_and_what_about_it() {
        let started = Started {
            process: Pid::from_raw(7).unwrap(),
            at: 90,
        };
        let name = |kind| Some(Name { started, kind });
        assert_eq!(Name::parse("7-90.process"), name(Kind::Process));
        assert_eq!(Name::parse("7-90.ab12.starting"), name(Kind::Starting));
        for other in [
            "7.sock",
            "7-90.process.new",
            "x-90.process",
            "7-90.starting",
            "0-1.process",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_place_is_not_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7-90.process")).unwrap();
        assert!(put(folder.path(), "7-90.process", b"{}").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
