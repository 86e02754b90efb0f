//! `copy_out` and `copy_in`: a file or folder of the host on its way to another host, or from one.
//!
//! Bytes pass through here a part at a time. Each call names the part that it changes, so a call whose answer was lost can
//! be repeated. The errors of a lost connection say so; those of other tools of this module cannot.

use std::{collections::HashMap, fmt::Display, path::PathBuf, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::elsewhere::{
    copy::{Entry, Kind, MOST_ENTRIES, PART_BYTES, is_same_stamp},
    copy_in, copy_out,
};
use lmcp_wire::RpcError;
use ring::digest::{Context, SHA256, digest};
use rustix::fs::FileType;
use serde_json::{Value, json};

use super::{
    Far,
    copies::{Above, Copies, Found, brought},
    link::Call,
    parts::{Answer, Part},
    pool::Lease,
};
use crate::limits::COPY_LISTING_BYTES;

pub(super) async fn copy_out(far: Arc<Far>, args: copy_out::Args, cx: Cx) -> ToolResult<String> {
    let mut end = End::open(&far, &args.path, &cx).await?;
    let said = match args.what {
        copy_out::What::Look => end.look().await,
        copy_out::What::List => end.list().await,
        copy_out::What::Read => end.read(&args).await,
        copy_out::What::Hash => end.hash(&args.stamp).await,
        _ => Err(ToolError::new("this host does not know how to do that")),
    }?;
    end.lease.done();
    Ok(said.to_string())
}

pub(super) async fn copy_in(far: Arc<Far>, args: copy_in::Args, cx: Cx) -> ToolResult<String> {
    let mut end = End::open(&far, &args.path, &cx).await?;
    end.top = top(&args)?;
    end.lease.facts().expect_room()?;
    let said = match (args.what, args.kind) {
        (copy_in::What::Begin, Kind::Folder) => end.begin_folder(&args).await,
        (copy_in::What::Begin, _) => end.begin_file(&args).await,
        (copy_in::What::Write, _) => end.write(&args).await,
        (copy_in::What::Finish, _) => end.finish(&far, &args).await,
        (copy_in::What::Folder, _) => end.folder(&args).await,
        (copy_in::What::Mode, _) => {
            let mode = octal(args.mode);
            end.change("far_copy_mode", &[&mode]).await
        }
        (copy_in::What::Link, _) => {
            let target = args.target.as_deref().unwrap_or_default();
            let words = [target, expected(&args)];
            // No other call of this hub takes the name between the check of the name and the link.
            let _alone = far.saving.lock().await;
            end.change("far_copy_link", &words).await
        }
        (copy_in::What::Settle, _) => {
            let mode = octal(args.mode);
            end.change("far_copy_settle", &[&args.key, &mode]).await
        }
        _ => Err(ToolError::new("this host does not know how to do that")),
    }?;
    end.lease.done();
    Ok(said.to_string())
}

/// A path of the host, and the connection for one call.
struct End<'a> {
    lease: Lease<'a>,
    path: String,
    /// The folder of the whole copy, if this path is something in it: below that folder no link is followed.
    top: Option<String>,
}

impl<'a> End<'a> {
    async fn open(far: &'a Far, path: &str, cx: &Cx) -> ToolResult<Self> {
        let lease = far.pool.lease(cx).await;
        let lease = lease.map_err(|err| broken(&err, Sent::No))?;
        lease.facts().expect_stat()?;
        // Every call except the first uses a path that an earlier call has returned.
        let path = match path.starts_with('/') && !path.contains('\0') {
            true => path.to_owned(),
            false => {
                let copies = Copies::new(&lease.facts())?;
                let there = copies.mirror.path_there(path, cx).await?;
                there.to_string_lossy().into_owned()
            }
        };
        Ok(Self {
            lease,
            path,
            top: None,
        })
    }

    /// Makes a call that takes little time.
    async fn call(&mut self, function: &str, words: &[&str]) -> ToolResult<Answer> {
        let place = (self.top.clone(), self.path.clone());
        let call = calling(function, &place, words);
        let answer = self.lease.call(&call).await;
        answer.map_err(|err| broken(&err, Sent::Perhaps))
    }

