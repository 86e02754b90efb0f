//! Files of a host, copied into a folder that stands for its `/`, for one call. The folder is removed with the call.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, DirBuilder, File, FileTimes},
    io::{self, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, FileExt as _},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::elsewhere::{Mirror, new_id};
use rustix::fs::{CWD, FileType, Mode};

use super::{
    facts::Facts,
    parts::{Answer, Part},
};
use crate::limits::TOLD;

/// Copies of files of a host.
#[derive(Debug)]
pub(super) struct Copies {
    folder: Folder,
    pub(super) mirror: Mirror,
    /// The place of each copy, with the path that it is a copy of: two paths must not share one copy.
    taken: HashMap<PathBuf, PathBuf>,
}

/// A folder for this user alone, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> ToolResult<Self> {
        let path = std::env::temp_dir().join(format!("lmcp-{}", new_id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|err| ToolError::new("no folder can be made for copies").source(err))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If the folder stays, nothing can be done about it; only this user can read it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The entry at a path of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    File {
        size: u64,
        mtime: u64,
        readable: bool,
        writable: bool,
    },
    Folder,
    /// A FIFO or a socket, which is copied as an entry of that type.
    Other(FileType),
    Device,
    /// No entry. The value says what is above.
    Nothing(Above),
}

/// The nearest entry above a path that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Folder(PathBuf),
    /// Not a folder, so nothing can be below it.
    Other(PathBuf),
    /// A folder that may not be searched.
    Closed,
    /// A link that leads nowhere.
    Link,
}

/// The data that a script brought of one path.
#[derive(Debug)]
pub(super) struct Brought<'a> {
    pub(super) found: Found,
    /// The beginning of the file, or all of it.
    pub(super) data: &'a [u8],
    /// A part of the file from an offset on.
    pub(super) piece: &'a [u8],
}

/// Reads the data that a script brought, path by path.
pub(super) fn brought(answer: &Answer) -> Vec<Brought<'_>> {
    let mut all: Vec<Brought<'_>> = Vec::new();
    for part in answer.parts() {
        let is_full = all.len() >= TOLD;
        match (part.name(), all.last_mut()) {
            ("path", _) if is_full => break,
            ("path", _) => all.push(Brought {
                found: Found::Nothing(Above::Link),
                data: &[],
                piece: &[],
            }),
            ("data", Some(last)) => last.data = part.bytes,
            ("piece", Some(last)) => last.piece = part.bytes,
            (_, Some(last)) => {
                if let Some(found) = Found::read(&part) {
                    last.found = found;
                }
            }
            (_, None) => {}
        }
    }
    all
}

impl Found {
    fn read(part: &Part<'_>) -> Option<Self> {
        let path = || PathBuf::from(part.text());
        Some(match (part.name(), part.word(1)) {
            ("file", "file") => Self::File {
                size: part.number(4)?,
                mtime: part.number(5).unwrap_or_default(),
                readable: part.word(2).contains('r'),
                writable: part.word(2).contains('w'),
            },
            ("file", "dir") => Self::Folder,
            ("file", "fifo") => Self::Other(FileType::Fifo),
            ("file", "socket") => Self::Other(FileType::Socket),
            ("file", _) => Self::Device,
            ("missing", "dir") => Self::Nothing(Above::Folder(path())),
            ("missing", "closed") => Self::Nothing(Above::Closed),
            ("missing", _) => Self::Nothing(Above::Other(path())),
            ("link", _) => Self::Nothing(Above::Link),
            _ => return None,
        })
    }
}

impl Copies {
    pub(super) fn new(facts: &Facts) -> ToolResult<Self> {
        let folder = Folder::new()?;
        let mirror = Mirror::new(folder.path(), &facts.start, &facts.home)
            .map_err(|err| ToolError::new("no copies can be made").source(err))?;
        Ok(Self {
            folder,
            mirror,
            taken: HashMap::new(),
        })
    }

