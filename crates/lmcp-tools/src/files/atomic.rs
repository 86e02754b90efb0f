//! The one way in which files are written.
//!
//! A draft of the new content (`draft`) takes the place of the file. A reader, also one that comes after a crash, sees the
//! old file or the new one. Other servers wait for the lock (`hold`). If a program does not wait, and renames the file or
//! writes in place meanwhile, that is noticed (`exchange`), and the change is made again from the content that is there
//! then.

use std::{fs::File, io::Write as _, os::unix::fs::FileExt as _};

use lmcp_core::{Cx, ToolError, ToolResult};
use rustix::{
    fs::{OFlags, Stat},
    io::Errno,
};

pub(crate) use super::draft::Note;
use super::{
    draft::{Draft, Folder, finish},
    exchange::{self, Change, Stopped, exchange, has_no_exchange},
    hold::Held,
    locks::Writers,
    target::{Target, id_of},
};

/// Why a file was not written.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Somebody else changed the file since it was read. Nothing was written, and another try makes sense.
    Changed,
    /// Another call of this server writes one of the files. Nothing was written, and the call is to wait (`turn`).
    Taken(Writers),
    /// A program has locked one of the files. Nothing was written, and the call is to wait (`turn`).
    Locked,
    Told(ToolError),
}

/// A file that was replaced.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    pub(crate) note: Note,
    /// The bytes that somebody appended to the old file meanwhile: the new file ends with them.
    pub(crate) tail: Vec<u8>,
}

/// Makes a change, and tries again as long as somebody else changes the file meanwhile.
pub(crate) fn undisturbed<T>(
    cx: &Cx,
    mut attempt: impl FnMut() -> Result<T, Failed>,
) -> Result<T, Failed> {
    for _ in 0..MOST_ATTEMPTS {
        expect_wanted(cx)?;
        match attempt() {
            Err(Failed::Changed) => {}
            done => return done,
        }
    }
    Err(
        ToolError::new("the file is changed by somebody else all the time; nothing was written")
            .hint("try again later, or stop the program that writes it")
            .into(),
    )
}

/// Fails if the call was cancelled, so nobody waits for the result.
pub(crate) fn expect_wanted(cx: &Cx) -> ToolResult<()> {
    if cx.is_cancelled() {
        return Err(ToolError::new("cancelled; nothing was written"));
    }
    Ok(())
}

