//! Tables of data. Tables that only lay out a page are not kept as such.

use super::Style;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    cells: usize,
    /// Of all cells together.
    bytes: usize,
}

impl Table {
    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn start_cell(&mut self) {
        if self.rows.is_empty() {
            self.start_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(String::new());
            self.cells += 1;
        }
    }

    /// More text for the cell that was begun last; false if there is none.
    pub(super) fn push(&mut self, text: &str) -> bool {
        let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) else {
            return false;
        };
        if !cell.is_empty() {
            cell.push(' ');
        }
        cell.push_str(text);
        self.bytes += text.len();
        true
    }

    /// Is it larger than anything that is meant as a table?
    pub(super) fn is_huge(&self) -> bool {
        self.cells > MOST_CELLS
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// All rows in one block.
    pub(super) fn render(self, style: Style) -> String {
        let rows: Vec<_> = self.rows.into_iter().filter(|row| has_text(row)).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut out = String::new();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                out.push('\n');
            }
            match style {
                Style::Markdown if columns > 1 => {
                    push_row(&mut out, row);
                    if at == 0 {
                        out.push_str(&" |".repeat(columns - row.len()));
                        out.push_str(&format!("\n|{}", " --- |".repeat(columns)));
                    }
                }
                Style::Markdown | Style::Plain => out.push_str(&row.join(" | ").replace('\n', " ")),
            }
        }
        out
    }

    /// Every row as one block, for what turned out to be no table.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = String> {
        let rows = self.rows.into_iter().filter(|row| has_text(row));
        rows.map(|row| {
            let cells = row.into_iter().filter(|cell| !cell.is_empty());
            cells.collect::<Vec<_>>().join(" ")
        })
    }
}

fn has_text(row: &[String]) -> bool {
    row.iter().any(|cell| !cell.is_empty())
}

fn push_row(out: &mut String, row: &[String]) {
    out.push('|');
    for cell in row {
        let cell = cell.replace('|', "\\|").replace('\n', " ");
        out.push_str(&format!(" {cell} |"));
    }
}

const MOST_CELLS: usize = 50_000;
