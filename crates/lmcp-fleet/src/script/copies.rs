//! Files of a host, copied into a folder that stands for its `/`, for one call. The folder goes with the call.

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
    /// Where a copy is, and of what: two paths must not lead to one copy.
    taken: HashMap<PathBuf, PathBuf>,
}

/// A folder for one user alone, which is removed with this.
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
        // Nothing can be done about one that stays; it is this user's alone.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What stands at a path of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    File {
        size: u64,
        mtime: u64,
        readable: bool,
        writable: bool,
    },
    Folder,
    /// A FIFO, a socket: something that can be copied as what it is.
    Other(FileType),
    Device,
    /// Nothing, but this above it.
    Nothing(Above),
}

/// What is above something that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Above {
    Folder(PathBuf),
    /// No folder, so nothing can be below it.
    Other(PathBuf),
    /// A folder that may not be looked into.
    Closed,
    /// A link that leads nowhere.
    Link,
}

/// What was brought of one path.
#[derive(Debug)]
pub(super) struct Brought<'a> {
    pub(super) found: Found,
    /// The beginning of the file, or all of it.
    pub(super) data: &'a [u8],
    /// A part from further on.
    pub(super) piece: &'a [u8],
}

/// What a script brought, path by path.
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

    /// What these paths of a call are called on the host, as far as they are paths: what is wrong with others the tool says.
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

    /// Where the copy of a path is. The path is that of the host.
    pub(super) fn place(&self, there: &Path) -> PathBuf {
        let mut place = self.folder.path().to_owned();
        for step in there.components() {
            match step {
                Component::Normal(name) => place.push(name),
                // No higher than the folder itself.
                Component::ParentDir if place != self.folder.path() => drop(place.pop()),
                Component::ParentDir
                | Component::CurDir
                | Component::RootDir
                | Component::Prefix(_) => {}
            }
        }
        place
    }

    /// Puts what was found at a path into its place. `content` is all of a file, as far as the tool will look.
    ///
    /// # Errors
    /// It cannot be copied, in the words that a tool would have for it there.
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

    /// A file of which only some bytes are at hand: those at its beginning, and those from an offset on.
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
                    // One that is listed has its size and time, which stay.
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

    /// What the copy holds now, if it is a file.
    pub(super) fn content(&self, there: &Path) -> Option<Vec<u8>> {
        fs::read(self.place(there)).ok()
    }

    /// How many bytes that are.
    pub(super) fn length(&self, there: &Path) -> usize {
        let length = fs::metadata(self.place(there)).map_or(0, |found| found.len());
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// Makes the folders above a copy, those among them that `..` leads back from.
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

/// When something was last changed.
pub(super) fn times(seconds: u64) -> FileTimes {
    FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
