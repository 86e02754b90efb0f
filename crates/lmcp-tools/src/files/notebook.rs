//! Notebooks (`.ipynb`) as a script of their cells, with a heading before each, as editors write it.
//!
//! ```text
//! # %% [1] code
//! print(1 + 1)
//! #> 2
//! # %% [2] markdown
//! Some words.
//! ```
//!
//! Edits work on this text, without the outputs. A cell that keeps its number keeps everything else that the file holds
//! about it; a heading without a number begins a new cell. Only the changed parts of the JSON are written anew.

use std::{collections::HashMap, ops::Range};

use lmcp_core::{Server, ToolError, ToolResult};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::edit::MOST_BYTES;

/// A notebook, and the positions of its cells in the file.
#[derive(Debug)]
pub(crate) struct Notebook {
    json: String,
    cells: Vec<Cell>,
    /// The position of all cells, from the first to the last.
    all: Range<usize>,
}

#[derive(Debug)]
struct Cell {
    kind: String,
    text: String,
    has_id: bool,
    outputs: String,
    /// The positions in the file: of the whole cell, and of its text.
    whole: Range<usize>,
    source: Range<usize>,
}

#[derive(Deserialize)]
struct RawNotebook<'a> {
    #[serde(borrow)]
    cells: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawCell<'a> {
    cell_type: String,
    #[serde(borrow)]
    source: &'a RawValue,
    id: Option<String>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    text: Option<Lines>,
    #[serde(default)]
    data: HashMap<String, serde_json::Value>,
    ename: Option<String>,
    evalue: Option<String>,
}

/// A text in JSON: whole, or line by line.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    Whole(String),
    Lines(Vec<String>),
}

impl Lines {
    fn text(self) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Lines(lines) => lines.concat(),
        }
    }
}

/// Returns whether a file has the name of a notebook.
pub(crate) fn is_called_so(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".ipynb")
}

impl Notebook {
    /// Reads a file with the name of a notebook. `None` if the content is no notebook, has no cells, or has a line like a
    /// heading in a cell.
    pub(crate) fn read(name: &std::ffi::OsStr, bytes: &[u8]) -> Option<Self> {
        if !is_called_so(name) {
            return None;
        }
        let json = std::str::from_utf8(bytes).ok()?;
        let raw: RawNotebook<'_> = serde_json::from_str(json).ok()?;
        let place = |value: &RawValue| {
            let start = value.get().as_ptr().addr() - json.as_ptr().addr();
            start..start + value.get().len()
        };
        let mut cells = Vec::with_capacity(raw.cells.len());
        for value in raw.cells {
            let cell: RawCell<'_> = serde_json::from_str(value.get()).ok()?;
            let text = serde_json::from_str::<Lines>(cell.source.get())
                .ok()?
                .text();
            if text.lines().any(|line| line.starts_with(HEADING)) {
                return None;
            }
            cells.push(Cell {
                kind: cell.cell_type,
                text,
                has_id: cell.id.is_some(),
                outputs: cell.outputs.into_iter().map(Output::text).collect(),
                whole: place(value),
                source: place(cell.source),
            });
        }
        let all = cells.first()?.whole.start..cells.last()?.whole.end;
        Some(Self {
            json: json.to_owned(),
            cells,
            all,
        })
    }

    /// Returns the cells as they are edited.
    pub(crate) fn text(&self) -> String {
        self.cells
            .iter()
            .zip(1..)
            .map(|(cell, number)| cell.shown(number))
            .collect()
    }

    /// Returns the cells with their outputs.
    pub(crate) fn text_with_outputs(&self) -> String {
        let mut text = String::new();
        for (cell, number) in self.cells.iter().zip(1..) {
            text.push_str(&cell.shown(number));
            for line in cell.outputs.lines().take(OUTPUT_LINES) {
                text.push_str(&format!("#> {line}\n"));
            }
            if cell.outputs.lines().count() > OUTPUT_LINES {
                text.push_str("#> …\n");
            }
        }
        text
    }