    /// Returns the paths on the host for the paths of a call. Values that are not valid paths are skipped: the tool itself
    /// reports them.
    pub(super) async fn paths_there<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p str>,
        cx: &Cx,
    ) -> Vec<PathBuf> {
        let mut there = Vec::new();
        for path in paths {
            if let Ok(path) = self.mirror.path_there(path, cx).await
                && !there.contains(&path)
            {
                there.push(path);
            }
        }
        there
    }

    /// Returns the place of the copy of a path. The path is that of the host.
    pub(super) fn place(&self, there: &Path) -> PathBuf {
        let mut place = self.folder.path().to_owned();
        for step in there.components() {
            match step {
                Component::Normal(name) => place.push(name),
                // The place never leaves the folder.
                Component::ParentDir if place != self.folder.path() => drop(place.pop()),
                Component::ParentDir
                | Component::CurDir
                | Component::RootDir
                | Component::Prefix(_) => {}
            }
        }
        place
    }

    /// Puts the entry of a path into its place.
    ///
    /// # Errors
    /// The entry cannot be copied, in the words that a tool on the host would use.
    pub(super) fn put(
        &mut self,
        there: &Path,
        what: &str,
        brought: &Brought<'_>,
    ) -> ToolResult<()> {
        let shown = there.display();
        let place = self.place(there);
        let other = self.taken.insert(place.clone(), there.to_owned());
        if let Some(other) = other.filter(|other| other != there)
            && fs::read(&place).ok().as_deref() != Some(brought.data)
        {
            let words = format!("`{shown}` and `{}` may be one file", other.display());
            return Err(ToolError::new(words).hint("name each file once, without `..`"));
        }
        let denied =
            || ToolError::new(format!("cannot {what} `{shown}`")).source(rustix::io::Errno::ACCESS);
        let copied = match &brought.found {
            Found::File {
                readable: false, ..
            } if what == "read" => return Err(denied()),
            Found::File { mtime, .. } => self.way_to(there, &place).and_then(|()| {
                let mut file = File::create(&place)?;
                file.write_all(brought.data)?;
                file.set_times(times(*mtime))
            }),
            Found::Folder => self
                .way_to(there, &place)
                .and_then(|()| fs::create_dir_all(&place)),
            Found::Other(kind) => self.way_to(there, &place).and_then(|()| {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(CWD, &place, *kind, mode, 0).map_err(Into::into)
            }),
            Found::Device => {
                return Err(ToolError::new(format!("`{shown}` is a device, not a file")));
            }
            Found::Nothing(Above::Folder(above)) => fs::create_dir_all(self.place(above)),
            Found::Nothing(Above::Other(above)) => {
                let above_here = self.place(above);
                self.way_to(above, &above_here)
                    .and_then(|()| File::create(above_here).map(drop))
            }
            Found::Nothing(Above::Closed) => return Err(denied()),
            Found::Nothing(Above::Link) => self.way_to(there, &place),
        };
        copied
            .map_err(|err| ToolError::new(format!("no copy of `{shown}` can be made")).source(err))
    }

    /// Writes a file of which only some bytes are known: the bytes at its beginning, and the bytes from an offset on.
    pub(super) fn put_piece(
        &self,
        there: &Path,
        size: u64,
        offset: u64,
        piece: &[u8],
    ) -> io::Result<()> {
        let file = File::options().write(true).open(self.place(there))?;
        file.set_len(size)?;
        file.write_all_at(piece, offset)
    }

    /// Puts ignore files and the tops of repositories into their places.
    pub(super) fn put_rules(&self, answer: &Answer) -> io::Result<()> {
        let mut rules_of = None;
        let there = |part: &Part<'_>| PathBuf::from(OsStr::from_bytes(part.bytes));
        for part in answer.parts() {
            match (part.name(), rules_of.take()) {
                ("rules-of", _) => rules_of = Some(there(&part)),
                ("rules", Some(path)) => {
                    let place = self.place(&path);
                    self.way_to(&path, &place)?;
                    // A listed file already has its size and time, and keeps them.
                    let before = fs::metadata(&place).and_then(|found| found.modified());
                    let mut file = File::options()
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(&place)?;
                    file.write_all(part.bytes)?;
                    if let Ok(before) = before {
                        file.set_times(FileTimes::new().set_modified(before))?;
                    }
                }
                ("repository", _) => fs::create_dir_all(self.place(&there(&part)))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the content of the copy, if it is a file.
    pub(super) fn content(&self, there: &Path) -> Option<Vec<u8>> {
        fs::read(self.place(there)).ok()
    }

    /// Returns the length of the copy in bytes.
    pub(super) fn length(&self, there: &Path) -> usize {
        let length = fs::metadata(self.place(there)).map_or(0, |found| found.len());
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// Makes the folders above a copy, also those that a `..` in the path leaves again.
    fn way_to(&self, there: &Path, place: &Path) -> io::Result<()> {
        let mut at = PathBuf::from("/");
        for step in there.parent().into_iter().flat_map(Path::components) {
            at.push(step);
            fs::create_dir_all(self.place(&at))?;
        }
        match place.parent() {
            Some(above) => fs::create_dir_all(above),
            None => Ok(()),
        }
    }
}

/// Returns the time of the last change.
pub(super) fn times(seconds: u64) -> FileTimes {
    FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
