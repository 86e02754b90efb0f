//! The progress line: shows the progress of a call on the terminal.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    sync::atomic::{AtomicBool, Ordering},
};

use lmcp::wire::progress::ProgressParams;

use super::show::visible;

/// Whether the line is shown.
static SHOWN: AtomicBool = AtomicBool::new(false);
/// The number of characters in the bar.
const WIDTH: usize = 24;
/// The number of characters in the text beside it.
const WORDS: usize = 48;

/// Writes the line again.
#[expect(clippy::needless_pass_by_value, reason = "it is passed as a function")]
pub(super) fn show(progress: ProgressParams) {
    if stderr().is_terminal() {
        SHOWN.store(true, Ordering::Relaxed);
        write(&line(&progress));
    }
}

/// Removes the line, before something else is written.
pub(super) fn clear() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        write("");
    }
}

fn write(line: &str) {
    // Nobody has to read the line, so a failed write does not matter.
    let _ = stderr().write_all(format!("\r\x1b[K{line}").as_bytes());
}

fn line(progress: &ProgressParams) -> String {
    let words = visible(progress.message.as_deref().unwrap_or_default());
    let words: String = words
        .chars()
        .map(|char| if char == '\n' { ' ' } else { char })
        .take(WORDS)
        .collect();
    let done = progress.progress;
    let line = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let part = (done / total).clamp(0.0, 1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is between 0 and WIDTH"
            )]
            let full = (part * WIDTH as f64) as usize;
            let bar = format!("{}{}", "#".repeat(full), " ".repeat(WIDTH - full));
            format!("[{bar}] {:3.0} % {words}", part * 100.0)
        }
        None => format!("[{done}] {words}"),
    };
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use lmcp::wire::progress::ProgressToken;

    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_work_is_done() {
        let mut progress = ProgressParams::new(ProgressToken::Number(1.into()), 3.0);
        assert_eq!(line(&progress), "[3]");
        progress.total = Some(4.0);
        progress.message = Some("copying\nfiles".into());
        assert_eq!(
            line(&progress),
            "[##################      ]  75 % copying files"
        );
        progress.progress = 9.0;
        assert!(line(&progress).contains("100 %"));
        progress.total = Some(0.0);
        assert_eq!(line(&progress), "[9] copying files");
    }
}
