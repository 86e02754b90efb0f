//! Blocks of text, one after the other, each within its quotes and list items.

use super::{
    Style,
    inline::{Inline, fence, is_invisible},
    table::{Piece, Table},
};

#[derive(Debug)]
pub(super) struct Writer {
    style: Style,
    /// The longest that `out` may become.
    limit: usize,
    pub(super) out: String,
    pub(super) inline: Inline,
    frames: Vec<Frame>,
    /// The level within a heading, 1 to 6; else 0.
    heading: usize,
    pre: Option<Pre>,
    table: Option<Table>,
    /// Whether the last block was in a list.
    in_list: bool,
    full: bool,
}

/// An element around a block.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Quote,
    /// A list, with the number of the next item if items have numbers.
    List(Option<u32>),
    /// An item. The marker is written before its first line; the other lines are indented as far.
    Item {
        marker: String,
        written: bool,
    },
}

#[derive(Debug)]
struct Pre {
    language: String,
    code: String,
}

impl Writer {
    pub(super) fn new(style: Style, limit: usize) -> Self {
        Self {
            style,
            limit,
            out: String::new(),
            inline: Inline::new(style),
            frames: Vec::new(),
            heading: 0,
            pre: None,
            table: None,
            in_list: false,
            full: false,
        }
    }

