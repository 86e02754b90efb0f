//! The text of a result: the content of each file, and a line about it.

use super::{FileRead, Next};

/// Returns the files as people and models read them.
pub(super) fn text(files: &[FileRead]) -> String {
    let content_bytes = |file: &FileRead| file.content.as_ref().map_or(0, String::len);
    let mut text = String::with_capacity(files.iter().map(|file| content_bytes(file) + 200).sum());
    for file in files {
        if files.len() > 1 && file.content.is_some() {
            text.push_str(&format!("==> {} <==\n", file.path));
        }
        let content = file.content.as_deref();
        if let Some(content) = content {
            text.push_str(content);
            if !content.is_empty() && !content.ends_with('\n') {
                text.push('\n');
            }
        }
        let facts = facts(file).join(", ");
        match content {
            Some(_) => text.push_str(&format!("[{facts}]\n")),
            None => text.push_str(&format!("{}: {facts}\n", file.path)),
        }
    }
    text
}

fn facts(file: &FileRead) -> Vec<String> {
    if let Some(error) = &file.error {
        return vec![error.clone()];
    }
    let mut facts = Vec::with_capacity(6);
    facts.extend(part(file).filter(|_| !is_whole(file)));
    match file.next {
        Some(Next::Offset(line)) => facts.push(format!("next offset={line}")),
        Some(Next::ByteOffset(byte)) => facts.push(format!("next byte_offset={byte}")),
        None => {}
    }
    // Usual properties are not mentioned.
    if let Some(encoding) = file.encoding
        && encoding != crate::files::text::Encoding::Utf8
    {
        facts.push(encoding.name().into());
    }
    if file.bom == Some(true) {
        facts.push("bom".into());
    }
    if let Some(endings) = file.line_endings
        && !matches!(endings.name(), "lf" | "no line endings")
    {
        facts.push(endings.name().into());
    }
    if ends_open(file) {
        facts.push("no newline at the end".into());
    }
    facts.extend(file.hash.as_ref().map(|hash| format!("hash {hash}")));
    facts.extend(file.note.clone());
    if facts.is_empty() {
        facts.push("the whole file".into());
    }
    facts
}

/// Returns whether the whole text is here, which is not mentioned either.
fn is_whole(file: &FileRead) -> bool {
    let is_text = file.content.is_some() && file.mime_type.is_none();
    let begins = file.first_line.or(file.byte_start.map(|byte| byte + 1)) == Some(1);
    let ends = match file.total_lines {
        Some(total) => file.last_line.unwrap_or(total) == total,
        None => file.byte_end == file.size_bytes,
    };
    let is_empty = file.size_bytes == Some(0);
    is_text && begins && ends && file.next.is_none() && !is_empty
}

/// Returns whether the file ends here in a line without a newline. The footer would hide that.
fn ends_open(file: &FileRead) -> bool {
    let is_end = file.next.is_none() && file.byte_end.is_some() && file.byte_end == file.size_bytes;
    let content = file.content.as_deref().unwrap_or_default();
    is_end && file.encoding.is_some() && !content.is_empty() && !content.ends_with('\n')
}

/// Returns which part of the file this is, in words.
fn part(file: &FileRead) -> Option<String> {
    let size = file.size_bytes?;
    if let Some(mime_type) = &file.mime_type {
        return Some(format!("{mime_type}, {size} bytes"));
    }
    if size == 0 {
        return Some("empty file".into());
    }
    let total = file.total_lines.map(|total| format!(" of {total}"));
    if let (Some(first), Some(last)) = (file.first_line, file.last_line) {
        let total = total.unwrap_or_else(|| format!(", {size} bytes in all"));
        return Some(format!("lines {first}-{last}{total}"));
    }
    let (start, end) = (file.byte_start?, file.byte_end?);
    let lines = file
        .total_lines
        .map(|lines| format!(", {lines} lines in all"));
    Some(format!(
        "bytes {start}-{end} of {size}{}",
        lines.unwrap_or_default()
    ))
}
