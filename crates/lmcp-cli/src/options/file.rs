//! The configuration file, in TOML. Unknown keys are refused.

use std::path::{Path, PathBuf};

use lmcp::hub::{Reach, ServerConfig, from_json, is_json};
use lmcp_fleet::HostConfig;
use serde::de::DeserializeOwned;

use super::{NO_STATE, OWN_SOCKET, Options};
use crate::{private, report::Failure};

/// Reads the options in a file. Relative paths are relative to the file.
pub(super) fn read(path: &Path) -> Result<Options, Failure> {
    take(path, |text| parse_file(text, path))
}

/// Does the same for a file that may also be the JSON in which a client keeps its servers.
pub(crate) fn read_servers(path: &Path) -> Result<Options, Failure> {
    take(path, |text| {
        if !is_json(text) {
            return parse_file(text, path);
        }
        let wrong = |why| Failure::misuse(format!("{}: {why}", path.display()));
        Ok(Options {
            servers: from_json(text).map_err(wrong)?,
            ..Options::default()
        })
    })
}

fn take(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<Options, Failure>,
) -> Result<Options, Failure> {
    let (file, text) = private::open_trusted(path)?;
    let mut options = parse(&text)?;
    if options.token.iter().any(|token| token.secret.is_some()) {
        private::expect(&file, path, "a secret")?;
    }
    if options.servers.values().any(has_headers) {
        private::expect(&file, path, "headers, which count as secrets,")?;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    for path in paths(&mut options) {
        *path = folder.join(&*path);
    }
    Ok(options)
}

/// Returns whether the value of a header is in the file itself, and not only in a variable that the file names.
fn has_headers(config: &ServerConfig) -> bool {
    let is_elsewhere = |value: &String| value.contains("${") && !value.contains(":-");
    match &config.reach {
        Reach::Url { headers, .. } => !headers.values().all(is_elsewhere),
        _ => false,
    }
}

/// Parses the text of a file. The error names the line.
pub(crate) fn parse_file<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, Failure> {
    parse(text)
        .map_err(|(line, words)| Failure::misuse(format!("{}:{line}: {words}", path.display())))
}

/// Parses a text. The error holds the line and the reason.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
    toml::from_str(text).map_err(|err| {
        let start = err.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // The parser's own message would show the line, and there may be a token in it.
        (line, without_value(err.message()).replace('\n', ": "))
    })
}

/// Removes the wrong value from an error: a token in a wrong place must not be shown.
fn without_value(words: &str) -> String {
    for what in ["invalid type: ", "invalid value: "] {
        let Some(rest) = words.strip_prefix(what) else {
            continue;
        };
        let kind = rest.split(['"', '`', ',']).next().unwrap_or_default();
        // The value may contain anything, so the last `expected` is used.
        let expected = rest.rsplit_once(", expected ").map_or("", |(_, it)| it);
        return format!("{what}{}, expected {expected}", kind.trim_end());
    }
    words.to_owned()
}

/// Returns the paths among the options.
pub(super) fn paths(options: &mut Options) -> impl Iterator<Item = &mut PathBuf> {
    let tokens = options.token.iter_mut();
    let tokens = tokens.filter_map(|token| token.file.as_mut());
    let servers = options.servers.values_mut();
    let servers = servers.flat_map(ServerConfig::paths_mut);
    let hosts = options.hosts.values_mut();
    let hosts = hosts.flat_map(HostConfig::paths_mut);
    // Each path comes with the word that is not a path there.
    let single = [
        (&mut options.unix, OWN_SOCKET),
        (&mut options.token_file, ""),
        (&mut options.join_token_file, ""),
        (&mut options.hosts_file, ""),
        (&mut options.state_dir, NO_STATE),
    ];
    let single = single.into_iter().filter_map(|(path, word)| {
        let path = path.as_mut();
        path.filter(|path| path.as_os_str() != word)
    });
    options
        .root
        .iter_mut()
        .chain(&mut options.also_read)
        .chain(single)
        .chain(tokens)
        .chain(servers)
        .chain(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_and_words_are_not() {
        for (text, expected) in [
            ("unix = 'own'\nstate_dir = 'x'", "x"),
            ("unix = 'x'\nstate_dir = 'none'", "x"),
            ("unix = 'none'", "none"),
            ("state_dir = 'own'", "own"),
        ] {
            let mut options: Options = parse(text).unwrap();
            let paths: Vec<_> = paths(&mut options).map(|path| path.clone()).collect();
            assert_eq!(paths, [PathBuf::from(expected)], "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, words) in [
            ("name = 'a'\nroots = []\n", 2, "unknown field `roots`"),
            ("\n\nhttp = 'x'", 3, "`x` is no address to listen on"),
            ("read_only = 'yes'", 1, "invalid type"),
            ("connections = 0", 1, "no number from 1"),
            ("deny = [' ']", 1, "no command"),
            ("tools = []", 1, "the list is empty"),
            ("name = 'a'\nroot = []", 2, "the list is empty"),
            ("allow = []", 1, "the list is empty"),
            (
                "[[token]]\nname = 'a'\nfiel = 'x'",
                3,
                "unknown field `fiel`",
            ),
            ("name = 'a'\nname = 'b'", 2, "duplicate key"),
            ("config = 'x'", 1, "unknown field `config`"),
            ("secret = 'x'", 1, "unknown field `secret`"),
            ("name =", 1, ""),
            (
                "name = 'a'\n[presets.x]\nkind = 'env'\nvra = 'X'",
                4,
                "unknown field `vra`",
            ),
            (
                "name = 'a'\n[presets.x]\nkind = 'env'",
                2,
                "kind `env` needs `var`",
            ),
        ] {
            let (at, said) = parse::<Options>(text).unwrap_err();
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn an_error_shows_no_token() {
        for text in [
            "[[token]]\nname = 'a'\nsecret = 'hush'x",
            "[[token]]\nname = 'a'\nsecret = hush",
            "[[token]]\nname = 'a'\nsecret = 'hush",
            "[[token]]\nname = 'a'\nsecret = ['hush']",
            "[[token]]\nname = 'a'\nsecret = { hush = 1 }",
            "token = 'hush'",
            "token = 'hush, expected hush'",
            "token = ['hush']",
            "token = [['hush']]",
            "token_file = ['hush']",
            "[token]\nsecret = 'hush'",
            "read_only = 'hush'",
        ] {
            let (_, said) = parse::<Options>(text).unwrap_err();
            assert!(!said.contains("hush"), "{text}: {said}");
        }
        for text in [
            "[[token]]\nname = 'a'\nsecret = 777123",
            "[[token]]\nname = 777123",
            "token = 777123",
            "token = 777.123",
            "token = 1777-12-31",
            "token_file = 777123",
        ] {
            let (_, said) = parse::<Options>(text).unwrap_err();
            assert!(!said.contains("777"), "{text}: {said}");
            assert!(said.contains("expected"), "{text}: {said}");
        }
    }
}
