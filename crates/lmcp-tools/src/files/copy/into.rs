//! `copy_in`: puts a file or folder together from parts that come from another host.
//!
//! The copy grows under a name of its own beside its place, and takes the place by a rename: a file when its hash is that of
//! the original, a folder when all is in it. If a connection is lost, the next call finds the incomplete copy by the same
//! name and goes on with it. A copy that nobody comes back to is removed with the next write to the same file (`draft`).

use std::{
    ffi::OsString,
    fs::File,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt as _, fs::FileExt as _},
    },
    path::{Component, Path},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Kind, LONGEST, out::hash_of, said};
use crate::{
    Host,
    files::{
        atomic::{Failed, size_of},
        draft::{Folder, draft_prefix, finish},
        hold::Held,
        target::{Parents, Target},
        turn::{Turn, in_turn},
    },
    here::Here,
    roots::Place,
    schemas,
};

pub(crate) fn tool() -> Tool<Host> {
    define(copy_in)
}

/// Defines the tool, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<String>, WithState>,
) -> Tool<S> {
    schemas::tool("copy_in", handler)
        .about("Puts a file or folder together from parts, for a program that copies it from another host.")
        .deadline(LONGEST)
        .destructive()
        .beside("write_file")
}

/// Arguments of `copy_in`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Args {
    /// What is to be done.
    pub what: What,
    /// Where the file, folder or link will stand.
    pub path: String,
    /// The folder that the copy becomes, if this is something in it: below it no link is followed.
    pub top: Option<String>,
    /// Names what is not complete yet: twelve hexadecimal digits.
    #[serde(default)]
    pub key: String,
    /// What begins.
    #[serde(default)]
    pub kind: Kind,
    /// Bytes of the whole file.
    #[serde(default)]
    pub size: u64,
    /// The hash of the whole file.
    #[serde(default)]
    pub sha256: String,
    /// Who may do what with it.
    #[serde(default)]
    pub mode: u32,
    /// Where the part begins.
    #[serde(default)]
    pub offset: u64,
    /// The part, in base64.
    pub data: Option<String>,
    /// Where a link leads.
    pub target: Option<String>,
    /// May something stand there already?
    #[serde(default)]
    pub overwrite: bool,
    /// Are missing folders above it made?
    #[serde(default)]
    pub parents: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// Looks whether it may stand there. Of a file: bytes that are there already (`kept`). Of a folder: where to put it
    /// together (`work`), and whether it has to be settled afterwards (`is_draft`).
    Begin,
    /// Takes a part of a file.
    Write,
    /// Takes the last part of a file, if one is given, and gives the file its name if its hash is the right one.
    Finish,
    /// Makes a folder, or finds it there. Is it one that gets its mode at the end (`is_growing`)?
    Folder,
    /// Gives a folder that a copy has made the mode that it is to have, once all is in it.
    Mode,
    /// Makes a link.
    Link,
    /// Gives a folder its name.
    Settle,
}

async fn copy_in(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<String> {
    let here = host.here(&cx, [args.path.as_str()]).await?;
    let own = cx.clone();
    in_turn(&cx, move |memory, turn| {
        memory.need(args.data.as_ref().map_or(0, String::len))?;
        Arriving {
            host: &host,
            here: &here,
            args: &args,
            cx: &own,
        }
        .run(turn)
    })
    .await
}

/// One call at work.
struct Arriving<'a> {
    host: &'a Host,
    here: &'a Here,
    args: &'a Args,
    cx: &'a Cx,
}

impl<'a> Arriving<'a> {
    fn run(&self, turn: &Turn) -> Result<String, Failed> {
        let place = self.host.roots.find(self.here, &self.args.path)?;
        let done = match (self.args.what, self.args.kind) {
            (What::Begin, Kind::Folder) => self.begin_folder(&place),
            (What::Begin, _) => self.begin_file(&place),
            (What::Write, _) => self.write(&place),
            (What::Finish, _) => return self.finish(&place, turn),
            (What::Folder, _) => self.folder(),
            (What::Mode, _) => self.set_mode(),
            (What::Link, _) => self.link(),
            (What::Settle, _) => self.settle(&place),
        };
        Ok(done?)
    }

