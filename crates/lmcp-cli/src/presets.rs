//! The presets of `lmcp run`: built-in ones, those of the user's file, and those of `--config`.

use std::{env, path::PathBuf};

use lmcp_wiring::Presets;
use serde::Deserialize;

use crate::{options, private, report::Failure};

/// A file that holds only presets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    presets: Presets,
}

/// Returns all presets: these replace those of the user's file, which replace the built-in ones.
pub(crate) fn over_all(these: Presets) -> Result<Presets, Failure> {
    Ok(Presets::built_in().under(of_the_user()?).under(these))
}

/// Returns the presets of the file in the usual place, if the file exists.
fn of_the_user() -> Result<Presets, Failure> {
    let Some(path) = usual_file().filter(|path| path.exists()) else {
        return Ok(Presets::default());
    };
    let (_, text) = private::open_trusted(&path)?;
    let file: File = options::parse_file(&text, &path)?;
    Ok(file.presets)
}

/// Returns the path of `presets.toml` in our folder of the user's configuration.
fn usual_file() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_CONFIG_HOME");
    let folder = folder.or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(folder?.join("lmcp/presets.toml"))
}