    /// Returns whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        let table = self.table.as_ref().map_or(0, Table::len);
        self.full || self.inline.len() + table > self.limit
    }

    pub(super) fn is_markdown(&self) -> bool {
        self.style == Style::Markdown
    }

    pub(super) fn text(&mut self, text: &str) {
        match &mut self.pre {
            Some(pre) => {
                let text = text
                    .strip_prefix('\n')
                    .filter(|_| pre.code.is_empty())
                    .unwrap_or(text);
                pre.code
                    .extend(text.chars().filter(|character| !is_invisible(*character)));
            }
            None => self.inline.push(text),
        }
    }

    pub(super) fn line_break(&mut self) {
        match &mut self.pre {
            Some(pre) => pre.code.push('\n'),
            None if self.heading > 0 => self.inline.push(" "),
            None => self.inline.line_break(),
        }
    }

    /// Ends the block that is being collected.
    pub(super) fn end_block(&mut self) {
        let text = self.inline.take();
        if text.is_empty() {
            return;
        }
        let Some(text) = self.push_cell(text) else {
            return;
        };
        match (self.style, self.heading) {
            (Style::Markdown, level @ 1..) => {
                self.write(&format!(
                    "{} {}",
                    "#".repeat(level),
                    text.replace('\n', " ")
                ));
            }
            _ => self.write(&text),
        }
    }

    /// Puts a block into the open cell, after the marker of its item. Returns the block if there is no cell.
    fn push_cell(&mut self, mut text: String) -> Option<String> {
        let Some(table) = &mut self.table else {
            return Some(text);
        };
        let within = self.frames.get_mut(table.depth..).unwrap_or_default();
        if let Some(Frame::Item { marker, written }) = within.last_mut()
            && !*written
        {
            *written = true;
            text.insert_str(0, marker);
        }
        match table.push(Piece::Text(text))? {
            Piece::Text(text) => Some(text),
            Piece::Code { .. } => None,
        }
    }

    pub(super) fn start_heading(&mut self, level: usize) {
        self.end_block();
        self.leave_table();
        self.heading = level;
    }

    pub(super) fn end_heading(&mut self) {
        self.end_block();
        self.heading = 0;
    }

    pub(super) fn rule(&mut self) {
        self.end_block();
        if self.style == Style::Markdown && self.table.is_none() {
            self.write("---");
        }
    }

    pub(super) fn start_quote(&mut self) {
        self.end_block();
        self.push(Frame::Quote);
    }

    pub(super) fn end_quote(&mut self) {
        self.end_block();
        self.pop_to(|frame| *frame == Frame::Quote);
    }

    pub(super) fn start_list(&mut self, first: Option<u32>) {
        self.end_block();
        self.push(Frame::List(first));
    }

    pub(super) fn end_list(&mut self) {
        self.end_block();
        self.pop_to(|frame| matches!(frame, Frame::List(_)));
        // A list that follows is no part of this one.
        self.in_list &= self.frames.iter().any(Frame::is_item);
    }

    /// Starts an item, and ends the item before it, which often has no end tag.
    pub(super) fn start_item(&mut self) {
        self.end_block();
        let list = self
            .frames
            .iter()
            .rposition(|frame| matches!(frame, Frame::List(_)));
        if let Some(list) = list {
            self.frames.truncate(list + 1);
        }
        let marker = match self.frames.last_mut() {
            Some(Frame::List(Some(number))) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "- ".into(),
        };
        self.push(Frame::Item {
            marker,
            written: false,
        });
    }

    pub(super) fn end_item(&mut self) {
        self.end_block();
        // Only an item is ended, not the list around it, which a surplus `</li>` would end.
        if let Some(Frame::Item { .. }) = self.frames.last() {
            self.frames.pop();
        }
    }

    pub(super) fn start_pre(&mut self, language: &str) {
        self.end_block();
        self.pre = Some(Pre {
            language: language.to_owned(),
            code: String::new(),
        });
    }

    pub(super) fn is_pre(&self) -> bool {
        self.pre.is_some()
    }

    /// Sets the language of code, which is often named at the `code` within.
    pub(super) fn set_language(&mut self, language: &str) {
        if let Some(pre) = self.pre.as_mut().filter(|pre| pre.language.is_empty()) {
            language.clone_into(&mut pre.language);
        }
    }

    pub(super) fn end_pre(&mut self) {
        let Some(Pre { language, mut code }) = self.pre.take() else {
            return;
        };
        code.truncate(code.trim_end().len());
        let blank = code.len() - code.trim_start_matches('\n').len();
        code.drain(..blank);
        if code.is_empty() {
            return;
        }
        let piece = Piece::Code { language, code };
        let left = match &mut self.table {
            Some(table) => table.push(piece),
            None => Some(piece),
        };
        if let Some(piece) = left {
            self.write_piece(piece);
        }
    }

    /// Starts a table. If it is within another one, the outer table only lays out the page.
    pub(super) fn start_table(&mut self) {
        self.end_block();
        self.leave_table();
        self.table = Some(Table::new(self.frames.len()));
    }

    pub(super) fn start_row(&mut self) {
        self.end_block();
        if let Some(table) = &mut self.table {
            self.frames.truncate(table.depth);
            table.start_row();
        }
    }

    pub(super) fn start_cell(&mut self) {
        self.end_block();
        let Some(table) = &mut self.table else {
            return;
        };
        self.frames.truncate(table.depth);
        table.start_cell();
        if table.is_huge() {
            self.leave_table();
        }
    }

    pub(super) fn end_table(&mut self) {
        self.end_block();
        if self.table.as_ref().is_some_and(Table::lays_out_code) {
            self.leave_table();
        }
        if let Some(table) = self.table.take() {
            self.frames.truncate(table.depth);
            let text = table.render(self.style);
            self.write(&text);
        }
    }

    /// Ends everything.
    pub(super) fn finish(&mut self) {
        self.end_pre();
        self.end_table();
        self.end_block();
    }

    /// Writes the content of the table as ordinary blocks, because it is no data.
    fn leave_table(&mut self) {
        if let Some(table) = self.table.take() {
            for block in table.into_blocks() {
                self.write_piece(block);
            }
        }
    }

    fn write_piece(&mut self, piece: Piece) {
        match (piece, self.style) {
            (Piece::Text(text), _) => self.write(&text),
            (Piece::Code { code, .. }, Style::Plain) => self.write(&code),
            (Piece::Code { language, code }, Style::Markdown) => {
                let fence = fence(&code, 3);
                self.write(&format!("{fence}{language}\n{code}\n{fence}"));
            }
        }
    }

    fn push(&mut self, frame: Frame) {
        if self.frames.len() < MOST_FRAMES {
            self.frames.push(frame);
        }
    }

    fn pop_to(&mut self, wanted: impl Fn(&Frame) -> bool) {
        if let Some(at) = self.frames.iter().rposition(wanted) {
            self.frames.truncate(at);
        }
    }

    fn write(&mut self, block: &str) {
        if block.trim().is_empty() || self.full {
            return;
        }
        let begins = |frame: &Frame| matches!(frame, Frame::Item { written: false, .. });
        if !self.out.is_empty() {
            let tight = self.in_list && self.frames.iter().any(begins);
            self.out.push_str(if tight { "\n" } else { "\n\n" });
        }
        for (at, line) in block.lines().enumerate() {
            if at > 0 {
                self.out.push('\n');
            }
            self.push_prefix();
            self.out.push_str(line);
            self.out.truncate(self.out.trim_end_matches(' ').len());
            if self.out.len() > self.limit {
                self.full = true;
                self.out.truncate(self.out.floor_char_boundary(self.limit));
                return;
            }
        }
        self.in_list = self.frames.iter().any(Frame::is_item);
    }

    fn push_prefix(&mut self) {
        for frame in &mut self.frames {
            match frame {
                Frame::Quote => self.out.push_str("> "),
                Frame::List(_) => {}
                Frame::Item { marker, written } if *written => {
                    self.out.extend(marker.chars().map(|_| ' '));
                }
                Frame::Item { marker, written } => {
                    self.out.push_str(marker);
                    *written = true;
                }
            }
        }
    }
}

impl Frame {
    fn is_item(&self) -> bool {
        matches!(self, Self::Item { .. })
    }
}

/// How deep lists and quotes may be nested.
const MOST_FRAMES: usize = 32;