    fn target(&self, place: &Place<'a>) -> ToolResult<Target<'a>> {
        if self.args.top.is_some() {
            return self.below();
        }
        let parents = match self.args.parents {
            true => Parents::Make,
            false => Parents::Expect,
        };
        Target::find(place, parents, self.host.hard_links())
    }

    /// Returns the target of an entry in the folder that the copy becomes. Links there may be of an earlier copy, and lead
    /// wherever its host wanted, so none is followed.
    fn below(&self) -> ToolResult<Target<'a>> {
        let (path, top) = (&self.args.path, self.args.top.as_deref());
        let top = top.ok_or_else(|| ToolError::new("`top` is missing"))?;
        let steps = Path::new(path).strip_prefix(top).ok();
        let is_plain = |step| matches!(step, Component::Normal(_));
        let steps = steps
            .filter(|steps| steps.file_name().is_some() && steps.components().all(is_plain))
            .ok_or_else(|| ToolError::new(format!("`{path}` is not below `{top}`")))?;
        let top = self.host.roots.find(self.here, top)?;
        Target::below(&top, steps, self.host.hard_links())
    }

    fn begin_file(&self, place: &Place<'a>) -> ToolResult<String> {
        let target = self.target(place)?;
        let name = self.draft_name(&target)?;
        if is_taken(&target)? && !self.args.overwrite {
            return Err(exists(place));
        }
        let kept = match self.open_draft(&target, &name, OFlags::RDONLY)? {
            // A longer draft cannot be a part of the file.
            Some((_, stat)) if size_of(&stat) > self.args.size => {
                remove(&target, &name)?;
                0
            }
            Some((_, stat)) => size_of(&stat),
            None => 0,
        };
        said(&json!({ "kept": kept, "path": place.shown().display().to_string() }))
    }

