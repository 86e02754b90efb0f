//! A file or folder, part by part from one host to another. At most two parts are in memory: one is read while the part
//! before it is written.

use std::{collections::BTreeMap, sync::Mutex};

use lmcp_core::{Account, ProgressReport, Reply, Reservation};
use lmcp_tools::elsewhere::copy::{Entry, Kind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    end::{End, own},
    plan::{Part, Tree, is_small, key, part, resume_at},
};
use crate::{failed::Failed, host::Hear, limits::COPY_WORD};

/// A copy that is running.
pub(super) struct Carry<'a, H> {
    pub(super) from: &'a End,
    pub(super) to: &'a End,
    pub(super) path: &'a str,
    pub(super) to_path: &'a str,
    pub(super) overwrite: bool,
    pub(super) parents: bool,
    pub(super) teller: &'a H,
    /// The account of the caller.
    pub(super) account: Option<Account>,
    pub(super) progress: Mutex<Progress>,
}

/// The progress of the copy.
pub(super) struct Progress {
    pub(super) done: u64,
    pub(super) total: u64,
    pub(super) said: Instant,
}

/// The result of a copy.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) kind: Kind,
    /// The path of the copy on the target.
    pub(super) path: String,
    pub(super) files: usize,
    pub(super) folders: usize,
    pub(super) links: usize,
    pub(super) bytes: u64,
    /// Bytes that an earlier call had already copied.
    pub(super) resumed: u64,
    /// The hash, if the copy is a file.
    pub(super) sha256: Option<String>,
}

/// The end at which a failure happened.
#[derive(Debug)]
pub(super) enum Fault {
    Source(Failed),
    Target(Failed),
}

#[derive(Deserialize)]
struct Read {
    data: String,
    sha256: String,
}

#[derive(Deserialize)]
struct Hashed {
    sha256: String,
}

#[derive(Deserialize)]
struct Kept {
    kept: u64,
    path: String,
}

#[derive(Deserialize)]
struct Begun {
    work: String,
    is_draft: bool,
    path: String,
}

#[derive(Deserialize)]
struct Finished {
    #[serde(default)]
    differs: bool,
}

#[derive(Deserialize)]
struct Made {
    /// The folder gets its final mode after everything is in it.
    is_growing: bool,
}

/// A file that is being copied.
struct Journey<'a> {
    source: &'a Entry,
    /// The path of the copy.
    to: String,
    key: String,
    overwrite: bool,
    /// The folder of the whole copy, if this file is part of a folder.
    top: Option<&'a str>,
}

