//! The folders that the file tools may use.
//!
//! A path is never compared as a string to decide anything: the kernel resolves it below the root's open directory
//! (`openat2`, `RESOLVE_BENEATH`), and all later steps use the file that it found. `..`, links and `/proc` cannot lead out,
//! not even if somebody swaps them meanwhile.

use std::{
    ffi::OsString,
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use lmcp_core::{Error, ToolError, ToolResult};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};

use crate::here::Here;

/// The roots, or the whole file system.
#[derive(Debug)]
pub(crate) struct Roots {
    roots: Vec<Root>,
    /// The other host, if the one root is a folder that stands for it.
    stand_in: Option<StandIn>,
}

/// A folder that stands for the whole file system of another host.
#[derive(Debug)]
pub(crate) struct StandIn {
    /// The folder on that host in which relative paths begin.
    pub(crate) start: PathBuf,
    /// The home on that host, for `~`.
    pub(crate) home: PathBuf,
}

#[derive(Debug)]
struct Root {
    /// The path as the operator wrote it, made absolute, and the same path without links: a path may begin with either.
    names: [PathBuf; 2],
    dir: OwnedFd,
}

/// A file or folder that a path names, and how it may be reached.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    roots: &'a Roots,
    /// The root that the place is below.
    root: Option<&'a Root>,
    /// The path below the root; or the path itself if there are no roots.
    below: PathBuf,
    /// The path for people.
    shown: PathBuf,
    /// The bits that are taken from the mode of a new file, beside the umask of the server.
    umask: u32,
}

impl Roots {
    /// Opens the roots. No roots mean the whole file system.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let roots = paths
            .iter()
            .map(|path| Root::open(path))
            .collect::<Result<Vec<_>, _>>()?;
        for inner in &roots {
            for outer in &roots {
                inner.expect_no_way_out_of(outer)?;
            }
        }
        Ok(Self {
            roots,
            stand_in: None,
        })
    }

    /// Opens a folder that stands for `/` of another host: files below it are shown with their paths on that host.
    pub(crate) fn standing_in(folder: &Path, host: StandIn) -> Result<Self, Error> {
        let mut root = Root::open(folder)?;
        root.names = ["/".into(), "/".into()];
        Ok(Self {
            roots: vec![root],
            stand_in: Some(host),
        })
    }

    /// Returns the other host, if a folder stands for one.
    pub(crate) fn stand_in(&self) -> Option<&StandIn> {
        self.stand_in.as_ref()
    }

    /// Returns the roots' own paths, without links.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.names[1].as_path())
    }

    /// Finds the place that a path names. Relative paths begin at `here`, else at the first root, or in the folder in which
    /// the server was started; `~` is the home.
    ///
    /// # Errors
    /// The path is empty, or begins outside of every root.
    pub(crate) fn find(&self, here: &Here, path: &str) -> ToolResult<Place<'_>> {
        if path.is_empty() || path.contains('\0') {
            return Err(
                ToolError::new(format!("`{path}` is not a path")).hint("name a file or folder")
            );
        }
        let path = here.join(path);
        let Some(first) = self.roots.first() else {
            return Ok(Place {
                roots: self,
                root: None,
                below: path.clone(),
                shown: std::path::absolute(&path).unwrap_or(path),
                umask: here.umask(),
            });
        };
        let path = first.names[0].join(path);
        let mut places = self
            .roots
            .iter()
            .filter_map(|root| self.below(root, &path))
            .peekable();
        while let Some(place) = places.next() {
            // A path may lead out of one root and still be below another root, which contains the first.
            let is_last = places.peek().is_none();
            if is_last || place.open(OFlags::PATH, Mode::empty()).err() != Some(Errno::XDEV) {
                let umask = here.umask();
                return Ok(Place { umask, ..place });
            }
        }
        Err(ToolError::new(format!(
            "`{}` is outside of what this server may touch",
            path.display()
        ))
        .hint(self.advice()))
    }

    /// Returns where a path begins, for a look that must not wait: the root, the path below it, and how to resolve that
    /// path. `None` if that alone would need the disk, as with several roots.
    pub(crate) fn unresolved(
        &self,
        here: &Here,
        path: &str,
    ) -> Option<(Option<BorrowedFd<'_>>, PathBuf, ResolveFlags)> {
        let path = here.join(path);
        match self.roots.as_slice() {
            [] => Some((None, path, ResolveFlags::empty())),
            [root] => {
                let place = self.below(root, &root.names[0].join(path))?;
                Some((Some(root.dir.as_fd()), place.below, BENEATH))
            }
            _ => None,
        }
    }

    fn below<'a>(&'a self, root: &'a Root, path: &Path) -> Option<Place<'a>> {
        let below = root
            .names
            .iter()
            .find_map(|name| path.strip_prefix(name).ok())?;
        let is_root = below.as_os_str().is_empty();
        Some(Place {
            roots: self,
            root: Some(root),
            below: if is_root { Path::new(".") } else { below }.to_owned(),
            shown: path.to_owned(),
            umask: 0,
        })
    }

    fn advice(&self) -> String {
        let roots: Vec<_> = self
            .paths()
            .map(|root| root.display().to_string())
            .collect();
        format!("stay below {}", roots.join(" or "))
    }
}

