//! How the end of a command is reported: signals by name, and which exit codes are failures.

/// Names of signals, by number, as Linux has them.
const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// Programs whose exit code 1 is an answer: no match, a difference, not true.
const ANSWERS: &[&str] = &[
    "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "pgrep", "diff", "cmp", "comm", "test",
    "[", "[[", "which", "expr",
];

/// Returns the name of a signal: `SIGTERM` for 15.
pub(crate) fn signal_name(number: i32) -> String {
    let named = SIGNALS.iter().find(|(_, known)| *known == number);
    named.map_or_else(|| format!("SIG{number}"), |(name, _)| format!("SIG{name}"))
}

/// Returns the number of a signal: 15 for `TERM`, `SIGTERM`, `term` or `15`.
pub(crate) fn signal_number(name: &str) -> Option<i32> {
    let upper = name.trim().to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = SIGNALS
        .iter()
        .find(|(known, _)| *known == bare)
        .map(|(_, number)| *number);
    by_name.or_else(|| {
        let number = bare.parse().ok()?;
        SIGNALS
            .iter()
            .any(|(_, known)| *known == number)
            .then_some(number)
    })
}

/// Returns whether this exit is a failure of the command.
pub(crate) fn is_failure(command: &str, exit_code: Option<i32>) -> bool {
    match exit_code {
        Some(0) => false,
        Some(1) => !answers(command),
        Some(_) | None => true,
    }
}

/// Returns whether the last command of a line answers with its exit code.
fn answers(line: &str) -> bool {
    let mut words = last_command(line).split_whitespace().skip_while(|word| {
        // Assignments, negation and brackets may stand before a command.
        *word == "!" || *word == "(" || *word == "{" || word.contains('=') && !word.starts_with('[')
    });
    let program = words.next().unwrap_or_default().trim_start_matches('(');
    let name = program.rsplit('/').next().unwrap_or_default();
    let git_diff = name == "git" && matches!(words.next(), Some("diff" | "grep"));
    git_diff || ANSWERS.contains(&name)
}

/// Returns the part of a line after the last separator of commands that is not in quotes.
fn last_command(line: &str) -> &str {
    let (mut quote, mut start, mut previous) = (None, 0, 0);
    let mut letters = line.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => drop(letters.next()),
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('\n' | ';' | '|' | '&', None) => (previous, start) = (start, at + 1),
            _ => {}
        }
    }
    let last = line.get(start..).unwrap_or_default();
    if last.trim().is_empty() {
        // The line ends with a separator: `grep x;`.
        line.get(previous..start.saturating_sub(1))
            .unwrap_or_default()
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_an_answer_of_some_commands() {
        for line in [
            "grep x file",
            "cat a | grep -c x",
            "LC_ALL=C /usr/bin/diff a b",
            "cd /tmp && test -f x",
            "[ -f x ]",
            "git diff --exit-code",
            "(grep x file)",
            "grep -E 'a|b' file",
            "grep \"a;b\" file;",
        ] {
            assert!(!is_failure(line, Some(1)), "{line}");
            assert!(is_failure(line, Some(2)), "{line}");
        }
        for line in ["ls missing", "grep x file | sort --bad", "git status", ""] {
            assert!(is_failure(line, Some(1)), "{line}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(40), "SIG40");
        for name in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(signal_number(name), Some(15), "{name}");
        }
        assert_eq!(signal_number("0"), None);
        assert_eq!(signal_number("nonsense"), None);
    }
}
