//! The form of a preset in TOML: the keys of every kind, and the combinations that are refused.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, de};
use toml::Table;

use super::{
    preset::{Format, Home, Kind, OwnFile, Position, Preset, Shape},
    template::{self, IN_ENTRY, IN_ENV, IN_WORDS},
};

/// A preset as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    kind: KindName,
    flag: Option<String>,
    #[serde(rename = "override")]
    words: Option<Vec<String>>,
    var: Option<String>,
    home_var: Option<String>,
    home_path: Option<String>,
    path: Option<String>,
    merge_key: Option<String>,
    format: Option<Format>,
    entry: Option<Table>,
    place: Option<Position>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindName {
    Variables,
    Flag,
    Override,
    Env,
    EnvFile,
    Copy,
}

impl KindName {
    /// Returns the name of the kind, its required keys, and its optional keys. All kinds accept `env`.
    fn keys(
        self,
    ) -> (
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    ) {
        match self {
            Self::Variables => ("variables", &[], &[]),
            Self::Flag => (
                "flag",
                &["flag"],
                &["place", "format", "merge_key", "entry"],
            ),
            Self::Override => (
                "override",
                &["override"],
                &[
                    "place",
                    "format",
                    "home_var",
                    "home_path",
                    "path",
                    "merge_key",
                ],
            ),
            Self::Env => ("env", &["var"], &["format", "merge_key", "entry"]),
            Self::EnvFile => (
                "env_file",
                &["var"],
                &["path", "format", "merge_key", "entry"],
            ),
            Self::Copy => (
                "copy",
                &["home_var", "home_path", "path"],
                &["format", "merge_key", "entry"],
            ),
        }
    }
}

impl Said {
    /// Returns the keys that are set.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("flag", self.flag.is_some()),
            ("override", self.words.is_some()),
            ("var", self.var.is_some()),
            ("home_var", self.home_var.is_some()),
            ("home_path", self.home_path.is_some()),
            ("path", self.path.is_some()),
            ("merge_key", self.merge_key.is_some()),
            ("format", self.format.is_some()),
            ("entry", self.entry.is_some()),
            ("place", self.place.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
    }

    /// Refuses keys that the kind does not have, keys that are missing, and unknown words in braces.
    fn check(&self) -> Result<(), String> {
        let (kind, needed, taken) = self.kind.keys();
        let allowed = || needed.iter().chain(taken).chain(&["env"]);
        if let Some(key) = self
            .given()
            .find(|key| !allowed().any(|allowed| allowed == key))
        {
            let allowed: Vec<_> = allowed().map(|key| format!("`{key}`")).collect();
            let allowed = allowed.join(", ");
            return Err(format!(
                "kind `{kind}` takes no `{key}`; it takes {allowed}"
            ));
        }
        if let Some(key) = needed
            .iter()
            .find(|key| !self.given().any(|given| given == **key))
        {
            return Err(format!("kind `{kind}` needs `{key}`"));
        }
        let words = self.words.iter().flatten().map(|word| (word, IN_WORDS));
        let variables = self.env.values().map(|value| (value, IN_ENV));
        for (text, known) in words.chain(variables) {
            known_only(text, known)?;
        }
        self.entry
            .iter()
            .try_for_each(|entry| check_entry(&entry.clone().into()))
    }

    fn shape(&self) -> Result<Shape, String> {
        Ok(Shape {
            format: self.format.unwrap_or_default(),
            merge_key: self.merge_key()?,
            entry: self.entry.clone().unwrap_or_else(usual_entry),
        })
    }

    fn merge_key(&self) -> Result<Vec<String>, String> {
        let said = self.merge_key.as_deref().unwrap_or("mcpServers");
        let keys: Vec<_> = said.split('.').map(str::to_owned).collect();
        if keys.iter().any(String::is_empty) {
            return Err(format!("`{said}` is no key: KEY or KEY.KEY"));
        }
        Ok(keys)
    }

    /// Returns the home and the file below it, if both are named.
    fn own(&self) -> Result<Option<(Home, PathBuf)>, String> {
        let (Some(var), Some(home), Some(path)) = (&self.home_var, &self.home_path, &self.path)
        else {
            return Ok(None);
        };
        // The file is made below a folder of ours, and must not leave it.
        let is_below = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if path.is_empty() || !is_below {
            return Err(format!("`{path}` is no path below the home"));
        }
        let home = Home {
            var: var.clone(),
            path: home.clone(),
        };
        Ok(Some((home, path.into())))
    }
}

impl<'de> Deserialize<'de> for Preset {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let said = Said::deserialize(deserializer)?;
        said.try_into().map_err(de::Error::custom)
    }
}

impl TryFrom<Said> for Preset {
    type Error = String;