impl Root {
    fn open(path: &Path) -> Result<Self, Error> {
        let failed = |err: Errno| {
            Error::io(
                format!("cannot open the root {}", path.display()),
                err.into(),
            )
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        // This fails if the kernel does not know the call, and then no root can be trusted.
        rustix::fs::openat2(&dir, ".", flags, Mode::empty(), BENEATH).map_err(|err| {
            Error::io(
                "this kernel cannot confine paths to a root (openat2)",
                err.into(),
            )
        })?;
        let real = std::fs::canonicalize(path)
            .map_err(|err| Error::io(format!("cannot resolve the root {}", path.display()), err))?;
        let absolute = std::path::absolute(path).unwrap_or_else(|_| real.clone());
        Ok(Self {
            names: [absolute, real],
            dir,
        })
    }

    /// Checks that this root lies in the other root if its name does. If not, it is a link, and a command that may write in the other root
    /// can have made the link since the operator chose the roots.
    fn expect_no_way_out_of(&self, outer: &Self) -> Result<(), Error> {
        let [name, real] = &self.names;
        let is_inside = outer.names.iter().any(|outer| name.starts_with(outer));
        if !is_inside || real.starts_with(&outer.names[1]) {
            return Ok(());
        }
        Err(Error::config(format!(
            "the root {} lies in the root {}, but is a link to {}, which commands can have made; name the folder itself",
            name.display(),
            outer.names[0].display(),
            real.display()
        )))
    }
}

impl Place<'_> {
    /// Returns the mode for a new file here. The umask of the server takes further bits from it.
    pub(crate) fn new_mode(&self, mode: u32) -> Mode {
        Mode::from_raw_mode(mode & !self.umask)
    }

    /// Returns the path for people, for messages.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Returns whether the place is below a root.
    pub(crate) fn is_confined(&self) -> bool {
        self.root.is_some()
    }

    /// Returns how many folders the place is below its root, by its name.
    pub(crate) fn depth(&self) -> usize {
        let steps = self.below.components();
        steps.fold(0_usize, |depth, step| match step {
            Component::Normal(_) => depth + 1,
            Component::ParentDir => depth.saturating_sub(1),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => depth,
        })
    }

