//! The folders that a client works in, and whether a path lies in one of them.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use lmcp_wire::roots::Root;

use crate::resource::template::unescape;

/// Returns whether a path lies in one of these folders. The real paths are compared: links are followed, `..` is resolved, and
/// names must be equal as a whole. For a path that does not exist yet, the folder that it would be in decides. A root that is
/// no local folder covers nothing.
///
/// ```
/// # use lmcp::{Cx, ToolError, ToolResult, roots};
/// async fn check(path: &std::path::Path, cx: &Cx) -> ToolResult<()> {
///     let folders = cx.roots().await?;
///     if roots::covers(&folders, path)? { Ok(()) } else { Err(ToolError::new("outside of your folders")) }
/// }
/// ```
///
/// # Errors
/// The path cannot be resolved.
pub fn covers(roots: &[Root], path: &Path) -> io::Result<bool> {
    let path = real(path)?;
    let mut folders = roots.iter().filter_map(|root| folder(&root.uri));
    Ok(folders.any(|folder| path.starts_with(folder)))
}

/// Returns the real path of the folder that a `file:` URI names.
pub(crate) fn folder(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = PathBuf::from(unescape(path)?);
    path.is_absolute().then(|| path.canonicalize().ok())?
}

/// Resolves links and dots. A part of the path that does not exist must have none.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(mut real) => {
                real.extend(missing.into_iter().rev());
                return Ok(real);
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                // A broken link names another path, so its own name says nothing.
                if there.is_symlink() {
                    return Err(err);
                }
                let Some(Component::Normal(name)) = there.components().next_back() else {
                    return Err(err);
                };
                missing.push(name);
                there = match there.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                    Some(parent) => parent,
                    None => return Err(err),
                };
            }
            Err(err) => return Err(err),
        }
    }
}