    /// Does the same, and sends a part of a file.
    async fn call_with(
        &mut self,
        function: &str,
        words: &[&str],
        part: &[u8],
    ) -> ToolResult<Answer> {
        let place = (self.top.clone(), self.path.clone());
        let mut call = calling(function, &place, words);
        call.taken.push(("part", part));
        let answer = self.lease.call(&call).await;
        answer.map_err(|err| broken(&err, Sent::Perhaps))
    }

    /// Makes a call without a time limit: the hub checks from time to time whether the host is up.
    async fn long_call(&mut self, function: &str, words: &[&str]) -> ToolResult<Answer> {
        let place = (self.top.clone(), self.path.clone());
        let call = calling(function, &place, words);
        let answer = self.lease.link.call(&call).await;
        answer.map_err(|err| broken(&err, Sent::Perhaps))
    }

    async fn look(&mut self) -> ToolResult<Value> {
        let answer = self.call("far_copy_look", &[]).await?;
        let found = brought(&answer).into_iter().next().map(|file| file.found);
        match found.unwrap_or(Found::Nothing(Above::Link)) {
            Found::File {
                readable: false, ..
            } => Err(self.denied("read")),
            Found::File { .. } | Found::Folder => {
                let part = answer.part("stamp").ok_or_else(|| self.gone())?;
                Ok(serde_json::to_value(entry(self.path.clone(), &part))?)
            }
            other => Err(self.unfit(&other)),
        }
    }

    async fn list(&mut self) -> ToolResult<Value> {
        let most = COPY_LISTING_BYTES.to_string();
        let answer = self.call("far_copy_list", &[&most]).await?;
        let mut entries: Vec<Entry> = Vec::new();
        let (mut link, mut targets) = (None, HashMap::new());
        for part in answer.parts() {
            match part.name() {
                "entry" => entries.push(entry(self.name(&part)?, &part)),
                "symlink" => link = Some(self.name(&part)?),
                "target" => {
                    if let Some(name) = link.take() {
                        targets.insert(name, self.line(&part)?);
                    }
                }
                "failed" => {
                    let words = format!("not all of `{}` can be read: {}", self.path, part.text());
                    return Err(ToolError::new(words));
                }
                _ => {}
            }
        }
        if answer.code != 0 {
            return Err(self.denied("open"));
        }
        if entries.len() > MOST_ENTRIES || answer.len() >= COPY_LISTING_BYTES {
            let words = format!("`{}` has too many files and folders in it", self.path);
            return Err(ToolError::new(words)
                .hint("pack it with tar, copy the archive, and unpack that there"));
        }
        for entry in &mut entries {
            entry.target = targets.remove(&entry.path);
        }
        Ok(serde_json::to_value(entries)?)
    }

    /// Returns the name of an entry below the folder.
    fn name(&self, part: &Part<'_>) -> ToolResult<String> {
        let name = self.line(part)?;
        Ok(name.strip_prefix("./").map(str::to_owned).unwrap_or(name))
    }

    /// Returns a path as text. A path that is not UTF-8 cannot be copied.
    fn line(&self, part: &Part<'_>) -> ToolResult<String> {
        let line = std::str::from_utf8(part.line()).map_err(|_| {
            let (folder, name) = (&self.path, part.text());
            let words = format!("`{folder}/{name}` has a name, or leads to one, that is no UTF-8");
            ToolError::new(format!("{words}, and cannot be copied"))
        })?;
        Ok(line.to_owned())
    }

    async fn read(&mut self, args: &copy_out::Args) -> ToolResult<Value> {
        let (bytes, stamp) = self.block(args.offset / PART_BYTES).await?;
        let is_block = args.offset.is_multiple_of(PART_BYTES);
        let is_whole = bytes.len() as u64 == args.length && is_block;
        if !is_whole || !is_same_stamp(&stamp, &args.stamp) {
            return Err(copy_out::changed(&self.path));
        }
        let hash = hex(digest(&SHA256, &bytes).as_ref());
        Ok(json!({ "data": STANDARD.encode(&bytes), "sha256": hash }))
    }

