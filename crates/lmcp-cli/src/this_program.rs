//! The path of this program.

use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

/// The text that Linux adds to the path of a program whose file was replaced while it ran.
const REPLACED: &[u8] = b" (deleted)";

/// Returns the file of this program. If another version replaced it, returns the file of that version.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    let path = env::current_exe()?;
    if path.exists() {
        return Ok(path);
    }
    let bytes = path.into_os_string().into_vec();
    let bytes = bytes.strip_suffix(REPLACED).unwrap_or(&bytes);
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}
