//! The configuration file, in TOML: what it does not know it refuses.

use std::path::{Path, PathBuf};

use super::Options;
use crate::{private, report::Failure};

/// The options in a file. Relative paths are relative to it.
pub(super) fn read(path: &Path) -> Result<Options, Failure> {
    let (file, text) = private::open(path)?;
    let mut options = parse(&text)
        .map_err(|(line, words)| Failure::misuse(format!("{}:{line}: {words}", path.display())))?;
    if options.token.iter().any(|token| token.secret.is_some()) {
        private::expect(&file, path)?;
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    for path in paths(&mut options) {
        *path = folder.join(&*path);
    }
    Ok(options)
}

/// The options in a text, or what is wrong in which line.
pub(super) fn parse(text: &str) -> Result<Options, (usize, String)> {
    toml::from_str(text).map_err(|err| {
        let start = err.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // The parser's own rendering would show the line, and there may be a token in it.
        (line, err.message().replace('\n', ": "))
    })
}

fn paths(options: &mut Options) -> impl Iterator<Item = &mut PathBuf> {
    let tokens = options.token.iter_mut();
    let tokens = tokens.filter_map(|token| token.file.as_mut());
    let single = [
        &mut options.unix,
        &mut options.token_file,
        &mut options.state_dir,
    ];
    let single = single.into_iter().filter_map(Option::as_mut);
    options
        .root
        .iter_mut()
        .chain(&mut options.also_read)
        .chain(single)
        .chain(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn an_error_shows_no_token() {
        let (_, said) = parse("[[token]]\nname = 'a'\nsecret = 'hush'x").unwrap_err();
        assert!(!said.contains("hush"), "{said}");
    }
}
