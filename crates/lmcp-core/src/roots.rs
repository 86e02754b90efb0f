//! The folders a client works in: does a path lie in one of them?

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use lmcp_wire::roots::Root;

use crate::resource::template::unescape;

/// Does a path lie in one of these folders? Decided on what the paths really are, not on how they are written: links
/// are followed, `..` is resolved and names are compared whole. What does not exist yet is judged by the folder it
/// would be in. A root that is no local folder covers nothing.
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
/// The path cannot be looked at.
pub fn covers(roots: &[Root], path: &Path) -> io::Result<bool> {
    let path = real(path)?;
    let mut folders = roots.iter().filter_map(|root| folder(&root.uri));
    Ok(folders.any(|folder| path.starts_with(folder)))
}

/// The folder that a `file:` URI names, as it really is.
pub(crate) fn folder(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = PathBuf::from(unescape(path)?);
    path.is_absolute().then(|| path.canonicalize().ok())?
}

/// The path without links and dots; the part of it that does not exist must have none.
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
                // A link to nowhere leads somewhere else.
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