impl<H: Hear> Carry<'_, H> {
    pub(super) async fn run(&self) -> Result<Copied, Fault> {
        let look = json!({ "what": "look", "path": self.path });
        let source: Entry = self.from.ask(&look).await.map_err(Fault::Source)?;
        // Only the names are compared here. If links make both the same file, copying it onto itself does no harm.
        let inside = self.to_path.strip_prefix(source.path.trim_end_matches('/'));
        let is_inside = inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if self.from.name() == self.to.name() && is_inside {
            let words = format!("`{}` would be copied onto or into itself", source.path);
            return Err(Fault::Target(own(&words)));
        }
        match source.kind {
            Kind::Folder => self.folder(&source).await,
            _ => self.single(&source).await,
        }
    }

    async fn single(&self, source: &Entry) -> Result<Copied, Fault> {
        self.progress().total = source.size;
        let mut journey = Journey {
            source,
            to: self.to_path.to_owned(),
            key: key(self.from.name(), source, &source.stamp),
            overwrite: self.overwrite,
            top: None,
        };
        let begun = self.begin(&journey).await?;
        journey.to = begun.path;
        let (sha256, resumed) = self.file(&journey, begun.kept).await?;
        Ok(Copied {
            kind: Kind::File,
            path: journey.to,
            files: 1,
            bytes: source.size,
            resumed,
            sha256: Some(sha256),
            ..Copied::default()
        })
    }

    /// Asks the target whether the file may be written there, and how much of it is already there.
    async fn begin(&self, journey: &Journey<'_>) -> Result<Kept, Fault> {
        let begin = json!({
            "what": "begin", "kind": "file", "path": journey.to, "top": journey.top, "key": journey.key,
            "size": journey.source.size, "overwrite": journey.overwrite, "parents": self.parents,
        });
        self.to.ask(&begin).await.map_err(Fault::Target)
    }

    /// Copies one file, of which `kept` bytes are already there. Returns the hash, and how many bytes did not have to be
    /// sent.
    async fn file(&self, journey: &Journey<'_>, kept: u64) -> Result<(String, u64), Fault> {
        let source = journey.source;
        if is_small(source.size) {
            let read = self.read(journey, whole(source)).await?;
            expect_hash(source, &read.sha256)?;
            let finish = self.finishing(journey, &read.sha256, Some(&read.data));
            let finished: Finished = self.to.ask(&finish).await.map_err(Fault::Target)?;
            self.advance(source.size, &source.path).await;
            return match finished.differs {
                true => Err(falsified(source)),
                false => Ok((read.sha256, 0)),
            };
        }
        let mut from = resume_at(kept, source.size);
        loop {
            self.parts(journey, from).await?;
            let hash = json!({ "what": "hash", "path": &source.path, "stamp": source.stamp });
            let hash: Hashed = self.from.ask(&hash).await.map_err(Fault::Source)?;
            expect_hash(source, &hash.sha256)?;
            let finish = self.finishing(journey, &hash.sha256, None);
            let finished: Finished = self.to.ask(&finish).await.map_err(Fault::Target)?;
            match (finished.differs, from) {
                (false, from) => return Ok((hash.sha256, from)),
                (true, 0) => return Err(falsified(source)),
                // The kept bytes were not the beginning of this file. The host has deleted them.
                (true, _) => from = 0,
            }
        }
    }

    /// Copies the parts from this offset on: one is read while the part before it is written.
    async fn parts(&self, journey: &Journey<'_>, from: u64) -> Result<(), Fault> {
        let source = journey.source;
        self.advance(from, &source.path).await;
        let mut next = match part(from, source.size) {
            Some(first) => Some((first, self.read(journey, first).await?)),
            None => None,
        };
        while let Some((now, read)) = next {
            let following = part(now.offset + now.length, source.size);
            let write = json!({
                "what": "write", "path": journey.to, "top": journey.top, "key": journey.key,
                "offset": now.offset, "data": read.data,
            });
            let write = async {
                let done: Result<Value, Failed> = self.to.ask(&write).await;
                done.map_err(Fault::Target)
            };
            let read = async {
                match following {
                    Some(part) => Ok(Some((part, self.read(journey, part).await?))),
                    None => Ok(None),
                }
            };
            let (_, read) = tokio::try_join!(write, read)?;
            next = read;
            self.advance(now.length, &source.path).await;
        }
        Ok(())
    }

    async fn read(&self, journey: &Journey<'_>, part: Part) -> Result<Read, Fault> {
        let source = journey.source;
        let read = json!({
            "what": "read", "path": &source.path, "stamp": source.stamp, "offset": part.offset,
            "length": part.length,
        });
        let read: Read = self.from.ask(&read).await.map_err(Fault::Source)?;
        // A host that sends fewer bytes than it was asked for could keep the copy going for ever.
        match decoded_len(&read.data) == Some(part.length) {
            true => Ok(read),
            false => Err(Fault::Source(own(&format!(
                "`{}` came with other bytes than were asked for: it is not as large as the host says, or was changed meanwhile",
                source.path
            )))),
        }
    }

    fn finishing(&self, journey: &Journey<'_>, sha256: &str, data: Option<&str>) -> Value {
        let source = journey.source;
        json!({
            "what": "finish", "path": journey.to, "top": journey.top, "key": journey.key,
            "size": source.size, "sha256": sha256, "mode": source.mode, "overwrite": journey.overwrite, "data": data,
        })
    }

    async fn folder(&self, source: &Entry) -> Result<Copied, Fault> {
        let (tree, _memory) = self.list(source).await?;
        self.progress().total = tree.bytes;
        let digest = tree.digest();
        let key_of_all = key(self.from.name(), source, &digest);
        let begin = json!({
            "what": "begin", "kind": "folder", "path": self.to_path, "key": key_of_all,
            "overwrite": self.overwrite, "parents": self.parents,
        });
        let begun: Begun = self.to.ask(&begin).await.map_err(Fault::Target)?;
        let mut copied = Copied {
            kind: Kind::Folder,
            path: begun.path.clone(),
            files: tree.files.len(),
            folders: tree.folders.len(),
            links: tree.links.len(),
            bytes: tree.bytes,
            ..Copied::default()
        };
        let mut made = BTreeMap::new();
        for entry in &tree.folders {
            let path = below(&begun.work, entry);
            let folder = json!({
                "what": "folder", "path": path, "top": begun.work, "mode": entry.mode,
                "overwrite": true,
            });
            let done: Made = self.to.ask(&folder).await.map_err(Fault::Target)?;
            made.insert(entry.path.as_str(), (path, done.is_growing));
        }
        for entry in &tree.files {
            copied.resumed += self.file_below(source, entry, &begun).await?;
        }
        for entry in &tree.links {
            let link = json!({
                "what": "link", "path": below(&begun.work, entry), "top": begun.work,
                "target": entry.target, "key": key_of_all,
                "overwrite": self.overwrite || begun.is_draft,
            });
            let _: Value = self.to.ask(&link).await.map_err(Fault::Target)?;
        }
        // Modes are set last, and inner folders first, because nothing can be put into some folders once they have their
        // mode.
        for entry in tree.folders.iter().rev() {
            let Some((path, true)) = made.get(entry.path.as_str()) else {
                continue;
            };
            let mode = json!({
                "what": "mode", "path": path, "top": begun.work, "mode": entry.mode,
            });
            let _: Value = self.to.ask(&mode).await.map_err(Fault::Target)?;
        }
        if self.list(source).await?.0.digest() != digest {
            let words = format!(
                "something in `{}` was changed while it was copied",
                source.path
            );
            return Err(Fault::Source(own(&words)));
        }
        if begun.is_draft {
            let settle = json!({
                "what": "settle", "path": begun.path, "key": key_of_all, "mode": source.mode,
            });
            let _: Value = self.to.ask(&settle).await.map_err(Fault::Target)?;
        }
        Ok(copied)
    }

    /// Copies a file of a folder. It is written where nobody looks yet, or where it may be replaced.
    async fn file_below(&self, source: &Entry, entry: &Entry, begun: &Begun) -> Result<u64, Fault> {
        let mut file = entry.clone();
        file.path = below(&source.path, entry);
        let journey = Journey {
            source: &file,
            to: below(&begun.work, entry),
            key: key(self.from.name(), &file, &file.stamp),
            overwrite: true,
            top: Some(&begun.work),
        };
        let kept = match is_small(file.size) {
            true => 0,
            false => self.begin(&journey).await?.kept,
        };
        Ok(self.file(&journey, kept).await?.1)
    }

    /// Returns the entries below a folder, and the memory that they take.
    async fn list(&self, source: &Entry) -> Result<(Tree, Option<Reservation>), Fault> {
        let list = json!({ "what": "list", "path": &source.path });
        let entries: Vec<Entry> = self.from.ask(&list).await.map_err(Fault::Source)?;
        let weight = entries.len() * ENTRY_BYTES;
        let counted = self.account.as_ref().map(|account| account.take(weight));
        match Tree::of(entries) {
            Ok(tree) => Ok((tree, counted)),
            Err(words) => Err(Fault::Source(own(&words))),
        }
    }

    /// Adds bytes to the progress, and reports it from time to time.
    async fn advance(&self, bytes: u64, path: &str) {
        let report = {
            let mut progress = self.progress();
            progress.done = progress.done.saturating_add(bytes);
            if progress.said.elapsed() < COPY_WORD {
                return;
            }
            progress.said = Instant::now();
            let (done, total) = (progress.done, progress.total);
            let mut report = ProgressReport::new(done as f64);
            report.total = Some(total as f64);
            report.message = Some(format!("{path}: {done} of {total} bytes"));
            report
        };
        self.teller.hear(Reply::Progress(report)).await;
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn below(folder: &str, entry: &Entry) -> String {
    format!("{}/{}", folder.trim_end_matches('/'), entry.path)
}

fn whole(source: &Entry) -> Part {
    Part {
        offset: 0,
        length: source.size,
    }
}

/// Returns how many bytes a base64 text stands for, if it is base64.
fn decoded_len(text: &str) -> Option<u64> {
    let padding = text.len() - text.trim_end_matches('=').len();
    let is_whole = text.len().is_multiple_of(4) && padding <= 2;
    is_whole.then_some((text.len() / 4 * 3).checked_sub(padding)? as u64)
}

/// Checks that a text is a hash. For a host behind a shell, another text could have a different meaning.
fn expect_hash(source: &Entry, word: &str) -> Result<(), Fault> {
    match word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(()),
        false => Err(falsified(source)),
    }
}

/// Makes the error for bytes that arrived and are not those of the file.
fn falsified(source: &Entry) -> Fault {
    let words = format!(
        "what arrived of `{}` has another hash: the file was changed while it was copied, or the connection falsified it",
        source.path
    );
    Fault::Target(own(&words))
}

/// The memory for one entry, approximately.
const ENTRY_BYTES: usize = 384;
