//! `read_file`: reads files, a page at a time.
//!
//! The result says which page it holds, how to go on, and the hash that `write_file` and `edit_file` take as proof
//! that nothing has changed since.

mod bytes;
mod page;
mod render;
mod slice;
mod source;
mod survey;

use std::sync::Arc;

use base64::Engine as _;
use lmcp_core::{Cx, Handler, Tool, ToolError, ToolResult, WithState};
use lmcp_wire::Content;
use rustix::fs::Stat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Host,
    answer::Answer,
    files::{
        hash,
        kind::{HEAD_BYTES, Kind, PDF},
        notebook::Notebook,
        text::{Encoding, LineEndings},
    },
    here::Here,
    image,
    memory::{Memory, blocking_within},
    page_cache::SMALL_BYTES,
    room::{Room, json_length},
    roots::Place,
    schemas,
    time::rfc3339,
};

use bytes::Form;
use slice::Slice;
use source::Source;

pub(crate) fn tool() -> Tool<Host> {
    define(read)
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<Files>>, WithState>,
) -> Tool<S> {
    schemas::tool("read_file", handler)
        .title("Read files")
        .about(
            "Read files: text by lines or bytes, with hash and how to read on; images as images. For folders use list_dir, \
             to find something search_files.",
        )
        .alias("path", super::PATH_NAMES)
        .also_called(["read", "view", "cat", "open_file", "view_file", "read_text_file", "read_many_files"])
        .ask_for(["path"])
        .unlisted(["byte_limit"])
        .read_only()
}

/// Arguments of `read_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// More files to read.
    #[schemars(length(min = 1, max = 64))]
    paths: Option<Vec<String>>,
    /// First line, from 1; -20: the last 20.
    offset: Option<i64>,
    /// Lines at most. Default: as many as fit.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// First byte, from 0, instead of lines; negative: from the end.
    byte_offset: Option<i64>,
    /// Bytes at most.
    #[schemars(range(min = 1))]
    byte_limit: Option<u64>,
    /// Put its number before each line.
    #[serde(default)]
    line_numbers: bool,
    /// `text` (default), or bytes as `hex` or `base64`.
    #[serde(default)]
    form: Form,
}

impl Args {
    /// Returns the files that the caller names.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let more = self.paths.iter().flatten();
        self.path.iter().chain(more).map(String::as_str)
    }

    /// Returns the range of bytes to read, if the caller gives one: the first byte, which may count from the end, and
    /// how many at most.
    pub fn bytes(&self) -> Option<(i64, Option<u64>)> {
        let is_by_bytes = self.byte_offset.is_some() || self.byte_limit.is_some();
        is_by_bytes.then(|| (self.byte_offset.unwrap_or(0), self.byte_limit))
    }
}

/// What `read_file` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Files {
    /// One for each path, in the order asked for.
    files: Vec<FileRead>,
}

/// One file. If it could not be read there is only `path` and `error`.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct FileRead {
    /// As asked for.
    path: String,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The text, line endings as they are. Missing if it stands in the text of the result only.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Number of the first line returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    /// Number of the last line returned, perhaps not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_line: Option<u64>,
    /// How many lines the file has. Missing if it is larger than 16 MiB: they are not counted then.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<u64>,
    /// Where in the file the content begins, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_start: Option<u64>,
    /// Where it ends, in bytes: the first byte not returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_end: Option<u64>,
    /// Size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Bytes of the file behind the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_bytes: Option<u64>,
    /// Lines of the file behind the last one returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_lines: Option<u64>,
    /// The argument to read on with. Missing at the end of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Next>,
    /// How the file writes characters, as far as the content shows if it is larger than 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    encoding: Option<Encoding>,
    /// Does it begin with a byte order mark? The content does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    bom: Option<bool>,
    /// How its lines end; those of the content, if it is larger than 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_endings: Option<LineEndings>,
    /// Stands for the content of the whole file: give it as `if_hash` when you change the file. Missing if the file is
    /// larger than 16 MiB, or changed while it was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// When the file was last changed, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<String>,
    /// What kind of image it is; the image itself is in the content of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    /// Anything odd: how bytes are shown that are no text, why there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Where to read on: one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Next {
    Offset(u64),
    ByteOffset(u64),
}

