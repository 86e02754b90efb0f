//! Finds the preset for a program: one of the user, or one of this crate.

use std::{borrow::Cow, collections::BTreeMap, ffi::OsStr};

use serde::Deserialize;

use crate::{Preset, base_name, error::Error, preset::Kind};

/// Presets by name. They are read with serde, or with [`Presets::parse`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Presets(BTreeMap<String, Preset>);

/// A file that holds only presets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    presets: Presets,
}

impl Presets {
    /// The presets of this crate: `claude`, `codex`, `opencode` and `gemini`.
    pub fn built_in() -> Self {
        let text = include_str!("presets.toml");
        let file: File = toml::from_str(text).expect("a test reads the same text");
        file.presets
    }

    /// Reads presets from TOML, `[presets.NAME]`.
    ///
    /// # Errors
    /// The text is not TOML, or a part of it is not valid. The error names the place.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let file: File = toml::from_str(text)?;
        Ok(file.presets)
    }

    /// Adds other presets, which replace those of the same name.
    #[must_use]
    pub fn under(mut self, mut others: Self) -> Self {
        self.0.append(&mut others.0);
        self
    }

    /// Returns the preset of this name, or else the one that is named like the command. For a command without a preset, the
    /// agent gets only variables, and the returned note says so.
    ///
    /// # Errors
    /// There is no preset with that name.
    pub fn choose(
        &self,
        asked: Option<&str>,
        command: &OsStr,
    ) -> Result<(Cow<'_, Preset>, Option<String>), Error> {
        if let Some(name) = asked {
            let found = self.0.get(name).map(|preset| (Cow::Borrowed(preset), None));
            return found.ok_or_else(|| {
                let names: Vec<_> = self.0.keys().map(String::as_str).collect();
                let failure = Error::misuse(format!("there is no preset `{name}`"));
                failure.hinted(format!(
                    "there is {}; others are made in TOML",
                    names.join(", ")
                ))
            });
        }
        if let Some(preset) = base_name(command).and_then(|name| self.0.get(name)) {
            return Ok((Cow::Borrowed(preset), None));
        }
        let words = format!(
            "note: there is no preset for `{}`: it gets variables, and no configuration; name one with --preset",
            command.display()
        );
        let variables = Preset {
            kind: Kind::Variables,
            env: BTreeMap::new(),
        };
        Ok((Cow::Owned(variables), Some(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_command_decides_unless_a_preset_is_asked_for() {
        let presets = Presets::built_in();
        let chosen = |asked, command: &str| {
            let (preset, note) = presets.choose(asked, command.as_ref()).unwrap();
            (preset.into_owned().kind, note)
        };
        assert!(matches!(
            chosen(None, "/usr/bin/claude"),
            (Kind::Flag { .. }, None)
        ));
        assert!(matches!(
            chosen(None, "codex"),
            (Kind::Override { .. }, None)
        ));
        assert!(matches!(
            chosen(None, "./opencode"),
            (Kind::Env { .. }, None)
        ));
        assert!(matches!(chosen(None, "gemini"), (Kind::Copy { .. }, None)));
        assert!(matches!(
            chosen(Some("claude"), "codex"),
            (Kind::Flag { .. }, None)
        ));
        let (kind, note) = chosen(None, "my agent");
        assert!(matches!(kind, Kind::Variables));
        assert!(note.unwrap().contains("no preset for `my agent`"));
    }

    #[test]
    fn an_unknown_preset_is_refused_with_those_there_are() {
        let presets = Presets::built_in();
        let failure = presets.choose(Some("clod"), "x".as_ref()).unwrap_err();
        assert_eq!(failure.to_string(), "there is no preset `clod`");
    }

    #[test]
    fn a_preset_of_the_user_replaces_ours() {
        let theirs: File = toml::from_str("[presets.claude]\nkind = 'env'\nvar = 'X'").unwrap();
        let presets = Presets::built_in().under(theirs.presets);
        let (preset, _) = presets.choose(None, "claude".as_ref()).unwrap();
        assert!(matches!(preset.kind, Kind::Env { .. }));
        assert!(presets.choose(Some("codex"), "x".as_ref()).is_ok());
    }
}
