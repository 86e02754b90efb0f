//! `list_dir`: the shell brings the names, sizes and times of a folder, and the tool lists empty files that have them.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::list_dir::{Args, Listing},
};
use rustix::fs::{CWD, FileType, Mode};

use super::{
    Far,
    copies::{Copies, Found, brought, times},
    facts::PUSH,
    link::Call,
    parts::{self, Part},
};
use crate::limits::LISTING_BYTES;

pub(super) async fn list_dir(far: Arc<Far>, args: Args, cx: Cx) -> ToolResult<Answer<Listing>> {
    let mut lease = far.pool.lease(&cx).await?;
    let facts = lease.facts();
    facts.expect_stat()?;
    let mut copies = Copies::new(&facts)?;
    let there = copies.paths_there([args.path()], &cx).await;
    if let Some(path) = there.first() {
        let (depth, most) = (args.depth().to_string(), LISTING_BYTES.to_string());
        let said = lease
            .call(&Call {
                function: "far_list",
                words: vec![path.to_str().unwrap_or_default(), &depth, &most],
                ..Call::default()
            })
            .await?;
        if said.len() > LISTING_BYTES {
            let words = format!(
                "`{}` holds too much to be listed over a shell",
                path.display()
            );
            return Err(
                ToolError::new(words).hint(format!("a smaller `depth`, or a folder in it; {PUSH}"))
            );
        }
        for file in brought(&said) {
            if file.found == Found::Folder || matches!(file.found, Found::Nothing(_)) {
                copies.put(path, "list", &file)?;
            } else {
                // The tool itself reports that the path is not a folder.
                fs::write(prepared(&copies, path)?, b"").map_err(no_copy)?;
            }
        }
        let folder = copies.place(path);
        let fill = move || {
            let done = fill(&folder, &said).and_then(|()| copies.put_rules(&said));
            (copies, done)
        };
        let (copies, done) = cx.blocking(fill).await?;
        done.map_err(no_copy)?;
        lease.done();
        return copies.mirror.list_dir(args, cx).await;
    }
    lease.done();
    copies.mirror.list_dir(args, cx).await
}

fn prepared(copies: &Copies, path: &Path) -> ToolResult<PathBuf> {
    let place = copies.place(path);
    if let Some(above) = place.parent() {
        fs::create_dir_all(above).map_err(no_copy)?;
    }
    Ok(place)
}

fn no_copy(err: io::Error) -> ToolError {
    ToolError::new("no copy of the folder can be made").source(err)
}

/// The facts about an entry.
#[derive(Debug)]
pub(super) struct Entry {
    /// The path below the folder.
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) mtime: u64,
}

impl Entry {
    pub(super) fn read(part: &Part<'_>) -> Option<Self> {
        let path = part.line().strip_prefix(b"./")?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        let is_below = path
            .components()
            .all(|step| matches!(step, std::path::Component::Normal(_)));
        is_below.then_some(())?;
        Some(Self {
            path,
            mode: u32::from_str_radix(part.word(1), 16).ok()?,
            size: part.number(2)?,
            mtime: part.number(3).unwrap_or_default(),
        })
    }
}

/// Makes an empty copy of each entry, with its type, size and time.
fn fill(folder: &Path, said: &parts::Answer) -> io::Result<()> {
    let mut folders = Vec::new();
    let mut link = None;
    for part in said.parts() {
        match part.name() {
            "entry" => {
                if let Some(entry) = Entry::read(&part) {
                    make(folder, &entry)?;
                    if FileType::from_raw_mode(entry.mode) == FileType::Directory {
                        folders.push(entry);
                    }
                }
            }
            "symlink" => link = part.bytes.strip_prefix(b"./").map(OsStr::from_bytes),
            "target" => {
                if let Some(link) = link.take() {
                    lead(&folder.join(link), OsStr::from_bytes(part.line()))?;
                }
            }
            _ => {}
        }
    }
    // The modes and times of folders are set last: making entries in a folder needs write access and changes the time.
    for entry in folders.iter().rev() {
        let path = folder.join(&entry.path);
        if let Ok(file) = File::open(&path) {
            file.set_times(times(entry.mtime))?;
        }
        fs::set_permissions(path, Permissions::from_mode(entry.mode & 0o7777))?;
    }
    Ok(())
}

fn make(folder: &Path, entry: &Entry) -> io::Result<()> {
    let path = folder.join(&entry.path);
    let mode = Mode::from_raw_mode(entry.mode & 0o7777);
    match FileType::from_raw_mode(entry.mode) {
        FileType::Directory => fs::create_dir_all(&path),
        FileType::RegularFile => {
            let file = File::create(&path)?;
            // A file with a hole takes no room.
            file.set_len(entry.size)?;
            file.set_times(times(entry.mtime))?;
            file.set_permissions(Permissions::from_mode(entry.mode & 0o7777))
        }
        // The target of the link comes in a later part.
        FileType::Symlink => {
            std::os::unix::fs::symlink("?", &path)?;
            lead_time(&path, entry.mtime)
        }
        // Only root can make a device, and nobody should; a socket is the most similar type.
        kind => {
            let kind = match kind {
                FileType::Fifo => FileType::Fifo,
                _ => FileType::Socket,
            };
            rustix::fs::mknodat(CWD, &path, kind, mode, 0)?;
            lead_time(&path, entry.mtime)
        }
    }
}

/// Replaces a link that was made before its target was known.
fn lead(path: &Path, target: &OsStr) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let modified = found.modified()?.duration_since(std::time::UNIX_EPOCH);
    fs::remove_file(path)?;
    std::os::unix::fs::symlink(target, path)?;
    lead_time(path, modified.unwrap_or_default().as_secs())
}

/// Sets the time of an entry that must not be opened.
fn lead_time(path: &Path, seconds: u64) -> io::Result<()> {
    use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};
    let time = Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or_default(),
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
