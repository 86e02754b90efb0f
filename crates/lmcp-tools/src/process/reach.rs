//! Finds out what a confined command could not read, and which folder the operator can name with `--also-read` to let
//! it: the kernel says no more than "Permission denied".

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{fence, protocol::Fence};

/// The number of lines that are read at the end of a long output.
const LINES: usize = 200;
/// Names of folders of programs. The rest of a tool chain lies beside them.
const PROGRAMS: &[&str] = &["bin", "sbin", "shims", "libexec"];
/// Folders in a home that hold secrets, or the files of many programs. No hint names them.
const CLOSED: &[&str] = &[
    ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".ssh",
];
/// The most folders that one hint names.
const MOST: usize = 3;

/// Returns the folders of PATH that exist, and from which commands behind this fence cannot run anything.
pub(crate) fn path_outside(fence: &Fence) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in env::split_paths(&path) {
        if outside(fence, &folder).is_some() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// Returns a hint for a command behind this fence that ended with this code and this output, if the fence seems to have
/// been in its way. `path` is the command's PATH.
pub(super) fn hint(
    fence: &Fence,
    exit_code: Option<i32>,
    output: &str,
    path: &str,
) -> Option<String> {
    let is_about_it = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.contains("permission denied") || exit_code == Some(127) && line.contains("not found")
    };
    let lines = output.lines().rev().take(LINES).filter(is_about_it);
    let words = lines.flat_map(|line| line.split(|letter: char| !is_of_path(letter)));
    let named: BTreeSet<_> = words.filter(|word| !word.is_empty()).collect();
    let found = named.iter().flat_map(|word| places(word, path));
    let real: BTreeSet<_> = found.filter_map(|place| outside(fence, &place)).collect();
    let folders: BTreeSet<_> = real.iter().filter_map(|place| folder(place)).collect();
    let options: Vec<_> = folders
        .iter()
        .take(MOST)
        .map(|folder| format!("--also-read {}", folder.display()))
        .collect();
    match (real.first(), options.is_empty()) {
        (None, _) => None,
        (Some(place), true) => Some(format!(
            "{} is outside of what commands may read here",
            place.display()
        )),
        (Some(place), false) => Some(format!(
            "{} is outside of what commands may read here; the operator can start the server with {}",
            place.display(),
            options.join(" ")
        )),
    }
}

fn is_of_path(letter: char) -> bool {
    letter.is_alphanumeric() || "/._-+@~".contains(letter)
}

/// Returns the paths that a word of a message may mean: the word itself, or a program somewhere along PATH.
fn places(word: &str, path: &str) -> Vec<PathBuf> {
    if word.starts_with('/') {
        return vec![word.into()];
    }
    if word.contains('/') {
        return Vec::new();
    }
    let programs = env::split_paths(path).map(|folder| folder.join(word));
    programs.filter(|program| program.is_file()).collect()
}

/// Returns where a path really leads, if something is there that the fence keeps commands from.
fn outside(fence: &Fence, path: &Path) -> Option<PathBuf> {
    let real = can_be_seen(path).then(|| fs::canonicalize(path).ok())??;
    (can_be_seen(&real) && !fence::lets_read(fence, &real)).then_some(real)
}

/// Returns whether a confined command could see that the path exists. Such a command may look everywhere, but without
/// the powers of root. A hint must not tell it more than it can find out itself.
fn can_be_seen(path: &Path) -> bool {
    let lets_in =
        |found: fs::Metadata| lmcp_private::is_ours(found.uid()) || found.mode() & 0o001 != 0;
    let mut above = path.ancestors().skip(1);
    above.all(|folder| fs::metadata(folder).is_ok_and(lets_in))
}

/// Returns the folder to name: for a program its tool chain, for other files in a home the folder of the program they
/// belong to.
fn folder(real: &Path) -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|home| home.canonicalize().ok());
    let home = home.as_deref().filter(|home| *home != Path::new("/"));
    let found = fs::metadata(real).ok()?;
    let in_home = home.and_then(|home| real.strip_prefix(home).ok());
    if let Some(rest) = in_home {
        let first = rest.components().next()?.as_os_str();
        if CLOSED.iter().any(|closed| first == *closed) {
            return None;
        }
    }
    let is_program = found.is_file() && found.permissions().mode() & 0o111 != 0;
    if is_program {
        let folder = real.parent()?;
        let name = folder.file_name()?.to_str()?;
        let above = folder.parent().filter(|above| is_tool_chain(above, home));
        let chain = above.filter(|_| PROGRAMS.contains(&name));
        return Some(chain.unwrap_or(folder).to_owned());
    }
    let (home, rest) = (home?, in_home?);
    // The folder of one program: `.rustup`, `.local/share/pnpm`.
    let depth = if rest.starts_with(".local") { 3 } else { 1 };
    let own: PathBuf = rest.components().take(depth).collect();
    let own = home.join(own);
    let is_hidden = rest.to_str()?.starts_with('.');
    (is_hidden && own.is_dir() && own != home).then_some(own)
}

/// Returns whether a folder can be a tool chain: not a home, not `.local` in it, which holds the server's records, and
/// not the top.
fn is_tool_chain(folder: &Path, home: Option<&Path>) -> bool {
    let is_home = home.is_some_and(|home| home.starts_with(folder));
    !is_home && !folder.ends_with(".local") && folder.parent().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::protocol::Folder;

    #[test]
    fn a_tool_chain_outside_is_named_and_what_is_inside_is_not() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let (root, bin) = (top.join("root"), top.join("chain/bin"));
        fs::create_dir(&root).unwrap();
        fs::create_dir_all(&bin).unwrap();
        for program in [root.join("inside"), bin.join("tool")] {
            fs::write(&program, "").unwrap();
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let fence = Fence {
            scratch: None,
            write: vec![Folder::at(&root).unwrap()],
            read: Vec::new(),
        };
        let path = bin.to_str().unwrap();
        let wanted = format!("--also-read {}", top.join("chain").display());
        for (code, output) in [
            (126, format!("bash: line 1: {path}/tool: Permission denied")),
            (126, "sh: 1: tool: Permission denied".to_owned()),
            (127, "tool: command not found".to_owned()),
            (
                1,
                "PermissionError: [Errno 13] Permission denied: 'tool'".to_owned(),
            ),
        ] {
            let hint = hint(&fence, Some(code), &output, path).unwrap();
            assert!(hint.ends_with(&wanted), "{output}: {hint}");
        }
        for (code, output) in [
            (126, format!("{}/inside: Permission denied", root.display())),
            (126, "/usr/bin/env: Permission denied".to_owned()),
            (127, "no-such-program: command not found".to_owned()),
            (1, format!("{path}/tool: not found")),
            (0, format!("{path}/tool is fine")),
        ] {
            assert_eq!(hint(&fence, Some(code), &output, path), None, "{output}");
        }
    }

    #[test]
    fn nobody_is_told_to_open_what_holds_secrets() {
        let top = tempfile::tempdir().unwrap();
        let fence = Fence {
            scratch: None,
            write: vec![Folder::at(top.path()).unwrap()],
            read: Vec::new(),
        };
        let output = "cat: /etc/shadow: Permission denied";
        let hint = hint(&fence, Some(1), output, "").unwrap();
        assert!(
            hint.contains("/etc/shadow") && !hint.contains("--also-read"),
            "{hint}"
        );
    }
}
