//! `copy_out`: describes a file or folder, lists a folder, and reads parts and the hash of a file.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::FileExt as _,
    },
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use ring::digest::{Context, SHA256, digest};
use rustix::fs::{AtFlags, Dir, OFlags, Stat};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Entry, Kind, LONGEST, MOST_ENTRIES, PART_BYTES, is_same_stamp, said, stamp_of};
use crate::{
    Host,
    files::{atomic::size_of, below::open_below},
    memory::{Memory, blocking_within},
    roots::Place,
    schemas,
};

pub(crate) fn tool() -> Tool<Host> {
    define(copy_out)
}

/// Defines the tool, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<String>, WithState>,
) -> Tool<S> {
    schemas::tool("copy_out", handler)
        .about("Reads a file or folder in parts, for a program that copies it to another host.")
        .deadline(LONGEST)
        .read_only()
        .beside("read_file")
}

/// Arguments of `copy_out`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Args {
    /// What is wanted.
    pub what: What,
    /// The file or folder.
    pub path: String,
    /// The first byte of a part.
    #[serde(default)]
    pub offset: u64,
    /// Bytes of a part.
    #[serde(default)]
    pub length: u64,
    /// What the file must still be.
    #[serde(default)]
    pub stamp: String,
}

/// What is wanted of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// What it is: an [`Entry`].
    Look,
    /// What is below a folder: a list of entries.
    List,
    /// A part: `data` in base64, and its `sha256`.
    Read,
    /// The `sha256` of the whole file.
    Hash,
}

async fn copy_out(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<String> {
    let here = host.here(&cx, [args.path.as_str()]).await?;
    let own = cx.clone();
    blocking_within(&cx, move |memory| {
        let place = host.roots.find(&here, &args.path)?;
        let leaving = Leaving {
            host: &host,
            place: &place,
            args: &args,
            cx: &own,
        };
        match args.what {
            What::Look => leaving.look(),
            What::List => leaving.list(memory),
            What::Read => leaving.read(memory),
            What::Hash => leaving.hash(),
        }
    })
    .await
}

/// One call at work.
struct Leaving<'a> {
    host: &'a Host,
    place: &'a Place<'a>,
    args: &'a Args,
    cx: &'a Cx,
}

