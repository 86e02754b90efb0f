//! `write_file`: gives a file new content, all of it or none.

use std::{borrow::Cow, fs::File, os::unix::fs::FileExt as _, sync::Arc};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    atomic::{self, Failed, Note, size_of},
    charset,
    exchange::Change,
    hash,
    hold::{Displaced, Held},
    target::{Parents, Snapshot, Target, id_of},
    text,
    turn::{Turn, in_turn},
};
use crate::{Host, answer::Answer, here::Here, schemas};

pub(crate) fn tool() -> Tool<Host> {
    define(write)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Written>>, WithState>,
) -> Tool<S> {
    schemas::tool("write_file", handler)
        .title("Write a file")
        .about(
            "Write a whole file, or append to it; readers see the old content or the new, never a mix. Returns its hash. To \
             change parts use edit_file.",
        )
        .alias("path", super::PATH_NAMES)
        .alias("content", ["contents", "file_text", "text", "data"])
        .unlisted(["create_only"])
        .also_called(["write", "create_file", "save_file", "write_to_file", "create"])
        .destructive()
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    path: String,
    content: String,
    /// Default: overwrite. `create` fails if the file exists.
    mode: Option<WriteMode>,
    /// The same as `mode: "create"`.
    #[serde(default)]
    create_only: bool,
    /// Make missing folders.
    #[serde(default)]
    parents: bool,
    /// Of `content`. Default: utf-8; base64 for bytes.
    encoding: Option<Encoding>,
    /// Only write if the file has this hash.
    #[schemars(length(min = 1))]
    if_hash: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WriteMode {
    Overwrite,
    Append,
    Create,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
enum Encoding {
    #[serde(rename = "utf-8", alias = "utf8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

/// What `write_file` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Written {
    /// The file.
    path: String,
    /// Bytes written, in append mode those added.
    bytes_written: usize,
    /// Did the file not exist before?
    created: bool,
    /// The hash of the whole content now, for `if_hash`. Not told after adding to a very large file.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Lines in the whole file now. Not told after adding to a very large file.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<usize>,
    /// What could not be done as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(crate) async fn write(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Written>> {
    let mode = args.mode()?;
    let here = host.here(&cx, [args.path.as_str()]).await?;
    let own = cx.clone();
    let done = in_turn(&cx, move |memory, turn| {
        memory.need(args.weight(&host, &here, mode))?;
        Writing {
            host: &host,
            here: &here,
            args: &args,
            content: args.bytes()?,
            cx: &own,
        }
        .run(mode, turn)
    });
    let (answer, displaced) = done.await?;
    displaced.let_go();
    Ok(answer)
}

/// One call at work.
struct Writing<'a> {
    host: &'a Host,
    here: &'a Here,
    args: &'a Args,
    content: Vec<u8>,
    cx: &'a Cx,
}

/// The effect of a write on a file.
#[derive(Clone, Copy, Debug)]
enum Done {
    /// The file is new.
    Made,
    /// The file existed; so many bytes are new.
    Written(usize),
}

impl Writing<'_> {
    fn run(self, mode: WriteMode, turn: &Turn) -> Result<(Answer<Written>, Displaced), Failed> {
        let place = self.host.roots.find(self.here, &self.args.path)?;
        let parents = if self.args.parents {
            Parents::Make
        } else {
            Parents::Expect
        };
        let target = Target::find(&place, parents, self.host.hard_links())?;
        let _alone = turn.take(&self.host.locks, [target.key()])?;
        atomic::undisturbed(self.cx, || {
            let held = Held::take(&target, &[], turn)?;
            let answer = match mode {
                WriteMode::Overwrite => self.overwrite(&target, &held),
                WriteMode::Append => self.append(&target, &held),
                WriteMode::Create => self.create(&target),
            };
            Ok((answer?, Displaced::of(vec![held])))
        })
    }

    fn create(&self, target: &Target<'_>) -> Result<Answer<Written>, Failed> {
        if target.look()?.is_some() {
            let shown = target.place().shown().display();
            return Err(ToolError::new(format!("`{shown}` exists already"))
                .hint("leave out `create_only` to replace it")
                .into());
        }
        self.make(target)
    }

    fn make(&self, target: &Target<'_>) -> Result<Answer<Written>, Failed> {
        let done = atomic::create(target, &self.content)?;
        let (hash, kept) = self.remember(target, None, &self.content);
        let note = done.note.or(kept);
        Ok(self.done(target, Done::Made, Some((&self.content, hash)), note))
    }

    fn overwrite(&self, target: &Target<'_>, held: &Held) -> Result<Answer<Written>, Failed> {
        if self.args.if_hash.is_some() {
            let found = self.expected(target, held)?;
            return self.replace(target, held, &found, (0, self.content.clone()));
        }
        let stat = target.look()?;
        let old = match &stat {
            Some(stat) if self.host.remembers(size_of(stat)) => {
                target.read_seen(*stat, held, size_of(stat)).ok()
            }
            _ => None,
        };
        let done = atomic::overwrite(target, &self.content, stat.as_ref(), held)?;
        let old = old.as_ref().map(|found| found.bytes.as_slice());
        // If the old content could not be read, it cannot be restored later.
        let (hash, kept) = if old.is_some() || stat.is_none() {
            self.remember(target, old, &self.content)
        } else {
            let size = stat.as_ref().map_or(0, size_of);
            (hash::of(&self.content), self.host.forgets(size))
        };
        let made = match stat {
            Some(_) => Done::Written(self.content.len()),
            None => Done::Made,
        };
        let note = done.note.or(kept);
        Ok(self.done(target, made, Some((&self.content, hash)), note))
    }

    fn append(&self, target: &Target<'_>, held: &Held) -> Result<Answer<Written>, Failed> {
        let found = if self.args.if_hash.is_some() {
            Some(self.expected(target, held)?)
        } else {
            // The other names of a file must keep their content, so such a file is replaced.
            match target.look()? {
                Some(stat) if stat.st_nlink > 1 => {
                    Some(target.read_seen(stat, held, LARGEST_HASHED)?)
                }
                Some(stat) => return self.append_in_place(target, held, &stat),
                None => None,
            }
        };
        let Some(found) = found else {
            return self.make(target);
        };
        let content = self.as_written_in(held.file(id_of(&found.stat)), target)?;
        let whole = [found.bytes.as_slice(), &content].concat();
        self.replace(target, held, &found, (found.bytes.len(), whole))
    }

    /// Returns the content in the encoding of the file to which it is appended.
    fn as_written_in(&self, file: Option<&File>, target: &Target<'_>) -> ToolResult<Cow<'_, [u8]>> {
        let Some(file) = file.filter(|_| self.args.encoding != Some(Encoding::Base64)) else {
            return Ok(self.content.as_slice().into());
        };
        let shown = target.place().shown().display();
        // ASCII is the same in every encoding but UTF-16, which the first bytes show.
        let is_ascii = self.content.is_ascii();
        let mut head = vec![0; if is_ascii { 4 } else { MOST_LOOKED_AT }];
        let length = file
            .read_at(&mut head, 0)
            .map_err(|err| ToolError::new(format!("cannot read `{shown}`")).source(err))?;
        let whole = text::Encoding::Utf8.whole(&head[..length]);
        let (encoding, _) = charset::of(&head[..whole]);
        if encoding == text::Encoding::Utf8 {
            return Ok(self.content.as_slice().into());
        }
        encoding
            .write(&self.args.content)
            .map(Cow::Owned)
            .map_err(|unknown| {
                ToolError::new(format!(
                    "`{shown}` is {}, which has no `{unknown}`; nothing was written",
                    encoding.name()
                ))
                .hint("use other characters, or convert the file to UTF-8 first")
            })
    }

    fn append_in_place(
        &self,
        target: &Target<'_>,
        held: &Held,
        old: &Stat,
    ) -> Result<Answer<Written>, Failed> {
        let content = self.as_written_in(held.file(id_of(old)), target)?;
        atomic::append(target, &content)?;
        // The write is done. A file that is too large or may not be read gets no hash.
        let whole = if size_of(old) < LARGEST_REREAD {
            target.read(held, LARGEST_REREAD).ok().flatten()
        } else {
            None
        };
        let whole = whole.as_ref().map(|found| found.bytes.as_slice());
        let mut note = None;
        let whole = whole.map(|whole| match whole.strip_suffix(&*content) {
            Some(before) if before.len() as u64 == size_of(old) => {
                let (hash, kept) = self.remember(target, Some(before), whole);
                note = kept;
                (whole, hash)
            }
            // Another program appended as well, and undo must not take that back.
            _ => (whole, hash::of(whole)),
        });
        Ok(self.done(target, Done::Written(content.len()), whole, note))
    }

    /// Replaces a file that was read. `kept` is how many bytes at the beginning of the new content the file
    /// had already.
    fn replace(
        &self,
        target: &Target<'_>,
        held: &Held,
        found: &Snapshot,
        (kept, mut content): (usize, Vec<u8>),
    ) -> Result<Answer<Written>, Failed> {
        let change = Change {
            target,
            found,
            held,
            content: &content,
        };
        let done = atomic::replace_all(&[change])?;
        let written = content.len().saturating_sub(kept);
        let (mut note, mut old) = (None, Cow::from(&found.bytes));
        for mut replaced in done {
            if !replaced.tail.is_empty() {
                old.to_mut().extend_from_slice(&replaced.tail);
            }
            content.append(&mut replaced.tail);
            note = replaced.note;
        }
        let (hash, kept) = self.remember(target, Some(&old), &content);
        let whole = Some((content.as_slice(), hash));
        Ok(self.done(target, Done::Written(written), whole, note.or(kept)))
    }

    /// Returns the file, if it has the hash in `if_hash`.
    fn expected(&self, target: &Target<'_>, held: &Held) -> ToolResult<Snapshot> {
        let found = target.read(held, LARGEST_HASHED)?.ok_or_else(|| {
            ToolError::new(format!(
                "`{}` does not exist, so it cannot have the hash in `if_hash`",
                target.place().shown().display()
            ))
        })?;
        if let Some(wanted) = &self.args.if_hash {
            found.expect_hash(wanted, target)?;
        }
        Ok(found)
    }

    /// Records the change for file_history. Returns the hash of the new content, and a note if the change
    /// cannot be undone.
    fn remember(&self, target: &Target<'_>, old: Option<&[u8]>, new: &[u8]) -> (String, Note) {
        let (contents, hash) = ([old, Some(new)], hash::of(new));
        let kept = self
            .host
            .remember(self.cx, "write_file", target, contents, &hash);
        (hash, kept)
    }

    fn done(
        &self,
        target: &Target<'_>,
        done: Done,
        whole: Option<(&[u8], String)>,
        note: Note,
    ) -> Answer<Written> {
        let written = Written {
            path: target.place().shown().display().to_string(),
            bytes_written: match done {
                Done::Made => self.content.len(),
                Done::Written(bytes) => bytes,
            },
            created: matches!(done, Done::Made),
            lines: whole.as_ref().map(|(whole, _)| count_lines(whole)),
            hash: whole.map(|(_, hash)| hash::shown(&hash)),
            note: note.map(str::to_owned),
        };
        let (path, bytes) = (&self.args.path, written.bytes_written);
        let mut text = match (done, self.args.mode) {
            (Done::Made, _) => format!("{path}: new file, {bytes} bytes"),
            (Done::Written(_), Some(WriteMode::Append)) => format!("{path}: {bytes} bytes added"),
            (Done::Written(_), _) => format!("{path}: {bytes} bytes written"),
        };
        if let Some(hash) = &written.hash {
            text.push_str(&format!(", hash {hash}"));
        }
        if let Some(note) = note {
            text.push_str(&format!("\nnote: {note}"));
        }
        Answer::new(written, text)
    }
}

impl Args {
    /// Returns the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the old content is needed: to compare its hash, or to append to it.
    pub fn needs_old(&self) -> bool {
        self.if_hash.is_some() || self.is_append()
    }

    /// Returns whether the content is appended.
    pub fn is_append(&self) -> bool {
        self.mode == Some(WriteMode::Append)
    }

    /// Returns whether missing folders are made.
    pub fn makes_folders(&self) -> bool {
        self.parents
    }

    /// Returns whether the file must not exist before.
    pub fn is_create(&self) -> bool {
        self.create_only || self.mode == Some(WriteMode::Create)
    }

    /// Returns whether the file must have the hash that the caller knows.
    pub fn is_conditional(&self) -> bool {
        self.if_hash.is_some()
    }

    fn mode(&self) -> ToolResult<WriteMode> {
        let mode = match (self.mode, self.create_only) {
            (Some(WriteMode::Append), true) => {
                return Err(ToolError::new(
                    "`create_only` and `mode: \"append\"` exclude each other",
                ));
            }
            (_, true) => WriteMode::Create,
            (mode, false) => mode.unwrap_or(WriteMode::Overwrite),
        };
        if mode == WriteMode::Create && self.if_hash.is_some() {
            return Err(ToolError::new(
                "a file that must not exist cannot have the hash in `if_hash`",
            ));
        }
        Ok(mode)
    }

    /// Returns the memory that the call holds, roughly: the content twice, and the file where it is read.
    fn weight(&self, host: &Host, here: &Here, mode: WriteMode) -> usize {
        let most = match (mode, &self.if_hash) {
            (_, Some(_)) => LARGEST_HASHED,
            (WriteMode::Append, None) => LARGEST_REREAD,
            (WriteMode::Overwrite, None) => u64::MAX,
            (WriteMode::Create, None) => 0,
        };
        let stat = host.roots.find(here, &self.path).ok();
        let stat = stat.and_then(|place| place.stat().ok());
        let size = stat.and_then(|stat| u64::try_from(stat.st_size).ok());
        // The old content is read for the history, unless it is too large for that.
        let is_read = |size: &u64| *size <= most && (most < u64::MAX || host.remembers(*size));
        let read = usize::try_from(size.filter(is_read).unwrap_or(0)).unwrap_or(usize::MAX);
        2 * self.content.len() + read
    }

    fn bytes(&self) -> ToolResult<Vec<u8>> {
        if self.encoding != Some(Encoding::Base64) {
            return Ok(self.content.clone().into_bytes());
        }
        // Line breaks are usual in base64, and padding is often left out.
        let lenient =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let digits: Vec<u8> = self
            .content
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        GeneralPurpose::new(&alphabet::STANDARD, lenient)
            .decode(digits)
            .map_err(|err| ToolError::new("`content` is not base64").source(err))
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    let breaks = memchr::memchr_iter(b'\n', bytes).count();
    let open = bytes.last().is_some_and(|byte| *byte != b'\n');
    breaks + usize::from(open)
}

/// The largest file that is read after an append, to return its hash.
const LARGEST_REREAD: u64 = 8 << 20;

/// The largest file whose hash is compared before a write, or that an append replaces.
const LARGEST_HASHED: u64 = 64 << 20;

/// How many bytes of a file are read to find its encoding.
const MOST_LOOKED_AT: usize = 1 << 20;
