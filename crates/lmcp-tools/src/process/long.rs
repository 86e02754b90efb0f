//! What is too long for a command line. The kernel takes arguments of 128 KiB; a longer line for a shell goes into a file
//! without a name, from which the shell reads it. A longer argument of a program cannot be passed at all, and is refused.
//!
//! The line then runs as it would behind `-c`: `$0`, standard input, `set -e`, line numbers and exit codes are the same. Two
//! things differ. The shell stays until the end, where it would have become its last command, so a signal that ends that
//! command is told as 128 and its number. And `set -x` has one more `+`.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    os::fd::AsRawFd as _,
    path::Path,
};

use lmcp_core::{ToolError, ToolResult};
use rustix::fs::{MemfdFlags, memfd_create};

use super::protocol::Order;

/// Shells that read a file themselves.
const READ: &[&str] = &["bash", "zsh", "ksh", "ksh93", "mksh"];
/// Shells that need a program for it.
const CAT: &[&str] = &["sh", "dash", "ash", "yash", "posh"];

/// Is the line too long to be an argument of its shell?
pub(super) fn is_long_line(order: &Order) -> bool {
    let line = order.argv.last().filter(|_| order.is_line);
    line.is_some_and(|line| line.len() > LONGEST)
}

/// Makes sure that the kernel will take it.
///
/// # Errors
/// An argument is too long, and nothing can be done about it here.
pub(super) fn check(argv: &[String], is_line: bool) -> ToolResult<()> {
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

/// A line that makes this shell run the long one, and the file with that, which must be open when the shell starts.
pub(super) fn short_form(shell: &str, line: &str) -> io::Result<(String, File)> {
    let words = read_words(shell).ok_or(io::ErrorKind::ArgumentListTooLong)?;
    // Without the flag that would close it: the shell inherits it.
    let mut file = File::from(memfd_create("command", MemfdFlags::empty())?);
    file.write_all(line.as_bytes())?;
    if line.ends_with('\n') {
        // A shell drops line ends at the end of what it reads, and a line may depend on its own. This comment keeps it.
        file.write_all(b"\n#")?;
    }
    file.rewind()?;
    let number = file.as_raw_fd();
    if number > 9 {
        return Err(io::Error::other("a shell knows only nine open files"));
    }
    let read = words.replace('N', &number.to_string());
    // What the line starts does not find the file open.
    Ok((format!("eval \"$({read})\" {number}<&-"), file))
}

/// How a shell reads the open file `N`.
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

/// Longest argument, in bytes: 32 pages with the NUL at its end, of the smallest pages that Linux has.
const LONGEST: usize = 32 * 4096 - 1;