    /// Returns the file with these cells.
    ///
    /// # Errors
    /// A heading is not valid, a cell is there twice or is of another kind, the file would be too long, or there is no
    /// memory for the change.
    pub(crate) fn write(
        &self,
        text: &str,
        mut need: impl FnMut(usize) -> ToolResult<()>,
    ) -> ToolResult<Vec<u8>> {
        // Memory for the text of each cell, then for the list of cells.
        need(2 * text.len())?;
        let parts = parts(text)?;
        need(parts.capacity() * size_of::<Part<'_>>())?;
        self.check(&parts)?;
        let length = self.json.len() + self.lengths(&parts).sum::<usize>();
        if length as u64 > MOST_BYTES {
            let words = format!("the notebook would be larger than {MOST_BYTES} bytes");
            return Err(ToolError::new(words).hint("put the text into another file"));
        }
        need(length)?;
        let in_order = parts.len() == self.cells.len()
            && parts
                .iter()
                .zip(1..)
                .all(|(part, at)| part.number == Some(at));
        let mut json = String::with_capacity(length);
        json.push_str(&self.json[..self.all.start]);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                // If the cells stay in place, so does the text between them.
                json.push_str(match in_order {
                    true => &self.json[self.cells[at - 1].whole.end..self.cells[at].whole.start],
                    false => ",\n  ",
                });
            }
            match self.cell(part) {
                Some(cell) => self.write_old_cell(&mut json, cell, &part.text),
                None => self.write_new_cell(&mut json, part),
            }
        }
        json.push_str(&self.json[self.all.end..]);
        Ok(json.into_bytes())
    }

    /// Returns the cell of the file that a part is the new text of. `None`: the part is a new cell.
    fn cell(&self, part: &Part<'_>) -> Option<&Cell> {
        self.cells.get(part.number?.wrapping_sub(1))
    }

    /// Checks that every part is a new cell, or the only one with the number of a cell of its kind.
    fn check(&self, parts: &[Part<'_>]) -> ToolResult<()> {
        let mut taken = vec![false; self.cells.len()];
        for part in parts {
            let Some(number) = part.number else {
                continue;
            };
            let at = number.wrapping_sub(1);
            let Some(cell) = self.cells.get(at).filter(|_| !taken[at]) else {
                return Err(ToolError::new(format!(
                    "the notebook has no cell [{number}], or the edit leaves it twice"
                ))
                .hint("a new cell begins with `# %% code` or `# %% markdown`"));
            };
            if cell.kind != part.kind {
                return Err(ToolError::new(format!("cell [{number}] is {}", cell.kind))
                    .hint("remove it and begin a new one with `# %% code` or `# %% markdown`"));
            }
            taken[at] = true;
        }
        Ok(())
    }

    /// Returns how many bytes each part takes at most in the file, besides those that are there already.
    fn lengths(&self, parts: &[Part<'_>]) -> impl Iterator<Item = usize> {
        parts.iter().map(|part| match self.cell(part) {
            Some(cell) if cell.text == part.text => NEW_CELL_BYTES,
            Some(cell) => {
                NEW_CELL_BYTES + Form::of(&self.json[cell.source.clone()]).length(&part.text)
            }
            None => NEW_CELL_BYTES + Form::of("[]").length(&part.text),
        })
    }

    /// Writes a cell of the file, with this text.
    fn write_old_cell(&self, json: &mut String, cell: &Cell, text: &str) {
        if cell.text == text {
            return json.push_str(&self.json[cell.whole.clone()]);
        }
        json.push_str(&self.json[cell.whole.start..cell.source.start]);
        Form::of(&self.json[cell.source.clone()]).write(json, text);
        json.push_str(&self.json[cell.source.end..cell.whole.end]);
    }

    fn write_new_cell(&self, json: &mut String, part: &Part<'_>) {
        let mut lines = vec![format!("   \"cell_type\": \"{}\"", part.kind)];
        if part.kind == "code" {
            lines.push("   \"execution_count\": null".into());
        }
        if self.cells.iter().any(|cell| cell.has_id) {
            let key = Server::random_key();
            let id: String = key
                .iter()
                .take(4)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            lines.push(format!("   \"id\": \"{id}\""));
        }
        lines.push("   \"metadata\": {}".into());
        if part.kind == "code" {
            lines.push("   \"outputs\": []".into());
        }
        json.push_str(&format!("{{\n{},\n   \"source\": ", lines.join(",\n")));
        Form::of("[]").write(json, &part.text);
        json.push_str("\n  }");
    }
}

impl Cell {
    fn shown(&self, number: usize) -> String {
        format!("{HEADING} [{number}] {}\n{}\n", self.kind, self.text)
    }
}

impl Output {
    fn text(self) -> String {
        let mut text = self.text.map(Lines::text).unwrap_or_default();
        if let Some(plain) = self.data.get("text/plain") {
            let plain = serde_json::from_value(plain.clone()).map(Lines::text);
            text.push_str(&plain.unwrap_or_default());
        }
        let mut other: Vec<_> = self
            .data
            .keys()
            .filter(|kind| *kind != "text/plain")
            .collect();
        other.sort();
        for kind in other {
            text.push_str(&format!("\n({kind})"));
        }
        if let Some(name) = self.ename {
            text.push_str(&format!("{name}: {}", self.evalue.unwrap_or_default()));
        }
        format!("{}\n", text.trim_matches('\n'))
    }
}

/// A cell in the edited text.
struct Part<'a> {
    number: Option<usize>,
    kind: &'a str,
    text: String,
}

