//! Output as a person would see it: without escape sequences, and with only the last state of a line that was overwritten.
//! The record keeps every byte; only the shown text is changed.

use std::{iter::Peekable, str::Chars};

/// A longer move to the right means "to the end of the row", and there are no rows here.
const MOST_GAP: usize = 500;

/// Returns text that was written to pipes. Line ends stay as they are.
pub(super) fn text(bytes: &[u8]) -> String {
    clean(bytes, Ends::Kept)
}

/// Returns text that was written to a terminal, which makes `\r\n` of every `\n`.
pub(super) fn terminal_text(bytes: &[u8]) -> String {
    clean(bytes, Ends::Plain)
}

/// Returns whether the bytes are shown as they are.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    !bytes
        .iter()
        .any(|byte| matches!(byte, 7 | 8 | b'\r' | 0x1b))
}

#[derive(Clone, Copy)]
enum Ends {
    Kept,
    Plain,
}

fn clean(bytes: &[u8], ends: Ends) -> String {
    // Bytes that are no text are shown as U+FFFD.
    let text = String::from_utf8_lossy(bytes);
    if is_plain(bytes) {
        return text.into_owned();
    }
    let mut letters = text.chars().peekable();
    let (mut line, mut shown) = (Line::default(), String::with_capacity(text.len()));
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => line.end(&mut shown, "\n"),
            '\r' if letters.peek() == Some(&'\n') => match ends {
                Ends::Plain => {}
                Ends::Kept => {
                    letters.next();
                    line.end(&mut shown, "\r\n");
                }
            },
            '\r' => line.at = 0,
            '\u{8}' => line.at = line.at.saturating_sub(1),
            '\u{7}' => {}
            '\u{1b}' => line.escape(&mut letters),
            letter => line.put(letter),
        }
    }
    line.end(&mut shown, "");
    shown
}

/// The line that is being written.
#[derive(Default)]
struct Line {
    letters: Vec<char>,
    /// The position of the next letter.
    at: usize,
}

impl Line {
    fn put(&mut self, letter: char) {
        if self.at > self.letters.len() {
            self.letters.resize(self.at, ' ');
        }
        match self.letters.get_mut(self.at) {
            Some(there) => *there = letter,
            None => self.letters.push(letter),
        }
        self.at += 1;
    }

    fn end(&mut self, shown: &mut String, end: &str) {
        shown.extend(self.letters.drain(..));
        shown.push_str(end);
        self.at = 0;
    }

    /// Handles the letters after ESC.
    fn escape(&mut self, letters: &mut Peekable<Chars<'_>>) {
        match letters.next() {
            Some('[') => self.control(letters),
            // A title, a link and the like end with BEL, or with ESC and `\`.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(letter) = letters.next() {
                    if letter == '\u{7}' {
                        break;
                    }
                    if letter == '\u{1b}' {
                        letters.next();
                        break;
                    }
                }
            }
            // A set of characters: one more letter says which.
            Some('(' | ')' | '*' | '+' | '-' | '.' | '/' | '#' | '%' | ' ') => {
                letters.next();
            }
            _ => {}
        }
    }

    /// Handles the letters after ESC and `[`: numbers, then a letter that names the action. Only actions within a line are
    /// done.
    fn control(&mut self, letters: &mut Peekable<Chars<'_>>) {
        let mut numbers = String::new();
        while let Some(letter) = letters.next_if(|letter| matches!(letter, ' '..='?')) {
            numbers.push(letter);
        }
        let Some(action) = letters.next_if(|letter| matches!(letter, '@'..='~')) else {
            return;
        };
        let number: Option<usize> = numbers.split(';').next().and_then(|it| it.parse().ok());
        let count = number.unwrap_or(1).max(1);
        match (action, number.unwrap_or(0)) {
            ('K', 0) => self.letters.truncate(self.at),
            ('K', 1) => {
                let end = self.letters.len().min(self.at);
                self.letters.iter_mut().take(end).for_each(|it| *it = ' ');
            }
            ('K', 2) => self.letters.clear(),
            ('G', _) if count <= MOST_GAP => self.at = count - 1,
            ('C', _) if count <= MOST_GAP => {
                self.at = (self.at + count).min(self.letters.len() + MOST_GAP);
            }
            ('D', _) => self.at = self.at.saturating_sub(count),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_left_out_and_lines_show_their_last_state() {
        for (bytes, shown) in [
            ("plain\ntext", "plain\ntext"),
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            (
                "\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link",
                "alink",
            ),
            ("\u{1b}(Bx\u{1b}=y", "xy"),
            (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
            ("100%\r", "100%"),
            ("long line\rshort\u{1b}[K\n", "short\n"),
            ("abc\rX\n", "Xbc\n"),
            ("over\u{8}\u{8}\u{8}\u{8}1234\n", "1234\n"),
            ("a\r\nb\r\n", "a\r\nb\r\n"),
            ("\u{1b}[2K\u{1b}[1Gfresh", "fresh"),
            ("a\u{1b}[3Cb", "a   b"),
            ("\u{1b}[9999999999Cfar", "far"),
            ("a\u{1b}[", "a"),
            ("bell\u{7}", "bell"),
            ("a\0b\t|", "a\0b\t|"),
        ] {
            assert_eq!(text(bytes.as_bytes()), shown, "{bytes:?}");
        }
        assert_eq!(text(b"\xff\x1b[1m"), "\u{fffd}");
    }

    #[test]
    fn of_a_terminal_line_ends_are_plain() {
        assert_eq!(terminal_text(b"a\r\nb\r\r\n\x1b[1mc\r\n"), "a\nb\nc\n");
    }
}