impl Leaving<'_> {
    fn look(&self) -> ToolResult<String> {
        let stat = self.place.stat();
        let stat = stat.map_err(|err| self.place.failed("read", err))?;
        let entry = Entry::of(self.place.shown().display().to_string(), &stat);
        if entry.kind != Kind::Folder {
            self.place.expect_file(&stat, self.host.hard_links())?;
        }
        said(&entry)
    }

    fn list(&self, memory: &mut Memory) -> ToolResult<String> {
        let top = self.place.open_dir();
        let top = top.map_err(|err| self.place.failed("open", err))?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            expect_wanted(self.cx)?;
            for entry in self.entries(&top, &folder)? {
                if entries.len() >= MOST_ENTRIES {
                    let shown = self.place.shown().display();
                    let words =
                        format!("`{shown}` has more than {MOST_ENTRIES} files and folders in it");
                    return Err(ToolError::new(words)
                        .hint("pack it with tar, copy the archive, and unpack that there"));
                }
                if entry.kind == Kind::Folder {
                    folders.push(entry.path.clone());
                }
                entries.push(entry);
                memory.need_in_all(entries.len() * ENTRY_BYTES)?;
            }
        }
        said(&entries)
    }

    /// Returns the entries of one folder below the top. The name of the top itself is empty.
    fn entries(&self, top: &OwnedFd, folder: &str) -> ToolResult<Vec<Entry>> {
        let place = match folder {
            "" => self.place.clone(),
            folder => self.place.join(folder),
        };
        let failed = |err| place.failed("read", err);
        let path = if folder.is_empty() { "." } else { folder };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let confined = place.is_confined();
        let dir = open_below(top.as_fd(), path.as_bytes(), flags, confined).map_err(failed)?;
        let mut found = Vec::new();
        let names = Dir::read_from(&dir).map_err(failed)?;
        for name in names {
            let name = name.map_err(failed)?;
            let name = name.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let text = name.to_str();
            let text = text.map_err(|_| no_text(&place.join(&*name.to_string_lossy())))?;
            let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            let path = match folder {
                "" => text.to_owned(),
                folder => format!("{folder}/{text}"),
            };
            let mut entry = Entry::of(path, &stat);
            if entry.kind == Kind::Link {
                let target = rustix::fs::readlinkat(&dir, name, Vec::new()).map_err(failed)?;
                let target = target
                    .into_string()
                    .map_err(|_| no_text(&place.join(text)))?;
                entry.target = Some(target);
            }
            found.push(entry);
        }
        Ok(found)
    }

    fn read(&self, memory: &mut Memory) -> ToolResult<String> {
        let (offset, length) = (self.args.offset, self.args.length);
        if length > PART_BYTES {
            let words = format!("a part has at most {PART_BYTES} bytes");
            return Err(ToolError::new(words));
        }
        let wanted = usize::try_from(length)? + 1;
        // Memory for the bytes, their base64, and the answer that holds it.
        memory.need(wanted * 4)?;
        let (file, stat) = self.open()?;
        // One byte more is read where the file should end: some files report no size, and have
        // content all the same.
        let is_end = offset + length >= size_of(&stat);
        let mut bytes = vec![0; if is_end { wanted } else { wanted - 1 }];
        let read = read_at(&file, &mut bytes, offset);
        let read = read.map_err(|err| self.unreadable(err))?;
        bytes.truncate(read);
        if bytes.len() as u64 != length || !self.is_same(&file) {
            return Err(self.changed());
        }
        let hash = hex(digest(&SHA256, &bytes).as_ref());
        said(&json!({ "data": STANDARD.encode(&bytes), "sha256": hash }))
    }

    fn hash(&self) -> ToolResult<String> {
        let (file, stat) = self.open()?;
        let hash = hash_of(&file, size_of(&stat), self.cx)?;
        match hash.filter(|_| self.is_same(&file)) {
            Some(hash) => said(&json!({ "sha256": hash })),
            None => Err(self.changed()),
        }
    }

    /// Opens the file, if it has not changed.
    fn open(&self) -> ToolResult<(File, Stat)> {
        let (file, stat) = self.place.open_file(self.host.hard_links())?;
        match is_same_stamp(&stamp_of(&stat), &self.args.stamp) {
            true => Ok((file, stat)),
            false => Err(self.changed()),
        }
    }

    fn is_same(&self, file: &File) -> bool {
        let now = rustix::fs::fstat(file);
        now.is_ok_and(|now| is_same_stamp(&stamp_of(&now), &self.args.stamp))
    }

    fn changed(&self) -> ToolError {
        changed(&self.place.shown().display().to_string())
    }

    fn unreadable(&self, err: io::Error) -> ToolError {
        let shown = self.place.shown().display();
        ToolError::new(format!("cannot read `{shown}`")).source(err)
    }
}

/// Returns the error about a file that changed after its copying began.
pub fn changed(path: &str) -> ToolError {
    ToolError::new(format!("`{path}` was changed while it was copied"))
        .hint("copy it again when nobody writes it")
}

/// Returns the error about a name that is no UTF-8: paths are sent as text.
fn no_text(place: &Place<'_>) -> ToolError {
    let shown = place.shown().display();
    ToolError::new(format!(
        "`{shown}` has a name, or leads to one, that is no UTF-8, and cannot be copied"
    ))
}

/// Returns the hash of a file that has so many bytes. `None`: the file has more or fewer.
pub(super) fn hash_of(file: &File, size: u64, cx: &Cx) -> ToolResult<Option<String>> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    loop {
        expect_wanted(cx)?;
        let read = read_at(file, &mut buffer, at)
            .map_err(|err| ToolError::new("the file cannot be read").source(err))?;
        context.update(buffer.get(..read).unwrap_or_default());
        at += read as u64;
        if read < buffer.len() || at > size {
            return Ok((at == size).then(|| hex(context.finish().as_ref())));
        }
    }
}

/// Fills as much of the buffer as the file has from the offset on.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(filled)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fails if the call was cancelled, so nobody waits for the result.
fn expect_wanted(cx: &Cx) -> ToolResult<()> {
    match cx.is_cancelled() {
        true => Err(ToolError::new("cancelled")),
        false => Ok(()),
    }
}

/// How many bytes are read at once to hash them.
const BUFFER_BYTES: usize = 128 * 1024;

/// The memory that an entry takes until it is sent, roughly.
const ENTRY_BYTES: usize = 512;