    fn begin_folder(&self, place: &Place<'a>) -> ToolResult<String> {
        let shown = place.shown().display().to_string();
        match place.stat() {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                return Err(ToolError::new(format!("`{shown}` is no folder")));
            }
            Ok(_) if self.args.overwrite => {
                return said(&json!({ "work": shown, "is_draft": false, "path": shown }));
            }
            Ok(_) => return Err(exists(place)),
            Err(Errno::NOENT) => {}
            Err(err) => return Err(place.failed("open", err)),
        }
        let target = self.target(place)?;
        let name = self.draft_name(&target)?;
        let Some((above, _)) = place.parent().filter(|(_, own)| *own == target.name) else {
            return Err(ToolError::new(format!(
                "`{shown}` is a link that leads nowhere"
            )));
        };
        match rustix::fs::mkdirat(&target.dir, &name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) => drop(self.open_draft_folder(&target, &name)?),
            Err(err) => return Err(target.failed(err)),
        }
        let work = above.join(&name).shown().display().to_string();
        said(&json!({ "work": work, "is_draft": true, "path": shown }))
    }

    fn write(&self, place: &Place<'a>) -> ToolResult<String> {
        let target = self.target(place)?;
        let name = self.draft_name(&target)?;
        let size = self.take_part(&target, &name)?;
        said(&json!({ "kept": size }))
    }

    /// Writes the part that came, and returns how many bytes are there now.
    fn take_part(&self, target: &Target<'_>, name: &OsString) -> ToolResult<u64> {
        let data = self.args.data.as_deref().unwrap_or_default();
        let data = STANDARD
            .decode(data)
            .map_err(|err| ToolError::new("`data` is not base64").source(err))?;
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let opened = self.open_draft(target, name, flags)?;
        let (file, stat) = opened.ok_or_else(|| target.failed(Errno::NOENT))?;
        if self.args.offset > size_of(&stat) {
            return Err(ToolError::new(
                "the part begins behind the end of what is there",
            ));
        }
        let written = file.write_all_at(&data, self.args.offset);
        written.map_err(|err| target.failed(errno(&err)))?;
        Ok(size_of(&stat).max(self.args.offset + data.len() as u64))
    }

    fn finish(&self, place: &Place<'a>, turn: &Turn) -> Result<String, Failed> {
        let target = self.target(place)?;
        let name = self.draft_name(&target)?;
        let _alone = turn.take(&self.host.locks, [target.key()])?;
        let held = Held::take(&target, &[], turn)?;
        Ok(self.give_name(&target, &name, held)?)
    }

    /// Takes the last part, if one is given, and gives the file its name if its hash is the right one.
    fn give_name(&self, target: &Target<'a>, name: &OsString, held: Held) -> ToolResult<String> {
        let place = target.place();
        if self.args.data.is_some() {
            self.take_part(target, name)?;
        }
        let is_taken = is_taken(target)?;
        let draft = self.open_draft(target, name, OFlags::RDONLY)?;
        let done = || said(&json!({ "path": place.shown().display().to_string() }));
        let Some((draft, _)) = draft else {
            return match is_taken && self.has_come(target)? {
                true => done(),
                false => Err(ToolError::new("what was copied so far is gone")
                    .hint("copy it again from the beginning")),
            };
        };
        if !self.is_whole(&draft)? {
            remove(target, name)?;
            return said(&json!({ "differs": true }));
        }
        if is_taken && !self.args.overwrite {
            let has_come = self.has_come(target)?;
            remove(target, name)?;
            return if has_come { done() } else { Err(exists(place)) };
        }
        let failed = |err| target.failed(err);
        rustix::fs::fchmod(&draft, self.mode(place)).map_err(failed)?;
        finish(&draft, b"").map_err(failed)?;
        let taken = match self.args.overwrite {
            true => rustix::fs::renameat(&target.dir, name, &target.dir, &target.name),
            false => take_free_name(target, name),
        };
        taken.map_err(|err| match err {
            Errno::EXIST => exists(place),
            err => failed(err),
        })?;
        drop(held);
        let folder = Folder::of(target);
        folder.sync();
        folder.sweep();
        done()
    }

    /// Returns whether the file itself is in its place. Then this is a repeated call, because the first answer was lost on
    /// the way.
    fn has_come(&self, target: &Target<'_>) -> ToolResult<bool> {
        match target.open(OFlags::RDONLY) {
            Ok(file) => self.is_whole(&file),
            Err(_) => Ok(false),
        }
    }

    /// Returns whether this is the whole file that is copied.
    fn is_whole(&self, file: &File) -> ToolResult<bool> {
        let hash = hash_of(file, self.args.size, self.cx)?;
        Ok(hash.is_some_and(|hash| hash == self.args.sha256))
    }

    fn folder(&self) -> ToolResult<String> {
        let target = self.below()?;
        let failed = |err| target.place().failed("make", err);
        if target.is_link() {
            if !self.args.overwrite {
                return Err(exists(target.place()));
            }
            remove(&target, &target.name)?;
        }
        let wanted = self.mode(target.place());
        let is_closed = !wanted.contains(Mode::RWXU);
        match rustix::fs::mkdirat(&target.dir, &target.name, wanted | Mode::RWXU) {
            Ok(()) if is_closed => {
                let folder = open_folder(&target, &target.name);
                let set = folder.and_then(|folder| rustix::fs::fchmod(folder, GROWING));
                set.map_err(failed)?;
            }
            Ok(()) | Err(Errno::EXIST) => {}
            Err(err) => return Err(failed(err)),
        }
        let folder = open_folder(&target, &target.name).map_err(failed)?;
        let now = mode_of(&rustix::fs::fstat(&folder).map_err(failed)?);
        said(&json!({ "is_growing": now == GROWING }))
    }

    fn set_mode(&self) -> ToolResult<String> {
        let target = self.below()?;
        let failed = |err| target.place().failed("change", err);
        let folder = open_folder(&target, &target.name).map_err(failed)?;
        let stat = rustix::fs::fstat(&folder).map_err(failed)?;
        let wanted = self.mode(target.place());
        match mode_of(&stat) {
            // This is a repeated call, because the first answer was lost on the way.
            now if now == wanted => {}
            GROWING if is_own(&stat) => rustix::fs::fchmod(folder, wanted).map_err(failed)?,
            _ => {
                let shown = target.place().shown().display();
                let words = format!("`{shown}` is no folder that this copy has made");
                return Err(ToolError::new(words));
            }
        }
        said(&json!({}))
    }

    /// Returns the mode of a file or folder of the copy: never more than a new one gets, and only its owner may write to it.
    fn mode(&self, place: &Place<'_>) -> Mode {
        place.new_mode(self.args.mode & 0o755 & !own_umask())
    }

    fn link(&self) -> ToolResult<String> {
        let leads_to = self.args.target.as_deref().unwrap_or_default();
        let target = self.below()?;
        let (place, dir, name) = (target.place(), &target.dir, &target.name);
        let failed = |err| place.failed("make", err);
        let (above, _) = place.parent().ok_or_else(|| exists(place))?;
        if place.is_confined() && leads_out(&above, leads_to) {
            let shown = place.shown().display();
            return Err(ToolError::new(format!(
                "the link `{shown}` would lead to `{leads_to}`, outside of what this server may touch"
            )));
        }
        let now = rustix::fs::readlinkat(dir, name, Vec::new());
        if now.is_ok_and(|now| now.as_bytes() == leads_to.as_bytes()) {
            return said(&json!({}));
        }
        match rustix::fs::symlinkat(leads_to, dir, name) {
            Ok(()) => return said(&json!({})),
            Err(Errno::EXIST) if self.args.overwrite => {}
            Err(Errno::EXIST) => return Err(exists(place)),
            Err(err) => return Err(failed(err)),
        }
        let draft = format!(".{}.lmcp-{}", name.display(), self.key()?);
        // Removes a draft that an earlier copy left.
        let _ = rustix::fs::unlinkat(dir, &draft, AtFlags::empty());
        let made = rustix::fs::symlinkat(leads_to, dir, &draft)
            .and_then(|()| rustix::fs::renameat(dir, &draft, dir, name));
        if made.is_err() {
            let _ = rustix::fs::unlinkat(dir, &draft, AtFlags::empty());
        }
        made.map_err(failed)?;
        said(&json!({}))
    }

    fn settle(&self, place: &Place<'a>) -> ToolResult<String> {
        let shown = place.shown().display().to_string();
        let target = self.target(place)?;
        let name = self.draft_name(&target)?;
        let failed = |err| place.failed("make", err);
        let draft = match self.open_draft_folder(&target, &name) {
            Ok(draft) => draft,
            // This is a repeated call, because the first answer was lost on the way.
            Err(_) if place.open_dir().is_ok() => return said(&json!({ "path": shown })),
            Err(err) => return Err(err),
        };
        let mode = self.mode(place);
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&target.dir, &name, &target.dir, &target.name, flags) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(exists(place)),
            // The file system does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if place.stat().is_err() => {
                rustix::fs::renameat(&target.dir, &name, &target.dir, &target.name)
                    .map_err(failed)?;
            }
            Err(err) => return Err(failed(err)),
        }
        // The mode is set after the rename: not every file system renames a folder that its owner may not write to.
        rustix::fs::fchmod(&draft, mode).map_err(failed)?;
        Folder::of(&target).sync();
        said(&json!({ "path": shown }))
    }

    fn key(&self) -> ToolResult<&str> {
        let key = self.args.key.as_str();
        let is_key = key.len() == 12 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key
            .then_some(key)
            .ok_or_else(|| ToolError::new("`key` is twelve hexadecimal digits"))
    }

    /// Returns the name of the copy until it is complete.
    fn draft_name(&self, target: &Target<'_>) -> ToolResult<OsString> {
        let mut name = draft_prefix(target);
        name.extend(self.key()?.bytes());
        Ok(OsString::from_vec(name))
    }

    /// Opens a draft of this server. A user who may write in the folder could have put another file there, which is refused.
    fn open_draft(
        &self,
        target: &Target<'_>,
        name: &OsString,
        flags: OFlags,
    ) -> ToolResult<Option<(File, Stat)>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = match rustix::fs::openat(&target.dir, name, flags, mode) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(err) => return Err(target.failed(err)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|err| target.failed(err))?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match is_file && stat.st_nlink == 1 && is_own(&stat) {
            true => Ok(Some((file, stat))),
            false => Err(not_ours(name)),
        }
    }

    fn open_draft_folder(&self, target: &Target<'_>, name: &OsString) -> ToolResult<OwnedFd> {
        let folder = open_folder(target, name).map_err(|err| target.failed(err))?;
        let stat = rustix::fs::fstat(&folder).map_err(|err| target.failed(err))?;
        match is_own(&stat) {
            true => Ok(folder),
            false => Err(not_ours(name)),
        }
    }
}