    /// Returns a block of the file, and the stamp of the file afterwards.
    async fn block(&mut self, number: u64) -> ToolResult<(Vec<u8>, String)> {
        let (size, number) = (PART_BYTES.to_string(), number.to_string());
        let answer = self.call("far_copy_read", &[&size, &number]).await?;
        let bytes = answer.part("data").map(|part| part.bytes.to_vec());
        let stamp = answer.part("stamp").map(|part| part.word(3).to_owned());
        Ok((bytes.unwrap_or_default(), stamp.unwrap_or_default()))
    }

    async fn hash(&mut self, stamp: &str) -> ToolResult<Value> {
        let (hash, now) = self.hash_now().await?;
        match is_same_stamp(&now, stamp) {
            true => Ok(json!({ "sha256": hash })),
            false => Err(copy_out::changed(&self.path)),
        }
    }

    /// Returns the hash of the file, and its stamp afterwards. If the host has no program for hashes, the file is read once
    /// more.
    async fn hash_now(&mut self) -> ToolResult<(String, String)> {
        if self.lease.facts().has_sum {
            let answer = self.long_call("far_copy_hash", &[]).await?;
            let word = |name: &str, at| answer.part(name).map(|part| part.word(at).to_owned());
            let (sum, stamp) = (word("sum", 1), word("stamp", 3));
            return Ok((sum.unwrap_or_default(), stamp.unwrap_or_default()));
        }
        let mut context = Context::new(&SHA256);
        let mut number = 0;
        loop {
            let (bytes, stamp) = self.block(number).await?;
            context.update(&bytes);
            number += 1;
            if (bytes.len() as u64) < PART_BYTES {
                return Ok((hex(context.finish().as_ref()), stamp));
            }
        }
    }

    async fn begin_file(&mut self, args: &copy_in::Args) -> ToolResult<Value> {
        let begun = self.begin(args).await?;
        match begun.there {
            Found::File {
                writable: false, ..
            } => return Err(self.denied("write")),
            Found::File { .. } if !args.overwrite => {
                return Err(copy_in::already_there(&self.path));
            }
            Found::File { .. } | Found::Nothing(Above::Link) => {}
            Found::Folder => {
                let words = format!("`{}` is a folder", self.path);
                return Err(ToolError::new(words).hint("name a file in it"));
            }
            Found::Nothing(above) => self.expect_above(&above, args).await?,
            other => return Err(self.unfit(&other)),
        }
        Ok(json!({ "kept": begun.kept, "path": self.path }))
    }

    async fn begin_folder(&mut self, args: &copy_in::Args) -> ToolResult<Value> {
        let begun = self.begin(args).await?;
        match begun.there {
            Found::Folder if args.overwrite => {
                return Ok(json!({ "work": self.path, "is_draft": false, "path": self.path }));
            }
            Found::Folder => return Err(copy_in::already_there(&self.path)),
            Found::Nothing(Above::Link) => {
                let words = format!("`{}` is a link that leads nowhere", self.path);
                return Err(ToolError::new(words));
            }
            Found::Nothing(above) => self.expect_above(&above, args).await?,
            Found::File { .. } | Found::Other(_) | Found::Device => {
                return Err(ToolError::new(format!("`{}` is no folder", self.path)));
            }
        }
        let answer = self.call("far_copy_draft", &[&args.key]).await?;
        self.expect_done(&answer)?;
        Ok(json!({ "work": begun.draft, "is_draft": true, "path": self.path }))
    }

    async fn begin(&mut self, args: &copy_in::Args) -> ToolResult<Begun> {
        let begun = self.begin_how(args, "no").await?;
        // If the draft is longer than the file, its bytes do not belong to the file.
        match begun.kept > args.size {
            true => self.begin_how(args, "yes").await,
            false => Ok(begun),
        }
    }