    /// Returns the place of a name in this folder.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> Self {
        Self {
            below: self.below.join(&name),
            shown: self.shown.join(&name),
            ..*self
        }
    }

    /// Opens the place, always below its root, whatever links say.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self.root {
            None => rustix::fs::openat(CWD, &self.below, flags, mode),
            Some(root) => {
                retry(|| rustix::fs::openat2(&root.dir, &self.below, flags, mode, BENEATH))
            }
        }
    }

    /// Opens a regular file to read, and nothing else: a FIFO or a device could hold the reader for ever.
    ///
    /// # Errors
    /// The reason, in words for the model.
    pub(crate) fn open_file(&self, hard_links: HardLinks) -> ToolResult<(File, Stat)> {
        // Opening a device has an effect: a tape rewinds, a watchdog starts. So the file is checked before it is opened, and
        // again afterwards, because it may be another file by then.
        let stat = self.stat().map_err(|err| self.failed("read", err))?;
        self.expect_file(&stat, hard_links)?;
        // Without O_NONBLOCK the open itself would wait at a FIFO.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self
            .open(flags, Mode::empty())
            .map_err(|err| self.failed("read", err))?;
        let stat = rustix::fs::fstat(&fd).map_err(|err| self.failed("read", err))?;
        self.expect_file(&stat, hard_links)?;
        Ok((File::from(fd), stat))
    }

    /// Returns the state of the file, without opening it to read. Links are followed, below the root.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        match self.root {
            None => rustix::fs::statat(CWD, &self.below, AtFlags::empty()),
            Some(_) => rustix::fs::fstat(self.open(OFlags::PATH, Mode::empty())?),
        }
    }

    /// Opens a folder, to list it or to work in it.
    pub(crate) fn open_dir(&self) -> Result<OwnedFd, Errno> {
        self.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// Returns the folder that holds the place, and its name there. `None` for a root itself, and for a path that ends in
    /// `..`.
    pub(crate) fn parent(&self) -> Option<(Self, OsString)> {
        let name = match self.below.components().next_back()? {
            Component::Normal(name) => name.to_owned(),
            _ => return None,
        };
        let below = self
            .below
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = Self {
            below: below.unwrap_or(Path::new(".")).to_owned(),
            shown: self.shown.parent().unwrap_or(Path::new("/")).to_owned(),
            ..*self
        };
        Some((parent, name))
    }

    /// Checks that this is a regular file, and one that this server may touch.
    pub(crate) fn expect_file(&self, stat: &Stat, hard_links: HardLinks) -> ToolResult<()> {
        let shown = self.shown.display();
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return Err(ToolError::new(format!("`{shown}` is a folder"))
                .hint("list_dir shows what is in it"));
        }
        if kind != FileType::RegularFile {
            return Err(ToolError::new(format!(
                "`{shown}` is {}, not a file",
                kind_name(kind)
            )));
        }
        if self.is_confined() && hard_links == HardLinks::Refuse && stat.st_nlink > 1 {
            return Err(ToolError::new(format!(
                "`{shown}` has another name, perhaps outside of what this server may touch"
            )));
        }
        Ok(())
    }

    /// Returns why something could not be done, in words for the model.
    pub(crate) fn failed(&self, what: &str, err: Errno) -> ToolError {
        let shown = self.shown.display();
        match err {
            Errno::NOENT => {
                let error = ToolError::new(format!("`{shown}` does not exist"));
                match self.nearest_folder() {
                    Some(folder) => error.hint(format!(
                        "`{}` exists, list_dir shows what is in it",
                        folder.display()
                    )),
                    None => error,
                }
            }
            Errno::XDEV => ToolError::new(format!(
                "`{shown}` leads outside of what this server may touch"
            ))
            .hint(format!(
                "{}; links to absolute paths are not followed, name what they lead to",
                self.roots.advice()
            )),
            Errno::LOOP => ToolError::new(format!(
                "`{shown}` goes through links that lead nowhere or may not be followed"
            )),
            Errno::NOTDIR => ToolError::new(format!(
                "`{shown}` goes through something that is no folder"
            )),
            err => ToolError::new(format!("cannot {what} `{shown}`")).source(err),
        }
    }

    /// Returns the nearest folder above the place that exists.
    fn nearest_folder(&self) -> Option<PathBuf> {
        let (mut above, _) = self.parent()?;
        while above.open_dir().is_err() {
            above = above.parent()?.0;
        }
        Some(above.shown)
    }

    /// Returns the root's directory.
    pub(crate) fn base(&self) -> BorrowedFd<'_> {
        self.root.map_or(CWD, |root| root.dir.as_fd())
    }
}

/// Whether a file that has several names is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HardLinks {
    Allow,
    Refuse,
}

/// Returns the words for a type of file.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// Paths are resolved below the root, and not through links that stand for an open file of some process.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Tries again: the kernel gives up with `EAGAIN` if something is renamed while it resolves `..`.
fn retry<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..64 {
        match attempt() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    attempt()
}

/// Returns the home of the server's user.
pub(crate) fn own_home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

/// Returns the path, with the home for a `~` at its beginning.
pub(crate) fn expand_home(path: &str, home: Option<&Path>) -> PathBuf {
    let Some(rest) = path
        .strip_prefix('~')
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
    else {
        return path.into();
    };
    match home {
        Some(home) => home.join(rest.trim_start_matches('/')),
        None => path.into(),
    }
}