fn parts(text: &str) -> ToolResult<Vec<Part<'_>>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(heading) = line.strip_prefix(HEADING) {
            let (number, kind) = heading_of(heading.trim()).ok_or_else(|| {
                ToolError::new(format!("`{}` is no heading of a cell", line.trim_end()))
                    .hint("write `# %% code` or `# %% markdown`")
            })?;
            parts.push(Part {
                number,
                kind,
                text: String::new(),
            });
        } else if let Some(part) = parts.last_mut() {
            part.text.push_str(line);
        } else if !line.trim().is_empty() {
            return Err(ToolError::new("the first cell has no heading")
                .hint("a cell begins with `# %% code` or `# %% markdown`"));
        }
    }
    for part in &mut parts {
        // The line end before the next heading does not belong to the cell.
        if part.text.ends_with('\n') {
            part.text.pop();
        }
    }
    Ok(parts)
}

/// Reads a heading: `[1] code`, `markdown`, `[markdown]`, or nothing for code.
fn heading_of(heading: &str) -> Option<(Option<usize>, &str)> {
    let known = |kind| {
        ["code", "markdown", "raw"]
            .into_iter()
            .find(|known| *known == kind)
    };
    if heading.is_empty() {
        return Some((None, "code"));
    }
    let Some((inside, rest)) = heading
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    else {
        return Some((None, known(heading)?));
    };
    match inside.parse() {
        Ok(number) => Some((Some(number), known(rest.trim())?)),
        Err(_) => Some((None, known(inside).filter(|_| rest.trim().is_empty())?)),
    }
}

/// The form of a text in the JSON: one string, or a list of lines with these blanks before each and after the last.
enum Form<'a> {
    String,
    Lines { front: &'a str, back: &'a str },
}

impl<'a> Form<'a> {
    /// Returns the form of the text that is there.
    fn of(before: &'a str) -> Self {
        if !before.starts_with('[') {
            return Self::String;
        }
        let inside = before.trim_start_matches('[').trim_end_matches(']');
        let first = inside.len() - inside.trim_start().len();
        match inside.trim().is_empty() {
            true => Self::Lines {
                front: "\n    ",
                back: "\n   ",
            },
            false => Self::Lines {
                front: inside.get(..first).unwrap_or_default(),
                back: &inside[inside.trim_end().len()..],
            },
        }
    }

