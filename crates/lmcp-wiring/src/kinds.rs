//! The work of each kind of preset.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{
    Entry, Step, User, Wiring, merge,
    preset::{Format, Home, OwnFile, Position, Shape},
    template,
};
use crate::error::Error;

/// A wiring while it is made.
pub(crate) struct Plan<'a, 'b> {
    pub(crate) entry: &'a Entry,
    pub(crate) user: &'a User<'a>,
    pub(crate) scratch: &'a Path,
    pub(crate) wiring: &'b mut Wiring,
}

/// The user's own home of a program, if the preset names one.
type OwnHome = Option<PathBuf>;

impl Plan<'_, '_> {
    /// Makes a configuration file, and names it on the command line.
    pub(crate) fn flag(
        &mut self,
        flag: &str,
        place: Position,
        shape: &Shape,
    ) -> Result<OwnHome, Error> {
        let file = self
            .scratch
            .join("mcp")
            .with_extension(shape.format.extension());
        let text = merge::into(None, shape, self.entry, "")?;
        let words = match flag.strip_suffix('=') {
            Some(_) => {
                let mut word = OsString::from(flag);
                word.push(&file);
                vec![word]
            }
            None => vec![flag.into(), file.clone().into()],
        };
        self.wiring.steps.push(Step::File { path: file, text });
        self.insert(place, words);
        Ok(None)
    }

    /// Adds words to the command line that change single settings.
    pub(crate) fn overrides(
        &mut self,
        words: &[String],
        format: Format,
        place: Position,
        own: Option<&OwnFile>,
    ) -> Result<OwnHome, Error> {
        let mut name = self.entry.name.clone();
        let home = own.map(|own| self.home(&own.home)).transpose()?;
        if let (Some(own), Some(home)) = (own, &home) {
            // If the file cannot be read, the program itself will report that.
            let text = self.user.file(&home.join(&own.path)).ok().flatten();
            let taken = text.is_some_and(|text| merge::has(&text, format, &own.merge_key, &name));
            if taken {
                name.push_str("_run");
                let words = format!(
                    "your own `{}` stays, so this one is called `{name}`",
                    self.entry.name
                );
                self.wiring.notes.push(words);
            }
        }
        let words = words
            .iter()
            .map(|word| template::word(word, &name, self.entry, format));
        self.insert(place, words.map(OsString::from).collect());
        Ok(home)
    }

    /// Sets a variable that holds a configuration. The user's content of the variable stays in it.
    pub(crate) fn env(&mut self, var: &str, shape: &Shape) -> Result<OwnHome, Error> {
        let own = self.user.said(var).map(OsString::into_string).transpose();
        let own = own.map_err(|_| Error::misuse(format!("{var} is no UTF-8")))?;
        let text = merge::into(own.as_deref(), shape, self.entry, var)?;
        self.wiring.env.insert(var.to_owned(), text.into());
        Ok(None)
    }

    /// Sets a variable that names a file. The content of the user's file stays in it.
    pub(crate) fn env_file(
        &mut self,
        var: &str,
        path: Option<&str>,
        shape: &Shape,
    ) -> Result<OwnHome, Error> {
        let own = match (self.user.said(var), path) {
            (Some(said), _) => Some(PathBuf::from(said)),
            (None, Some(path)) => Some(self.user.path(path)?),
            (None, None) => None,
        };
        let text = match &own {
            Some(path) => self.merged(path, shape)?,
            None => merge::into(None, shape, self.entry, "")?,
        };
        let file = self
            .scratch
            .join("config")
            .with_extension(shape.format.extension());
        self.wiring.env.insert(var.to_owned(), file.clone().into());
        self.wiring.steps.push(Step::File { path: file, text });
        Ok(None)
    }

    /// Makes a home for the program. All its files are links to those of the user, except one.
    pub(crate) fn copy(
        &mut self,
        home: &Home,
        path: &Path,
        shape: &Shape,
    ) -> Result<PathBuf, Error> {
        let own = self.home(home)?;
        let text = self.merged(&own.join(path), shape)?;
        let new = self.scratch.join("home");
        let (mut of, mut at) = (own.clone(), new.clone());
        for name in path {
            self.wiring.steps.push(Step::Folder(at.clone()));
            self.wiring.steps.push(Step::Links {
                of: of.clone(),
                at: at.clone(),
                but: name.to_owned(),
            });
            of.push(name);
            at.push(name);
        }
        self.wiring.steps.push(Step::File { path: at, text });
        self.wiring.env.insert(home.var.clone(), new.into());
        Ok(own)
    }

    /// Returns the home with the user's own files of the program.
    fn home(&self, home: &Home) -> Result<PathBuf, Error> {
        let path = match self.user.said(&home.var) {
            Some(said) => said.into(),
            None => self.user.path(&home.path)?,
        };
        // The path is made absolute, because links to it are made in another folder.
        let failed = |err| Error::cannot(&format!("find `{}`", path.display()), err);
        std::path::absolute(&path).map_err(failed)
    }

    /// Returns the text of the user's file, with the entry in it.
    fn merged(&self, path: &Path, shape: &Shape) -> Result<String, Error> {
        let own = self.user.file(path)?;
        merge::into(
            own.as_deref(),
            shape,
            self.entry,
            &path.display().to_string(),
        )
    }

    fn insert(&mut self, place: Position, words: Vec<OsString>) {
        let argv = &mut self.wiring.argv;
        let end = argv.len();
        let at = match place {
            Position::After(count) => count.min(end),
            Position::Last => argv.iter().position(|word| word == "--").unwrap_or(end),
        };
        argv.splice(at..at, words);
    }
}