    /// Asks what exists at the path. `anew` may delete what an earlier copy left.
    async fn begin_how(&mut self, args: &copy_in::Args, anew: &str) -> ToolResult<Begun> {
        let answer = self.call("far_copy_begin", &[&args.key, anew]).await?;
        let mut found = brought(&answer).into_iter().map(|file| file.found);
        let there = found.next().unwrap_or(Found::Nothing(Above::Link));
        Ok(Begun {
            there,
            kept: match found.next() {
                Some(Found::File { size, .. }) => size,
                _ => 0,
            },
            draft: answer
                .part("draft")
                .map(|part| part.text())
                .unwrap_or_default(),
        })
    }

    /// Checks that the folder above exists. If missing folders are wanted, creates them.
    async fn expect_above(&mut self, above: &Above, args: &copy_in::Args) -> ToolResult<()> {
        let folder = PathBuf::from(&self.path);
        let folder = folder.parent().map(PathBuf::from).unwrap_or_default();
        match above {
            Above::Folder(there) if *there == folder => Ok(()),
            Above::Folder(_) if args.parents => {
                let answer = self.call("far_folders", &[]).await?;
                self.expect_done(&answer)
            }
            Above::Folder(_) => {
                let words = format!("`{}` does not exist", folder.display());
                Err(ToolError::new(words).hint("`parents: true` makes missing folders"))
            }
            Above::Closed => Err(self.denied("write")),
            Above::Other(_) | Above::Link => {
                let words = format!("`{}` goes through something that is no folder", self.path);
                Err(ToolError::new(words))
            }
        }
    }

    async fn write(&mut self, args: &copy_in::Args) -> ToolResult<Value> {
        let data = STANDARD
            .decode(args.data.as_deref().unwrap_or_default())
            .map_err(|err| ToolError::new("`data` is not base64").source(err))?;
        let (size, number) = (PART_BYTES.to_string(), args.offset / PART_BYTES);
        let words = [args.key.as_str(), &size, &number.to_string()];
        let answer = self.call_with("far_copy_write", &words, &data).await?;
        self.expect_done(&answer)?;
        Ok(json!({ "kept": args.offset + data.len() as u64 }))
    }

    async fn finish(&mut self, far: &Far, args: &copy_in::Args) -> ToolResult<Value> {
        if args.data.is_some() {
            self.write(args).await?;
        }
        let sum = match self.lease.facts().has_sum {
            true => args.sha256.clone(),
            false => match self.hash_of_draft(args).await? == args.sha256 {
                true => "any".to_owned(),
                false => "another".to_owned(),
            },
        };
        let (size, mode) = (args.size.to_string(), octal(args.mode));
        let words = [args.key.as_str(), &size, &sum, &mode, expected(args)];
        let _alone = far.saving.lock().await;
        let answer = self.long_call("far_copy_finish", &words).await?;
        if answer.part("differs").is_some() {
            return Ok(json!({ "differs": true }));
        }
        if answer.part("gone").is_some() {
            return Err(ToolError::new("what was copied so far is gone")
                .hint("copy it again from the beginning"));
        }
        self.expect_done(&answer)?;
        Ok(json!({ "path": self.path }))
    }

    /// Returns the hash of the draft, or of the file itself if it already has its name.
    async fn hash_of_draft(&mut self, args: &copy_in::Args) -> ToolResult<String> {
        let answer = self.call("far_copy_begin", &[&args.key, "no"]).await?;
        let is_there = brought(&answer)
            .get(1)
            .is_some_and(|draft| matches!(draft.found, Found::File { .. }));
        let own = self.path.clone();
        if let Some(draft) = answer.part("draft").filter(|_| is_there) {
            self.path = draft.text();
        }
        let hash = self.hash_now().await;
        self.path = own;
        Ok(hash?.0)
    }

    async fn folder(&mut self, args: &copy_in::Args) -> ToolResult<Value> {
        let mode = octal(args.mode);
        let words = [mode.as_str(), expected(args)];
        let answer = self.call("far_copy_folder", &words).await?;
        self.expect_done(&answer)?;
        Ok(json!({ "is_growing": answer.part("growing").is_some() }))
    }

