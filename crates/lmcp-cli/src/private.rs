//! Files of the operator. A file with a secret must be readable by its owner alone, otherwise it is not secret.

use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::{OFlags, fcntl_setfl};

use crate::report::Failure;

/// More bytes than anybody writes by hand.
const MOST: u64 = 1 << 20;

/// Returns the text of a file that only its owner can read.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let (file, text) = open(path)?;
    expect(&file, path, "a secret")?;
    Ok(text)
}

/// Opens a file of options, and returns its text. The file must be trusted, because its author decides what the server does.
pub(crate) fn open_trusted(path: &Path) -> Result<(File, String), Failure> {
    let (file, text) = open(path)?;
    lmcp_private::expect_trusted(&file, path)
        .map_err(|err| Failure::cannot(&format!("trust {}", path.display()), err))?;
    Ok((file, text))
}

fn open(path: &Path) -> Result<(File, String), Failure> {
    let failed = |err| Failure::cannot(&format!("read {}", path.display()), err);
    // A named pipe is not a file, and must not block us until somebody writes to it.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(failed)?;
    if file.metadata().map_err(failed)?.file_type().is_fifo() {
        if !is_descriptor(path) {
            let words = format!("{} is a pipe, and was to be a file", path.display());
            return Err(Failure::misuse(words));
        }
        fcntl_setfl(&file, OFlags::empty()).map_err(|err| failed(err.into()))?;
    }
    let mut text = String::new();
    let read = (&file).take(MOST + 1).read_to_string(&mut text);
    if read.map_err(failed)? as u64 > MOST {
        let words = format!("{} has more than {MOST} bytes", path.display());
        return Err(Failure::misuse(words));
    }
    Ok((file, text))
}

/// Returns whether the path is a pipe that the program before us opened, as a shell does for `<(command)`.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd", "/dev/stdin"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

/// Refuses a file that others can read, change or replace. `what` names what it holds.
pub(crate) fn expect(file: &File, path: &Path, what: &str) -> Result<(), Failure> {
    let shown = path.display();
    lmcp_private::expect_safe(path)
        .map_err(|err| Failure::cannot(&format!("trust {shown}"), err))?;
    let metadata = file.metadata();
    let metadata = metadata.map_err(|err| Failure::cannot(&format!("read {shown}"), err))?;
    if metadata.mode() & 0o077 == 0 {
        // The owner of the file can write another secret into it, so the owner must be this user or root.
        return lmcp_private::expect_secret(file)
            .map_err(|err| Failure::cannot(&format!("trust {shown}"), err));
    }
    let words = format!("{shown} holds {what} and is not for its owner alone");
    Err(Failure::misuse(words).hint(format!("chmod 600 {shown}")))
}