pub(crate) async fn read(host: Arc<Host>, args: Args, cx: Cx) -> ToolResult<Answer<Files>> {
    let slice = Slice::from_args(&args)?;
    let form = args.form;
    let wanted = match (args.path, args.paths) {
        (Some(path), None) => Wanted::One(path),
        (None, Some(paths)) => Wanted::Many(paths),
        (Some(path), Some(more)) => Wanted::Many([vec![path], more].concat()),
        (None, None) => {
            return Err(ToolError::new("no file is named").hint("name it in `path`"));
        }
    };
    if wanted.paths().count() > MOST_FILES {
        let words = format!("more than {MOST_FILES} files are named");
        return Err(ToolError::new(words).hint("read them in several calls"));
    }
    let here = host.here(&cx, wanted.paths()).await?;
    let room = Room::of(&cx);
    if let Wanted::One(path) = &wanted
        && host.roots.is_at_hand(&here, path)
    {
        let mut memory = Memory::of(&cx);
        let reader = Reader::new(&host, &here, (slice, form), &cx, room, &mut memory);
        if let Some(answer) = reader.read_at_once(path) {
            return answer;
        }
    }
    let own = cx.clone();
    let read = move |memory: &mut Memory| {
        Reader::new(&host, &here, (slice, form), &own, room, memory).read(&wanted)
    };
    blocking_within(&cx, read).await
}

/// The most files that one call reads.
const MOST_FILES: usize = 500;

enum Wanted {
    One(String),
    /// Files that fail are reported one by one.
    Many(Vec<String>),
}

impl Wanted {
    fn paths(&self) -> impl Iterator<Item = &str> {
        let paths = match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        };
        paths.iter().map(String::as_str)
    }
}

/// One call at work.
struct Reader<'a> {
    host: &'a Host,
    here: &'a Here,
    slice: Slice,
    form: Form,
    cx: &'a Cx,
    memory: &'a mut Memory,
    /// The room that is left for the remaining files.
    room: Room,
    images: Vec<Content>,
    /// How many bytes of images still fit.
    image_bytes: u64,
    /// Whether the work must be short, because other calls wait for this thread.
    at_once: bool,
}

impl<'a> Reader<'a> {
    fn new(
        host: &'a Host,
        here: &'a Here,
        (slice, form): (Slice, Form),
        cx: &'a Cx,
        room: Room,
        memory: &'a mut Memory,
    ) -> Self {
        Self {
            host,
            here,
            slice,
            form,
            cx,
            memory,
            room,
            images: Vec::new(),
            image_bytes: IMAGE_BYTES,
            at_once: false,
        }
    }

    fn read(self, wanted: &Wanted) -> ToolResult<Answer<Files>> {
        match wanted {
            Wanted::One(path) => self.read_one(path),
            Wanted::Many(paths) => self.read_many(paths),
        }
    }

    /// Reads a file that was small a moment ago. `None` if a larger file has taken its place.
    fn read_at_once(mut self, path: &str) -> Option<ToolResult<Answer<Files>>> {
        self.at_once = true;
        let room = self.room;
        let file = self.file(path, &room);
        match file {
            Ok(file) => Some(Ok(self.answer(vec![file], false))),
            // `expect_short` cleared the flag, so the work was too long for this thread.
            Err(_) if !self.at_once => None,
            Err(err) => Some(Err(err)),
        }
    }

    fn read_one(mut self, path: &str) -> ToolResult<Answer<Files>> {
        let room = self.room;
        let file = self.file(path, &room)?;
        Ok(self.answer(vec![file], false))
    }

    fn read_many(mut self, paths: &[String]) -> ToolResult<Answer<Files>> {
        let mut files = Vec::with_capacity(paths.len());
        for (at, path) in paths.iter().enumerate() {
            files.push(match self.share(path, paths.len() - at) {
                Ok(file) => file,
                Err(err) if self.memory.is_short() => return Err(err),
                Err(err) => FileRead {
                    path: path.clone(),
                    error: Some(err.to_string()),
                    ..FileRead::default()
                },
            });
        }
        let all_failed = files.iter().all(|file| file.error.is_some());
        Ok(self.answer(files, all_failed))
    }

    /// Reads a file into its share of the room that the files before it left.
    fn share(&mut self, path: &str, left: usize) -> ToolResult<FileRead> {
        if self.room.bytes < FACTS_BYTES {
            return Err(
                ToolError::new("no room is left in this result").hint("read it in another call")
            );
        }
        let mut room = self.room.share(left);
        room.bytes = room
            .bytes
            .saturating_sub(FACTS_BYTES)
            .max(LEAST_SHARE_BYTES);
        let file = self.file(path, &room)?;
        let content = file.content.as_deref().unwrap_or_default();
        let cost: usize = content.chars().map(json_length).sum();
        let lines = memchr::memchr_iter(b'\n', content.as_bytes()).count();
        self.room.bytes = self.room.bytes.saturating_sub(cost + FACTS_BYTES);
        self.room.lines = self.room.lines.saturating_sub(lines).max(1);
        Ok(file)
    }

