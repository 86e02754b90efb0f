//! Arguments and lines that are too long for a command line. The kernel takes arguments of up to 128 KiB. A longer line for
//! a shell goes into a file without a name, from which the shell reads it. A longer argument of a program cannot be passed
//! at all, and is refused.
//!
//! The line then runs as it would behind `-c`: `$0`, standard input, `set -e`, line numbers and exit codes are the same. Two
//! things differ. With `-c` the shell becomes its last command; here the shell stays until the end, so a signal that ends
//! that command is reported as 128 plus its number. And `set -x` prints one more `+`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek as _, Write as _},
    os::fd::AsRawFd as _,
    path::Path,
};

use lmcp_core::{ToolError, ToolResult};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Resource, getrlimit},
};

use super::protocol::Order;

/// Shells that read a file themselves.
const READ: &[&str] = &["bash", "zsh", "ksh", "ksh93", "mksh"];
/// Shells that need a program to read a file.
const CAT: &[&str] = &["sh", "dash", "ash", "yash", "posh"];

/// Returns whether the line is too long to be an argument of its shell.
pub(super) fn is_long_line(order: &Order) -> bool {
    let line = order.argv.last().filter(|_| order.is_line);
    line.is_some_and(|line| line.len() > LONGEST)
}

/// Checks that the kernel will take the command.
///
/// # Errors
/// An argument is too long, or all of them are together, and the line cannot go into a file.
pub(super) fn check(
    argv: &[String],
    is_line: bool,
    env: &BTreeMap<String, String>,
) -> ToolResult<()> {
    check_each(argv, is_line)?;
    let (bytes, most) = (together(argv, env), most_together());
    if bytes > most {
        let words = format!(
            "the arguments and variables have {bytes} bytes together, and the kernel takes at most {most}"
        );
        return Err(ToolError::new(words).hint("give them as `stdin`, or write them to a file"));
    }
    Ok(())
}

/// Returns how many bytes an order takes on its way to the guard, beside itself: a copy of the words and variables, one
/// merged with those of the server, and one as JSON. Returns 0 where these are few. A line that is too long for a command
/// line is not copied.
pub(super) fn copied_bytes(order: &Order) -> usize {
    let bytes = together(&order.argv, &order.env);
    if bytes <= FEW {
        return 0;
    }
    // In JSON a control character takes six bytes.
    let texts = order.argv.iter().filter(|word| word.len() <= LONGEST);
    let texts = texts.chain(order.env.values());
    let control = |text: &String| text.bytes().filter(u8::is_ascii_control).count();
    3 * bytes + 5 * texts.map(control).sum::<usize>()
}

/// Returns the number of bytes that the kernel copies. A line that goes into a file does not count.
fn together(argv: &[String], env: &BTreeMap<String, String>) -> usize {
    let words = argv.iter().map(String::len);
    let words = words.filter(|length| *length <= LONGEST);
    let variables = env.iter().map(|(name, value)| name.len() + 1 + value.len());
    words.chain(variables).map(|length| length + POINTER).sum()
}

/// Returns the kernel's limit: a quarter of the stack, and never more than three quarters of its usual stack.
fn most_together() -> usize {
    let stack = getrlimit(Resource::Stack).current;
    let quarter = stack.and_then(|stack| usize::try_from(stack / 4).ok());
    quarter.map_or(MOST_TOGETHER, |quarter| {
        quarter.clamp(LONGEST, MOST_TOGETHER)
    })
}

fn check_each(argv: &[String], is_line: bool) -> ToolResult<()> {
    let Some(at) = argv.iter().position(|word| word.len() > LONGEST) else {
        return Ok(());
    };
    let bytes = argv.get(at).map_or(0, String::len);
    let shell = argv.first().map_or("", String::as_str);
    let most = LONGEST;
    if !is_line {
        let words = format!("argument {at} has {bytes} bytes, and the kernel takes at most {most}");
        return Err(ToolError::new(words).hint("give it as `stdin`, or write it to a file"));
    }
    if read_words(shell).is_none() {
        let words = format!("the command has {bytes} bytes, and `{shell}` is given at most {most}");
        return Err(ToolError::new(words).hint("write it to a file, and run that"));
    }
    Ok(())
}

/// Returns a short line that makes this shell run the long one, and the file with the long line, which must be open when the
/// shell starts.
pub(super) fn short_form(shell: &str, line: &str) -> io::Result<(String, File)> {
    let words = read_words(shell).ok_or(io::ErrorKind::ArgumentListTooLong)?;
    // The close-on-exec flag is left out: the shell inherits this file.
    let mut file = File::from(memfd_create("command", MemfdFlags::empty())?);
    file.write_all(line.as_bytes())?;
    if line.ends_with('\n') {
        // A shell drops line ends at the end of the text that it reads, and the meaning of a line may depend on them. This
        // comment keeps them.
        file.write_all(b"\n#")?;
    }
    file.rewind()?;
    let number = file.as_raw_fd();
    if number > 9 {
        return Err(io::Error::other("a shell knows only nine open files"));
    }
    let read = words.replace('N', &number.to_string());
    // The commands that the line starts do not inherit the file.
    Ok((format!("eval \"$({read})\" {number}<&-"), file))
}

/// Returns how a shell reads the open file `N`.
fn read_words(shell: &str) -> Option<&'static str> {
    let name = Path::new(shell).file_name()?.to_str()?;
    if READ.contains(&name) {
        Some("</proc/self/fd/N")
    } else if CAT.contains(&name) {
        Some("command -p cat <&N")
    } else {
        None
    }
}

/// Longest argument, in bytes: 32 pages with the NUL at its end, of the smallest pages that Linux has. A variable counts as
/// an argument.
pub(super) const LONGEST: usize = 32 * 4096 - 1;
/// Most bytes of all arguments and variables together.
const MOST_TOGETHER: usize = 6 * 1024 * 1024;
/// The bytes that each argument takes beside its text: a NUL and a pointer.
const POINTER: usize = 9;
/// Up to this many bytes, no memory is reserved.
const FEW: usize = 64 * 1024;