/// Replaces files by their new contents, all or none.
///
/// The files change one after the other: only a crash in between can leave some old and some new, each of them whole.
///
/// # Errors
/// Nothing was changed, unless the error says otherwise.
pub(crate) fn replace_all(changes: &[Change<'_>]) -> Result<Vec<Replaced>, Failed> {
    if let [change] = changes {
        return replace(change).map(|replaced| vec![replaced]);
    }
    let mut drafts = Vec::with_capacity(changes.len());
    for change in changes {
        drafts.push(change.draft().map_err(|err| change.target.failed(err))?);
    }
    for (done, change) in changes.iter().enumerate() {
        if let Err(failed) = exchange(&mut drafts[done], change) {
            drafts.truncate(done);
            return Err(exchange::take_back(drafts, failed.told(change.target)));
        }
    }
    exchange::settle(drafts, changes)
}

/// Does the same for one file. If the file system cannot exchange files, the draft is renamed over the file.
fn replace(change: &Change<'_>) -> Result<Replaced, Failed> {
    let target = change.target;
    let exchanged = change.draft().map_err(Stopped::Io).and_then(|mut draft| {
        match exchange(&mut draft, change) {
            Err(Stopped::Io(err)) if has_no_exchange(err) => {
                if !target.is_same(&change.found.stat) {
                    return Err(Stopped::Changed);
                }
                draft.take_name().map_err(Stopped::Io)?;
                Ok(draft)
            }
            done => done.map(|()| draft),
        }
    });
    match exchanged {
        Ok(draft) => {
            let mut settled = exchange::settle(vec![draft], std::slice::from_ref(change))?;
            Ok(settled.pop().unwrap_or_default())
        }
        Err(Stopped::Io(err)) if cannot_replace(err) => {
            write_in_place(target, change.content, err, Some(&change.found.stat))
        }
        Err(stopped) => Err(stopped.told(target)),
    }
}

/// Creates a file, unless the file exists.
///
/// # Errors
/// `Changed` if the file exists.
pub(crate) fn create(target: &Target<'_>, content: &[u8]) -> Result<Replaced, Failed> {
    let created = Draft::write(target, content, None)
        .and_then(|draft| draft.take_free_name().map(|()| draft.note));
    match created {
        Ok(note) => Ok(settled(target, note)),
        Err(Errno::EXIST) => Err(Failed::Changed),
        Err(err) => Err(target.failed(err).into()),
    }
}

/// Replaces whatever has the name. `old` is the file that was seen there.
pub(crate) fn overwrite(
    target: &Target<'_>,
    content: &[u8],
    old: Option<&Stat>,
    held: &Held,
) -> Result<Replaced, Failed> {
    let known = old.map(|old| (old, held.file(id_of(old))));
    let taken = Draft::write(target, content, known)
        .and_then(|mut draft| draft.take_name().map(|()| draft.note));
    match (taken, old) {
        (Ok(note), _) => Ok(settled(target, note)),
        (Err(err), Some(_)) if cannot_replace(err) => write_in_place(target, content, err, None),
        (Err(err), _) => Err(target.failed(err).into()),
    }
}

/// Appends to a file that exists, in one write, so that the bytes stay together.
///
/// # Errors
/// `Changed` if the name led to another file by then.
pub(crate) fn append(target: &Target<'_>, content: &[u8]) -> Result<(), Failed> {
    let failed = |err| Failed::Told(target.failed(err));
    let mut file = match target.open(OFlags::WRONLY | OFlags::APPEND) {
        Err(Errno::NOENT) => return Err(Failed::Changed),
        opened => opened.map_err(failed)?,
    };
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    target.expect(&stat)?;
    if !target.leads_to(id_of(&stat)) {
        return Err(Failed::Changed);
    }
    let written = file.write(content);
    if !written
        .as_ref()
        .is_ok_and(|written| *written == content.len())
    {
        let part = written.as_ref().map_or(0, |written| *written as u64);
        take_off(&file, &stat, part);
        let err = written.err().and_then(|err| Errno::from_io_error(&err));
        return Err(failed(err.unwrap_or(Errno::NOSPC)));
    }
    finish(&file, b"").map_err(failed)?;
    if target.leads_to(id_of(&stat)) || is_there(target, content, size_of(&stat)) {
        return Ok(());
    }
    Err(Failed::Changed)
}

/// Takes back a part that was appended before the disk was full.
fn take_off(file: &File, before: &Stat, part: u64) {
    let now = rustix::fs::fstat(file).map(|now| size_of(&now));
    if now == Ok(size_of(before) + part) {
        // The file can only be made shorter. If even that fails, the error about the write says enough.
        let _ = rustix::fs::ftruncate(file, size_of(before));
    }
}

/// Returns whether the file holds the appended bytes, after somebody replaced it meanwhile.
fn is_there(target: &Target<'_>, content: &[u8], at: u64) -> bool {
    let Ok(file) = target.open(OFlags::RDONLY) else {
        return false;
    };
    let end = rustix::fs::fstat(&file).map_or(0, |stat| size_of(&stat));
    let mut bytes = vec![0; content.len()];
    [at, end.saturating_sub(content.len() as u64)]
        .into_iter()
        .any(|at| file.read_exact_at(&mut bytes, at).is_ok() && bytes == content)
}

fn settled(target: &Target<'_>, note: Note) -> Replaced {
    let folder = Folder::of(target);
    folder.sync();
    folder.sweep();
    Replaced {
        note,
        tail: Vec::new(),
    }
}

/// Returns whether the file itself could be written where its folder does not let it be replaced. A mount point is an
/// example.
fn cannot_replace(err: Errno) -> bool {
    matches!(
        err,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::XDEV
    )
}

/// Writes over a file that cannot be replaced, if the file is still as it was found.
fn write_in_place(
    target: &Target<'_>,
    content: &[u8],
    why: Errno,
    found: Option<&Stat>,
) -> Result<Replaced, Failed> {
    if target.place().is_confined() {
        return Err(target
            .failed(why)
            .hint("its folder does not allow to replace it, and below a root nothing is written in place")
            .into());
    }
    let failed = |err| target.failed(err);
    let file = target.open(OFlags::WRONLY).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    target.expect(&stat)?;
    if found.is_some_and(|found| !target.is_same(found)) {
        return Err(Failed::Changed);
    }
    // The file is made shorter last: a reader meanwhile sees old bytes after the new ones, never an empty file.
    finish(&file, content).map_err(failed)?;
    rustix::fs::ftruncate(&file, content.len() as u64).map_err(failed)?;
    finish(&file, b"").map_err(failed)?;
    Ok(Replaced {
        note: Some(
            "written in place, because its folder does not allow to replace it: a crash could have torn it",
        ),
        tail: Vec::new(),
    })
}

pub(super) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

impl From<ToolError> for Failed {
    fn from(err: ToolError) -> Self {
        Self::Told(err)
    }
}

/// A program that writes without a lock rarely comes in between twice.
const MOST_ATTEMPTS: usize = 32;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        files::target::Parents,
        here::Here,
        roots::{HardLinks, Roots},
    };

    #[test]
    fn a_file_that_somebody_else_made_meanwhile_is_not_replaced_by_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[folder.path().into()]).unwrap();
        let place = roots.find(&Here::default(), "a").unwrap();
        let target = Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap();
        fs::write(folder.path().join("a"), "theirs").unwrap();
        assert!(matches!(create(&target, b"ours"), Err(Failed::Changed)));
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_addition_that_was_carried_over_is_not_made_twice() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(&[folder.path().into()]).unwrap();
        let place = roots.find(&Here::default(), "a").unwrap();
        let target = Target::find(&place, Parents::Expect, HardLinks::Refuse).unwrap();
        fs::write(folder.path().join("a"), "one two").unwrap();
        assert!(is_there(&target, b"two", 4));
        assert!(is_there(&target, b"one", 0));
        assert!(is_there(&target, b"two", 0));
        assert!(!is_there(&target, b"one", 4));
        assert!(!is_there(&target, b"much longer than all of it", 0));
    }
}