/// Returns whether the place of a file is taken. A link in the folder of a copy counts, whatever it leads to.
fn is_taken(target: &Target<'_>) -> ToolResult<bool> {
    match target.is_link() {
        true => Ok(true),
        false => Ok(target.look()?.is_some()),
    }
}

/// The mode of a folder into which more is put than its final mode would allow. The mode also shows that a copy has made the
/// folder.
const GROWING: Mode = Mode::RWXU.union(Mode::SVTX);

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Returns the umask of this process. It is read from `/proc`, because the system call to ask for it changes it.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    mask.unwrap_or(0o022)
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

fn not_ours(name: &OsString) -> ToolError {
    ToolError::new(format!(
        "`{}`, where the copy would grow, is somebody else's",
        name.display()
    ))
    .hint("remove it")
}

fn open_folder(target: &Target<'_>, name: &OsString) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&target.dir, name, flags, Mode::empty())
}

/// Takes the name, if no file has it.
fn take_free_name(target: &Target<'_>, name: &OsString) -> Result<(), Errno> {
    let (dir, own) = (&target.dir, &target.name);
    match rustix::fs::renameat_with(dir, name, dir, own, RenameFlags::NOREPLACE) {
        // The file system does not know the flag. A link also fails if the name is taken.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(dir, name, dir, own, AtFlags::empty())?;
            rustix::fs::unlinkat(dir, name, AtFlags::empty())
        }
        done => done,
    }
}

fn remove(target: &Target<'_>, name: &OsString) -> ToolResult<()> {
    match rustix::fs::unlinkat(&target.dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(err) => Err(target.failed(err)),
    }
}

fn exists(place: &Place<'_>) -> ToolError {
    already_there(&place.shown().display().to_string())
}

/// Returns the error about a file that exists and may not be replaced.
pub fn already_there(path: &str) -> ToolError {
    ToolError::new(format!("`{path}` exists already")).hint("`overwrite: true` replaces it")
}

/// Returns whether a link in this folder would lead out of its root, by its text.
fn leads_out(folder: &Place<'_>, target: &str) -> bool {
    let mut depth = folder.depth();
    Path::new(target).components().any(|step| match step {
        Component::Normal(_) => {
            depth += 1;
            false
        }
        Component::CurDir => false,
        Component::ParentDir => match depth.checked_sub(1) {
            Some(above) => {
                depth = above;
                false
            }
            None => true,
        },
        Component::RootDir | Component::Prefix(_) => true,
    })
}

fn errno(err: &std::io::Error) -> Errno {
    Errno::from_io_error(err).unwrap_or(Errno::IO)
}