    /// Fails if the work must be done at once and is not short.
    fn expect_short(&mut self, is_short: bool) -> ToolResult<()> {
        if self.at_once && !is_short {
            self.at_once = false;
            return Err(ToolError::new("the file was exchanged for a larger one"));
        }
        Ok(())
    }

    fn file(&mut self, path: &str, room: &Room) -> ToolResult<FileRead> {
        let place = self.host.roots.find(self.here, path)?;
        let (file, stat) = place.open_file(self.host.hard_links())?;
        let cannot = |err| cannot_read(&place, err);
        self.expect_short(size_of(&stat) <= SMALL_BYTES)?;
        let source = Source::new(file, size_of(&stat), |bytes| self.memory.need(bytes));
        let mut source = source.map_err(cannot)?;
        let mut read = FileRead {
            path: path.to_owned(),
            mtime: Some(mtime_of(&stat)),
            ..FileRead::default()
        };
        let head = source.from(0).map_err(cannot)?;
        let head = &head[..head.len().min(HEAD_BYTES)];
        let (kind, mark) = (Kind::of(head), Encoding::by_mark(head));
        let is_too_large = image::is_too_large(head, size_of(&stat));
        self.expect_short(!is_too_large)?;
        match kind {
            _ if self.form != Form::Text => {
                self.slice
                    .fill_bytes(&mut read, &mut source, self.form, room, self.cx)
                    .map_err(cannot)?;
            }
            Kind::Text if self.notebook(&place, &mut source, &mut read, room)? => {}
            Kind::Text | Kind::Hole => {
                self.slice
                    .fill(&mut read, &mut source, mark, room, self.cx)
                    .map_err(cannot)?;
                // There may be text after a hole; the hole itself is no text.
                if kind == Kind::Hole
                    && read
                        .content
                        .as_ref()
                        .is_some_and(|text| text.contains('\0'))
                {
                    return Err(is_binary(&place, "nothing but zeros", source.size()));
                }
            }
            Kind::Image if is_too_large => self.shrunk(&place, &mut source, &mut read)?,
            Kind::Image => {
                let (image, mime_type) = self.image(&place, &mut source)?;
                read.hash = Some(hash::of(image));
                read.mime_type = Some(mime_type.into());
            }
            Kind::Binary(what) => return Err(is_binary(&place, what, source.size())),
        }
        read.size_bytes = Some(source.size());
        read.hash = read.hash.as_deref().map(hash::shown);
        expect_unchanged(&mut read, &source, &stat);
        Ok(read)
    }

    /// Shows a notebook as its cells. Returns whether the file is a notebook.
    fn notebook(
        &mut self,
        place: &Place<'_>,
        source: &mut Source,
        read: &mut FileRead,
        room: &Room,
    ) -> ToolResult<bool> {
        let cannot = |err| cannot_read(place, err);
        let is_called_so = place.shown().extension().is_some_and(|it| it == "ipynb");
        let is_wanted = is_called_so && self.slice.is_by_lines();
        if !is_wanted || source.size() > survey::WHOLE_BYTES {
            return Ok(false);
        }
        let size = source.size();
        self.memory
            .need(usize::try_from(size).unwrap_or(usize::MAX))?;
        let bytes = source.between(0, size).map_err(cannot)?;
        // Memory for the parsed JSON, for a copy of the file, and for the text.
        self.memory
            .need(lmcp_core::weigh_json(bytes) + 3 * bytes.len())?;
        let Some(notebook) = Notebook::read(place.shown().as_os_str(), bytes) else {
            return Ok(false);
        };
        let hash = hash::of(bytes);
        let mut cells = Source::of(notebook.text_with_outputs().into_bytes());
        let mark = (Encoding::Utf8, 0);
        self.slice
            .fill(read, &mut cells, mark, room, self.cx)
            .map_err(cannot)?;
        read.hash = Some(hash);
        read.add_note(
            "a notebook, shown as cells and edited as such; `byte_offset: 0` shows its JSON",
        );
        Ok(true)
    }