    /// Returns how many bytes a text has in this form, at most.
    fn length(&self, text: &str) -> usize {
        let escaped = |byte: u8| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
            0..32 => 6,
            _ => 1,
        };
        let letters: usize = text.bytes().map(escaped).sum();
        let around = match self {
            Self::String => 0,
            Self::Lines { front, back } => {
                let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
                lines * (front.len() + "\"\",".len()) + back.len() + "[]".len()
            }
        };
        letters + around + "\"\"".len()
    }

    fn write(&self, json: &mut String, text: &str) {
        let string = |text: &str| serde_json::Value::from(text).to_string();
        let Self::Lines { front, back } = self else {
            return json.push_str(&string(text));
        };
        json.push('[');
        for (at, line) in text.split_inclusive('\n').enumerate() {
            if at > 0 {
                json.push(',');
            }
            json.push_str(front);
            json.push_str(&string(line));
        }
        if !text.is_empty() {
            json.push_str(back);
        }
        json.push(']');
    }
}

/// The most bytes that a new cell has besides its text.
const NEW_CELL_BYTES: usize = 256;

/// The beginning of the line above a cell.
const HEADING: &str = "# %%";

/// The most lines of a cell's output that are shown.
const OUTPUT_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "a1",
   "metadata": {},
   "source": [
    "# Title\n",
    "Größe"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "b2",
   "metadata": {"tags": ["x"]},
   "outputs": [
    {"name": "stdout", "output_type": "stream", "text": ["3\n", "4\n"]},
    {"output_type": "display_data", "data": {"image/png": "iVBOR", "text/plain": ["<Figure>"]}, "metadata": {}}
   ],
   "source": [
    "x = 1\n",
    "print(x + 2)"
   ]
  }
 ],
 "metadata": {"kernelspec": {"name": "python3"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

    fn notebook() -> Notebook {
        Notebook::read("a.ipynb".as_ref(), FILE.as_bytes()).unwrap()
    }

    fn write(text: &str) -> String {
        String::from_utf8(notebook().write(text, |_| Ok(())).unwrap()).unwrap()
    }

    #[test]
    fn it_is_shown_as_cells_with_what_they_put_out() {
        let expected = "# %% [1] markdown\n# Title\nGröße\n# %% [2] code\nx = 1\nprint(x + 2)\n\
            #> 3\n#> 4\n#> <Figure>\n#> (image/png)\n";
        assert_eq!(notebook().text_with_outputs(), expected);
        assert!(Notebook::read("a.json".as_ref(), FILE.as_bytes()).is_none());
        assert!(Notebook::read("a.ipynb".as_ref(), b"{}").is_none());
    }

    #[test]
    fn only_what_changes_is_written_anew() {
        let text = notebook().text();
        assert_eq!(write(&text), FILE);
        let edited = text.replace("x = 1\n", "x = \"ü\"\ny = 2\n");
        let expected = FILE.replace(
            "\"x = 1\\n\",\n",
            "\"x = \\\"ü\\\"\\n\",\n    \"y = 2\\n\",\n",
        );
        assert_eq!(write(&edited), expected);
    }

    #[test]
    fn cells_are_added_removed_and_moved() {
        let text = notebook().text();
        let added = write(&text.replace("# %% [2]", "# %% code\nnew = 1\n# %% [2]"));
        let read = Notebook::read("a.ipynb".as_ref(), added.as_bytes()).unwrap();
        let kinds: Vec<_> = read.cells.iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(kinds, ["# Title\nGröße", "new = 1", "x = 1\nprint(x + 2)"]);
        assert!(read.cells[1].has_id && added.contains("\"tags\": [\"x\"]"));
        let removed = write("# %% [2] code\nx = 1\nprint(x + 2)\n");
        let read = Notebook::read("a.ipynb".as_ref(), removed.as_bytes()).unwrap();
        assert_eq!(
            (read.cells.len(), read.cells[0].outputs.is_empty()),
            (1, false)
        );
    }

    #[test]
    fn what_is_no_cell_is_refused() {
        let text = notebook().text();
        for wrong in [
            text.replace("[2] code", "[3] code"),
            text.replace("[2] code", "[1] markdown"),
            text.replace("[2] code", "[2] markdown"),
            text.replace("[2] code", "[2] kode"),
            text.replace("# %% [1] markdown\n", ""),
        ] {
            assert!(notebook().write(&wrong, |_| Ok(())).is_err(), "{wrong}");
        }
    }
}
