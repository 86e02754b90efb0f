//! Starts agents such as Claude Code so that they find an MCP server: with words on their command line, variables, and files made for
//! one start. The user's own files are read, and never written.
//!
//! A [`Preset`] says how an agent takes a server. [`plan`] decides what to do, and touches nothing. [`Wiring::make`] writes the files of the
//! plan, and removes them when its value is dropped. Your program starts the agent.
//!
//! ```no_run
//! use lmcp::wiring::{Entry, Presets, User, plan};
//!
//! # fn demo(credentials: &str, scratch: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let argv = ["claude", "tidy up"].map(std::ffi::OsString::from);
//! let entry = Entry::new("deck", "/usr/bin/lmcp").args(["proxy", "--identity-file", credentials]);
//! let presets = Presets::built_in();
//! let (preset, _note) = presets.choose(None, &argv[0])?;
//! let wiring = plan(&preset, &argv, &entry, &User::of_this_process(), scratch)?;
//! let _made = wiring.make()?;
//! let mut command = std::process::Command::new(&wiring.argv[0]);
//! command.args(&wiring.argv[1..]).envs(&wiring.env);
//! # Ok(())
//! # }
//! ```

mod error;
mod json;
mod kinds;
mod merge;
mod preset;
mod preset_toml;
mod presets;
mod scratch;
mod template;
#[cfg(test)]
mod tests;
mod toml_text;

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

pub use error::Error;
pub use preset::Preset;
pub use presets::Presets;
pub use scratch::Made;

use preset::Kind;

/// The server that the agent is to find.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name of the server in the agent's configuration.
    pub name: String,
    /// The program that the agent starts: an absolute path.
    pub command: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The variables of the program. The agent gets them, too, because a command that the agent runs in a shell should find the same server.
    pub env: BTreeMap<String, String>,
}

impl Entry {
    /// Makes an entry for a server of this name, which this command starts.
    pub fn new(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
        }
    }

    /// Adds arguments of the command.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the command.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }
}

/// The user who starts the agent: their variables and files.
pub struct User<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Reads the text of a file. `None`: the file does not exist.
    pub(crate) read: &'a dyn Fn(&Path) -> io::Result<Option<String>>,
}

impl std::fmt::Debug for User<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("User")
    }
}

/// The plan of a start: the command line, the variables, and the files to make.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Wiring {
    /// The command line.
    pub argv: Vec<OsString>,
    /// Variables to set besides those of the user.
    pub env: BTreeMap<String, OsString>,
    /// Notes for the user.
    pub notes: Vec<String>,
    steps: Vec<Step>,
}

/// A step that makes something below the scratch folder.
#[derive(Debug)]
enum Step {
    Folder(PathBuf),
    File {
        path: PathBuf,
        text: String,
    },
    /// Links to everything in a folder of the user, except one name.
    Links {
        of: PathBuf,
        at: PathBuf,
        but: OsString,
    },
}

/// Plans how to start the agent `argv`. `scratch` is the absolute path of a folder that only this user can read, for this one start.
///
/// # Errors
/// A file or variable of the user cannot be read or extended, or the preset lacks a key.
pub fn plan(
    preset: &Preset,
    argv: &[OsString],
    entry: &Entry,
    user: &User<'_>,
    scratch: &Path,
) -> Result<Wiring, Error> {
    let variables = entry.env.iter();
    let mut wiring = Wiring {
        argv: argv.to_vec(),
        env: variables
            .map(|(name, value)| (name.clone(), value.into()))
            .collect(),
        ..Wiring::default()
    };
    let mut plan = kinds::Plan {
        entry,
        user,
        scratch,
        wiring: &mut wiring,
    };
    let home = match &preset.kind {
        Kind::Variables => None,
        Kind::Flag { flag, place, shape } => plan.flag(flag, *place, shape)?,
        Kind::Override {
            words,
            format,
            place,
            own,
        } => plan.overrides(words, *format, *place, own.as_ref())?,
        Kind::Env { var, shape } => plan.env(var, shape)?,
        Kind::EnvFile { var, path, shape } => plan.env_file(var, path.as_deref(), shape)?,
        Kind::Copy { home, path, shape } => Some(plan.copy(home, path, shape)?),
    };
    for (name, value) in &preset.env {
        if (user.variable)(name).is_none() {
            let value = template::home(value, home.as_deref())?;
            wiring.env.insert(name.clone(), value);
        }
    }
    Ok(wiring)
}

impl User<'_> {
    /// Returns the user who started this process.
    pub fn of_this_process() -> Self {
        User {
            variable: &|name| env::var_os(name),
            read: &read,
        }
    }

    /// Returns the value of a variable, if it is not empty.
    fn said(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// Returns a path as people write it, with `~` replaced by the home.
    fn path(&self, path: &str) -> Result<PathBuf, Error> {
        let below = path.strip_prefix("~/");
        if below.is_none() && path != "~" {
            return Ok(path.into());
        }
        let missing = || Error::of(format!("cannot find `{path}`: HOME is not set"));
        let home = PathBuf::from(self.said("HOME").ok_or_else(missing)?);
        Ok(below.map_or_else(|| home.clone(), |below| home.join(below)))
    }

    fn file(&self, path: &Path) -> Result<Option<String>, Error> {
        (self.read)(path).map_err(|err| Error::cannot(&format!("read `{}`", path.display()), err))
    }
}

/// Returns the name by which a preset is found.
fn base_name(command: &OsStr) -> Option<&str> {
    Path::new(command).file_name()?.to_str()
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    if file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64 > MOST_BYTES {
        return Err(io::Error::other(format!(
            "it has more than {MOST_BYTES} bytes"
        )));
    }
    Ok(Some(text))
}

/// The limit for a file of settings, far above the length of any, even of one that a program extends by itself.
const MOST_BYTES: u64 = 8 << 20;
