//! The texts that are sent to a shell: quoted words, and bytes as text.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The form in which bytes are written for a host, by the programs that it has to decode them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Base64,
    /// Escapes that the shell's own `printf` knows: five characters for each byte.
    Octal,
}

/// Quotes any characters as one word of a shell.
pub(super) fn word(text: &str) -> String {
    // Inside single quotes, only the quote that ends them is special.
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text as one word of any shell of POSIX.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A call of a function with these words.
pub(super) fn line<'a>(function: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let mut line = function.to_owned();
    for text in words {
        line.push(' ');
        line.push_str(&word(text));
    }
    line.push('\n');
    line
}

/// Encodes bytes, as lines of letters, digits and signs without a meaning for a shell.
pub(super) fn encoded(bytes: &[u8], coding: Coding) -> String {
    match coding {
        Coding::Base64 => {
            let text = STANDARD.encode(bytes);
            let mut lines = String::with_capacity(text.len() + text.len() / LINE + 1);
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (line, after) = rest.split_at(rest.len().min(LINE));
                lines.push_str(line);
                lines.push('\n');
                rest = after;
            }
            lines
        }
        Coding::Octal => {
            let mut lines = String::with_capacity(bytes.len() * 5 + bytes.len() / LINE + 1);
            for chunk in bytes.chunks(LINE) {
                for byte in chunk {
                    lines.push_str(&format!("\\0{byte:03o}"));
                }
                lines.push('\n');
            }
            lines
        }
    }
}

/// The number of base64 characters in a line that every decoder accepts, and the number of bytes in a line of escapes.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_itself_whatever_is_in_it() {
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("it's $HOME `x`"), r"'it'\''s $HOME `x`'");
        assert_eq!(line("f", ["-n", "\n"]), "f '-n' '\n'\n");
    }

    #[test]
    fn bytes_are_lines_without_quotes() {
        assert_eq!(encoded(b"hi", Coding::Base64), "aGk=\n");
        assert_eq!(encoded(b"h\0\xff", Coding::Octal), "\\0150\\0000\\0377\n");
        let long = encoded(&[7; 100], Coding::Base64);
        assert!(long.lines().all(|line| line.len() <= LINE));
    }
}