    /// Makes a call whose answer only says that it is done.
    async fn change(&mut self, function: &str, words: &[&str]) -> ToolResult<Value> {
        let answer = self.call(function, words).await?;
        self.expect_done(&answer)?;
        Ok(json!({ "path": self.path }))
    }

    fn expect_done(&self, answer: &Answer) -> ToolResult<()> {
        if answer.code == 0 {
            return Ok(());
        }
        if answer.part("changed").is_some() {
            return Err(copy_in::already_there(&self.path));
        }
        let why = answer.part("failed").map(|part| part.text());
        let words = format!("cannot write `{}`", self.path);
        Err(ToolError::new(match why {
            Some(why) => format!("{words}: {why}"),
            None => words,
        }))
    }

    fn denied(&self, what: &str) -> ToolError {
        let words = format!("cannot {what} `{}`", self.path);
        ToolError::new(words).source(rustix::io::Errno::ACCESS)
    }

    fn gone(&self) -> ToolError {
        ToolError::new(format!("`{}` does not exist", self.path))
    }

    /// Makes the error for an entry that is neither a file nor a folder.
    fn unfit(&self, found: &Found) -> ToolError {
        let what = match found {
            Found::Other(FileType::Socket) => "a socket",
            Found::Other(_) => "a FIFO",
            Found::Device => "a device",
            Found::Nothing(Above::Closed) => return self.denied("read"),
            Found::File { .. } | Found::Folder | Found::Nothing(_) => return self.gone(),
        };
        ToolError::new(format!("`{}` is {what}, not a file", self.path))
    }
}

/// Makes a call of a function for a path, which may be below the folder of the whole copy.
fn calling<'a>(
    function: &'a str,
    (top, path): &'a (Option<String>, String),
    words: &[&'a str],
) -> Call<'a> {
    let (function, mut all) = match top {
        Some(top) => ("far_below", vec![top.as_str(), function]),
        None => (function, Vec::new()),
    };
    all.push(path);
    all.extend(words);
    Call {
        function,
        words: all,
        ..Call::default()
    }
}

/// Returns the folder of the whole copy. Calls that only make sense inside of such a folder must name it.
fn top(args: &copy_in::Args) -> ToolResult<Option<String>> {
    use copy_in::What::{Folder, Link, Mode};
    let Some(top) = &args.top else {
        return match args.what {
            Folder | Link | Mode => Err(ToolError::new("`top` is missing")),
            _ => Ok(None),
        };
    };
    let top = top.trim_end_matches('/');
    let steps = args.path.strip_prefix(top);
    let steps = steps.and_then(|steps| steps.strip_prefix('/'));
    let is_plain = |step: &str| !matches!(step, "" | "." | "..");
    match steps.is_some_and(|steps| steps.split('/').all(is_plain)) && args.path.starts_with('/') {
        true => Ok(Some(top.to_owned())),
        false => {
            let words = format!("`{}` is not below `{top}`", args.path);
            Err(ToolError::new(words))
        }
    }
}

/// The state of the target path.
struct Begun {
    there: Found,
    /// Bytes that an earlier copy left.
    kept: u64,
    /// The path of these bytes.
    draft: String,
}

/// Reads an entry from a part with its mode, size and stamp.
fn entry(path: String, part: &Part<'_>) -> Entry {
    let mode = u32::from_str_radix(part.word(1), 16).unwrap_or_default();
    let mut entry = Entry::new(path, mode);
    entry.size = part.number(2).unwrap_or_default();
    part.word(3).clone_into(&mut entry.stamp);
    entry
}

/// Whether the host got the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    No,
    Perhaps,
}

/// Makes an error of the connection, which says that in the same way as errors of other ways.
fn broken(err: &impl Display, call: Sent) -> ToolError {
    let began = call == Sent::Perhaps;
    let data = json!({ "fault": "transport", "began": began, "retriable": true });
    ToolError::rpc(RpcError::internal(err.to_string()).with_data(data))
}

fn expected(args: &copy_in::Args) -> &'static str {
    match args.overwrite {
        true => "any",
        false => "none",
    }
}

fn octal(mode: u32) -> String {
    format!("{:o}", mode & 0o777)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
