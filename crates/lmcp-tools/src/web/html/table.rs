//! Tables of data. Tables that only lay out a page are not kept as tables.

use super::{Style, inline::fence, one_line};

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
    /// In how many quotes, lists and items the table stands.
    pub(super) depth: usize,
    cells: usize,
    /// The bytes of all cells together.
    bytes: usize,
}

type Cell = Vec<Piece>;

/// A part of a cell, or a block where a table turned out to be none.
#[derive(Debug)]
pub(super) enum Piece {
    Text(String),
    Code { language: String, code: String },
}

impl Table {
    /// Makes a table that stands in so many quotes, lists and items.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            depth,
            ..Self::default()
        }
    }

    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn start_cell(&mut self) {
        if self.rows.is_empty() {
            self.start_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(Cell::new());
            self.cells += 1;
        }
    }

    /// Adds a piece to the cell that was begun last. Returns the piece if there is no cell.
    pub(super) fn push(&mut self, piece: Piece) -> Option<Piece> {
        let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) else {
            return Some(piece);
        };
        self.bytes += match &piece {
            Piece::Text(text) => text.len(),
            Piece::Code { code, .. } => code.len(),
        };
        cell.push(piece);
        None
    }

    /// Returns whether the table only lays out code, beside the numbers of its lines, say: one row is no table.
    pub(super) fn lays_out_code(&self) -> bool {
        let mut rows = self.rows.iter().filter(|row| has_text(row));
        let is_code =
            |piece: &Piece| matches!(piece, Piece::Code { code, .. } if code.contains('\n'));
        let has_code = |row: &Vec<Cell>| row.iter().flatten().any(is_code);
        rows.next().is_some_and(has_code) && rows.next().is_none()
    }

    /// Returns whether the table is larger than any real table.
    pub(super) fn is_huge(&self) -> bool {
        self.cells > MOST_CELLS
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns all rows in one block.
    pub(super) fn render(self, style: Style) -> String {
        let rows: Vec<_> = self.rows.into_iter().filter(|row| has_text(row)).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut out = String::new();
        for (at, row) in rows.iter().enumerate() {
            let row: Vec<_> = row.iter().map(|cell| line(cell, style)).collect();
            if at > 0 {
                out.push('\n');
            }
            match style {
                Style::Markdown if columns > 1 => {
                    push_row(&mut out, &row);
                    if at == 0 {
                        out.push_str(&" |".repeat(columns - row.len()));
                        out.push_str(&format!("\n|{}", " --- |".repeat(columns)));
                    }
                }
                Style::Markdown | Style::Plain => out.push_str(&row.join(" | ")),
            }
        }
        out
    }

    /// Returns every row as one block, if this turned out to be no table. Code stays by itself.
    pub(super) fn into_blocks(self) -> Vec<Piece> {
        let mut blocks = Vec::new();
        for row in self.rows {
            let mut words = String::new();
            for piece in row.into_iter().flatten() {
                match piece {
                    Piece::Text(text) if words.is_empty() => words = text,
                    Piece::Text(text) => {
                        words.push(' ');
                        words.push_str(&text);
                    }
                    Piece::Code { .. } => {
                        blocks.push(Piece::Text(std::mem::take(&mut words)));
                        blocks.push(piece);
                    }
                }
            }
            blocks.push(Piece::Text(words));
        }
        blocks
    }
}

fn has_text(row: &[Cell]) -> bool {
    row.iter().any(|cell| !cell.is_empty())
}

/// Returns the content of a cell, in one line.
fn line(cell: &Cell, style: Style) -> String {
    let pieces = cell.iter().map(|piece| match (piece, style) {
        (Piece::Text(text), _) => text.replace('\n', " "),
        (Piece::Code { code, .. }, Style::Plain) => one_line(code),
        (Piece::Code { code, .. }, Style::Markdown) => {
            let ticks = fence(code, 1);
            format!("{ticks}{}{ticks}", one_line(code))
        }
    });
    pieces.collect::<Vec<_>>().join(" ")
}

fn push_row(out: &mut String, row: &[String]) {
    out.push('|');
    for cell in row {
        let cell = cell.replace('|', "\\|");
        out.push_str(&format!(" {cell} |"));
    }
}

/// The most cells of a table. A cell takes about 400 bytes until its table is written, whatever its text: a page of cells
/// would take many times its length.
const MOST_CELLS: usize = 4_000;