    fn try_from(said: Said) -> Result<Self, String> {
        said.check()?;
        let (shape, own) = (said.shape()?, said.own()?);
        let place = said.place.unwrap_or(Position::After(1));
        // `check` has made sure that the required keys are set.
        let text = |value: Option<String>| value.unwrap_or_default();
        let kind = match said.kind {
            KindName::Variables => Kind::Variables,
            KindName::Flag => Kind::Flag {
                flag: text(said.flag),
                place,
                shape,
            },
            KindName::Override => Kind::Override {
                words: said.words.unwrap_or_default(),
                format: shape.format,
                place,
                own: own.map(|(home, path)| OwnFile {
                    home,
                    path,
                    merge_key: shape.merge_key,
                }),
            },
            KindName::Env => Kind::Env {
                var: text(said.var),
                shape,
            },
            KindName::EnvFile => Kind::EnvFile {
                var: text(said.var),
                path: said.path,
                shape,
            },
            KindName::Copy => {
                let (home, path) = own.ok_or("kind `copy` needs a home")?;
                Kind::Copy { home, path, shape }
            }
        };
        Ok(Self {
            kind,
            env: said.env,
        })
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let said = toml::Value::deserialize(from)?;
        let count = said
            .as_integer()
            .and_then(|count| usize::try_from(count).ok());
        match (count, said.as_str()) {
            (Some(count @ 1..), _) => Ok(Self::After(count)),
            (_, Some("last")) => Ok(Self::Last),
            _ => Err(de::Error::custom(
                "`place` is a number of words from 1, or \"last\"",
            )),
        }
    }
}

/// Returns the entry that most programs accept.
fn usual_entry() -> Table {
    let keys = ["command", "args", "env"];
    let entries = keys.map(|key| (key.to_owned(), format!("{{{key}}}").into()));
    entries.into_iter().collect()
}

fn check_entry(form: &toml::Value) -> Result<(), String> {
    match form {
        toml::Value::String(text) if template::is_mixed(text) => Err(format!(
            "`{text}` in `entry` has a word in braces, and more; a value is either"
        )),
        toml::Value::String(text) => known_only(text, IN_ENTRY),
        toml::Value::Array(forms) => forms.iter().try_for_each(check_entry),
        toml::Value::Table(table) => table.values().try_for_each(check_entry),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => Ok(()),
    }
}

fn known_only(text: &str, known: &[&str]) -> Result<(), String> {
    let Some(name) = template::unknown(text, known) else {
        return Ok(());
    };
    let known: Vec<_> = known.iter().map(|name| format!("`{{{name}}}`")).collect();
    Err(format!(
        "`{{{name}}}` in `{text}` stands for nothing; there is {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_said_with_what_is_allowed() {
        for (text, words) in [
            ("kind = 'flagg'", "unknown variant `flagg`"),
            ("flag = '-x'", "missing field `kind`"),
            (
                "kind = 'flag'\nflags = '-x'",
                "unknown field `flags`, expected one of `kind`, `flag`",
            ),
            ("kind = 'flag'", "kind `flag` needs `flag`"),
            (
                "kind = 'env'\nvar = 'X'\nflag = '-x'",
                "kind `env` takes no `flag`; it takes `var`, `format`",
            ),
            (
                "kind = 'copy'\nhome_var = 'X'\npath = 'x'",
                "kind `copy` needs `home_path`",
            ),
            (
                "kind = 'copy'\nhome_var = 'X'\nhome_path = '~'\npath = '../x'",
                "`../x` is no path below the home",
            ),
            (
                "kind = 'copy'\nhome_var = 'X'\nhome_path = '~'\npath = '/x'",
                "`/x` is no path below the home",
            ),
            (
                "kind = 'override'\noverride = ['{nam}']",
                "`{nam}` in `{nam}` stands for nothing; there is `{name}`",
            ),
            (
                "kind = 'env'\nvar = 'X'\nentry = { a = { b = ['{home}'] } }",
                "`{home}` in `{home}` stands for nothing",
            ),
            (
                "kind = 'env'\nvar = 'X'\nentry = { a = '{command} x' }",
                "`{command} x` in `entry` has a word in braces, and more",
            ),
            (
                "kind = 'variables'\nenv = { A = '{name}' }",
                "there is `{home}`",
            ),
            (
                "kind = 'flag'\nflag = '-x'\nplace = 0",
                "`place` is a number of words from 1",
            ),
            (
                "kind = 'flag'\nflag = '-x'\nplace = 'first'",
                "`place` is a number of words from 1",
            ),
            (
                "kind = 'flag'\nflag = '-x'\nmerge_key = 'a..b'",
                "`a..b` is no key",
            ),
            (
                "kind = 'flag'\nflag = '-x'\nformat = 'yaml'",
                "unknown variant `yaml`, expected",
            ),
        ] {
            let said = toml::from_str::<Preset>(text).unwrap_err();
            assert!(said.message().contains(words), "{text}: {}", said.message());
        }
    }

    #[test]
    fn the_least_that_can_be_said_is_enough() {
        let preset: Preset = toml::from_str("kind = 'flag'\nflag = '--mcp'").unwrap();
        let Kind::Flag {
            shape,
            place: Position::After(1),
            ..
        } = preset.kind
        else {
            panic!("{preset:?}");
        };
        assert_eq!(shape.merge_key, ["mcpServers"]);
        assert_eq!(shape.entry.len(), 3);
    }
}