    /// Adds a smaller copy of an image that is too large, if one can be made.
    fn shrunk(
        &mut self,
        place: &Place<'_>,
        source: &mut Source,
        read: &mut FileRead,
    ) -> ToolResult<()> {
        let size = source.size();
        let read_bytes = usize::try_from(size.min(SHRUNK_BYTES)).unwrap_or(usize::MAX);
        self.memory.need(read_bytes + SHRINKING_BYTES)?;
        let bytes = source
            .between(0, size.min(SHRUNK_BYTES))
            .map_err(|err| cannot_read(place, err))?;
        let what = image::describe(bytes, size);
        let small = image::shrink::png(bytes)
            .filter(|small| small.png.len() as u64 <= self.image_bytes)
            .ok_or_else(|| {
                let shown = place.shown().display();
                ToolError::new(format!("`{shown}` ({what}) is too large to be shown"))
                    .hint("`magick FILE -resize 1568x1568 SMALLER` makes a copy that can be, if it is installed")
            })?;
        read.hash = Some(hash::of(bytes));
        read.mime_type = Some("image/png".into());
        let (width, height) = small.sides;
        read.add_note(&format!("{what}, shown as {width}x{height}"));
        self.image_bytes -= small.png.len() as u64;
        let data = base64::engine::general_purpose::STANDARD.encode(small.png);
        self.images.push(Content::image_base64(data, "image/png"));
        Ok(())
    }

    /// Adds the image to the result, and returns its bytes and MIME type.
    fn image<'s>(
        &mut self,
        place: &Place<'_>,
        source: &'s mut Source,
    ) -> ToolResult<(&'s [u8], &'static str)> {
        let cannot = |err| cannot_read(place, err);
        let size = source.size();
        let read = size.min(self.image_bytes);
        // The bytes of the image, and four characters of base64 for three of them.
        self.memory
            .need(usize::try_from(read).unwrap_or(usize::MAX) / 3 * 7)?;
        let bytes = source.between(0, read).map_err(cannot)?;
        let refused = |why: String| {
            let what = image::describe(bytes, size);
            let shown = place.shown().display();
            ToolError::new(format!("`{shown}` ({what}) cannot be shown: {why}"))
                .hint("make a whole and smaller copy and read that")
        };
        if size > read {
            let left = self.image_bytes;
            return Err(refused(format!(
                "only {left} more bytes of images fit into this result"
            )));
        }
        let mime_type = image::check(bytes).map_err(refused)?;
        self.image_bytes -= size;
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.images.push(Content::image_base64(data, mime_type));
        Ok((bytes, mime_type))
    }

    fn answer(self, mut files: Vec<FileRead>, failed: bool) -> Answer<Files> {
        let text = render::text(&files);
        if !self.room.in_structured {
            for file in &mut files {
                file.content = None;
            }
        }
        let answer = Answer::new(Files { files }, text).failed_if(failed);
        self.images.into_iter().fold(answer, Answer::with)
    }
}

/// Removes the hash if the file changed while it was read: the hash must stand for the content that was shown.
fn expect_unchanged(read: &mut FileRead, source: &Source, before: &Stat) {
    let Some(file) = source.file() else {
        return;
    };
    let state = |stat: &Stat| {
        (
            stat.st_size,
            (stat.st_mtime, stat.st_mtime_nsec),
            (stat.st_ctime, stat.st_ctime_nsec),
        )
    };
    let after = rustix::fs::fstat(file);
    if !after.is_ok_and(|after| state(&after) == state(before)) {
        read.hash = None;
        read.add_note("it changed while it was read");
    }
}

impl FileRead {
    fn add_note(&mut self, words: &str) {
        match &mut self.note {
            None => self.note = Some(words.into()),
            Some(note) => {
                note.push_str("; ");
                note.push_str(words);
            }
        }
    }
}

fn is_binary(place: &Place<'_>, what: &str, size: u64) -> ToolError {
    let shown = place.shown().display();
    ToolError::new(format!("`{shown}` is not text but {what}, {size} bytes")).hint(if what == PDF {
        "the command `pdftotext -layout FILE -` shows its text, if it is installed"
    } else {
        "`form: \"hex\"` shows its bytes; an archive is opened by a command"
    })
}

fn cannot_read(place: &Place<'_>, err: std::io::Error) -> ToolError {
    ToolError::new(format!("cannot read `{}`", place.shown().display())).source(err)
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

fn mtime_of(stat: &Stat) -> String {
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    rfc3339(stat.st_mtime, nanos)
}

/// The bytes that the facts about a file take besides its content, roughly.
const FACTS_BYTES: usize = 512;

/// The least bytes that are shown of each of several files: less is not worth showing.
const LEAST_SHARE_BYTES: usize = 1024;

/// The largest image of which a smaller copy is made.
const SHRUNK_BYTES: u64 = 32 << 20;

/// The memory for a smaller copy, besides the image: its pixels, its bytes, and these once more as base64.
const SHRINKING_BYTES: usize = 24 << 20;

/// The most bytes of all images of one call.
const IMAGE_BYTES: u64 = image::MOST_BYTES as u64;
