//! Files that are edited as another text: other encodings as UTF-8, notebooks as their cells.

use lmcp_core::{ToolError, ToolResult};

use crate::{
    files::{
        charset::Foreign,
        notebook::{Notebook, is_called_so},
        target::Target,
    },
    memory::Memory,
};

/// How a file is shown and edited.
#[derive(Debug)]
pub(super) enum Shown {
    Foreign(Foreign),
    Notebook(Notebook),
}

impl Shown {
    /// Returns how the file is shown, with the text. `None` if the file itself is that text.
    pub(super) fn of(target: &Target<'_>, bytes: &[u8]) -> Option<(Self, String)> {
        if let Some(notebook) = Notebook::read(&target.name, bytes) {
            let text = notebook.text();
            return Some((Self::Notebook(notebook), text));
        }
        let (foreign, text) = Foreign::read(bytes)?;
        Some((Self::Foreign(foreign), text))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Foreign(foreign) => foreign.encoding.name(),
            Self::Notebook(_) => "a notebook",
        }
    }

    /// Returns the file with this text.
    ///
    /// # Errors
    /// The text cannot be written in this form. Nothing was written.
    pub(super) fn write(
        &self,
        text: &[u8],
        target: &Target<'_>,
        memory: &mut Memory,
    ) -> ToolResult<Vec<u8>> {
        let path = target.place().shown().display();
        let text = std::str::from_utf8(text)
            .map_err(|err| ToolError::new(format!("cannot write `{path}` so")).source(err))?;
        match self {
            Self::Notebook(notebook) => notebook.write(text, |bytes| memory.need(bytes)),
            Self::Foreign(foreign) => {
                // UTF-16 takes most bytes.
                memory.need(2 * text.len())?;
                foreign.write(text).map_err(|unknown| {
                    ToolError::new(format!(
                        "`{path}` is {}, which has no `{unknown}`; nothing was written",
                        foreign.encoding.name()
                    ))
                    .hint("use other characters, or convert the file to UTF-8 first")
                })
            }
        }
    }
}

/// Returns the memory for the edit of a file that is edited as another text: its text before and after, each longer
/// than the file, and the other facts about a notebook. 0 for most files.
pub(super) fn weight(target: &Target<'_>, bytes: &[u8]) -> usize {
    if is_called_so(&target.name) {
        return lmcp_core::weigh_json(bytes) + TIMES * bytes.len();
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => 0,
        Err(_) => TIMES * bytes.len(),
    }
}

/// The file before and after, and both texts, in the worst case.
const TIMES: usize = 6;
