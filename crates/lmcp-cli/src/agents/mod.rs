//! How a program is started so that it finds our MCP server: with words on its command line, variables, and files made for
//! this one start. The user's own files are read, never written.
//!
//! [`plan`] decides and touches nothing; [`Wiring::make`] writes what it decided, and takes it away again when dropped.
//! Starting the program is somebody else's.

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

pub(crate) use preset::Preset;
pub(crate) use presets::Presets;

use crate::report::Failure;
use preset::Kind;

/// The server that the program is to find.
#[derive(Debug)]
pub(crate) struct Entry {
    /// What it is called among the program's servers.
    pub(crate) name: String,
    /// An absolute path.
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// What the command needs to know. The program gets these variables too: what it starts in a shell is its own.
    pub(crate) env: BTreeMap<String, String>,
}

/// Whoever starts the program: their variables and files.
pub(crate) struct User<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The text of a file, or none if there is none.
    pub(crate) read: &'a dyn Fn(&Path) -> io::Result<Option<String>>,
}

/// How to start the program.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    pub(crate) argv: Vec<OsString>,
    /// Variables to set besides those of the user.
    pub(crate) env: BTreeMap<String, OsString>,
    /// What the user should know.
    pub(crate) notes: Vec<String>,
    steps: Vec<Step>,
}

/// Something to make below the scratch folder.
#[derive(Debug)]
enum Step {
    Folder(PathBuf),
    File {
        path: PathBuf,
        text: String,
    },
    /// A link to everything in a folder of the user's, but for one name.
    Links {
        of: PathBuf,
        at: PathBuf,
        but: OsString,
    },
}

/// Decides how to start `argv`. `scratch` is an absolute path of a folder for this user alone and this one start.
pub(crate) fn plan(
    preset: &Preset,
    argv: &[OsString],
    entry: &Entry,
    user: &User<'_>,
    scratch: &Path,
) -> Result<Wiring, Failure> {
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
    /// Whoever started this process.
    pub(crate) fn of_this_process() -> Self {
        User {
            variable: &|name| env::var_os(name),
            read: &read,
        }
    }

    /// A variable that says something.
    fn said(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// A path as people write it, with `~` for the home.
    fn path(&self, path: &str) -> Result<PathBuf, Failure> {
        let below = path.strip_prefix("~/");
        if below.is_none() && path != "~" {
            return Ok(path.into());
        }
        let missing = || Failure::of(format!("cannot find `{path}`: HOME is not set"));
        let home = PathBuf::from(self.said("HOME").ok_or_else(missing)?);
        Ok(below.map_or_else(|| home.clone(), |below| home.join(below)))
    }

    fn file(&self, path: &Path) -> Result<Option<String>, Failure> {
        (self.read)(path).map_err(|err| Failure::cannot(&format!("read `{}`", path.display()), err))
    }
}

/// The name that presets go by.
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

/// More than there is in a file of settings, even one that a program adds to by itself.
const MOST_BYTES: u64 = 8 << 20;
