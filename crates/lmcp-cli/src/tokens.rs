//! Access over HTTP: a caller must send a token that the operator named.
//!
//! If a token is missing from its named place, the server does not start. It uses no other token instead, and never runs
//! without one.

use std::path::Path;

use lmcp::{Server, http::HeaderMap};
use ring::hmac::{self, HMAC_SHA256, Key, Tag};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::{
    options::{NamedToken, Options, Secret},
    private,
    report::Failure,
};

/// The key of the token in a file of `LMCP_CONF`.
const CONF_KEY: &str = ".godparticle";

/// The fewest characters of a token. Shorter tokens can be guessed over a network.
const SHORTEST: usize = 8;

/// The valid tokens. They are kept as tags under a key of this run, so that comparing takes the same time for every input.
pub(crate) struct Tokens {
    key: Key,
    known: Vec<Known>,
}

struct Known {
    /// The name of the caller, if the token belongs to one caller.
    name: Option<String>,
    tag: Tag,
}

impl Tokens {
    /// Accepts no token.
    pub(crate) fn none() -> Self {
        Self {
            key: Key::new(HMAC_SHA256, &Server::random_key()),
            known: Vec::new(),
        }
    }

    /// Reads the tokens with which hosts join a hub: each is valid for one name. A token that is also valid for callers of
    /// the hub is refused.
    pub(crate) fn of_hosts<'a>(
        files: impl Iterator<Item = (&'a String, &'a Path)>,
        callers: &Options,
    ) -> Result<Self, Failure> {
        let (mut tokens, mut others) = (Self::none(), None);
        for (name, path) in files {
            tokens.add_file(Some(name), path)?;
            let others = match &mut others {
                Some(others) => others,
                None => others.insert(Self::read(callers)?.unwrap_or_else(Self::none)),
            };
            if others.find(private::read(path)?.trim()).is_some() {
                return Err(Failure::misuse(format!(
                    "the token of host `{name}` is also one of callers, and each must have its own"
                )));
            }
        }
        Ok(tokens)
    }

    /// Reads the tokens that the options name; `None` if they name none.
    pub(crate) fn read(options: &Options) -> Result<Option<Self>, Failure> {
        if !options.has_token() {
            return Ok(None);
        }
        let named = options.token.iter().filter_map(|token| token.file.as_ref());
        let files = [&options.token_file, &options.conf, &options.config];
        for path in files.into_iter().flatten().chain(named) {
            options.expect_outside(path)?;
        }
        keep_to_ourselves();
        let mut tokens = Self::none();
        if let Some(secret) = &options.secret {
            tokens.add(None, &secret.0, "LMCP_TOKEN")?;
        }
        if let Some(path) = &options.token_file {
            tokens.add_file(None, path)?;
        }
        if let Some(path) = &options.conf {
            let text = private::read(path)?;
            let token = in_conf(&text).ok_or_else(|| no_key(path))?;
            tokens.add(None, token, &path.display().to_string())?;
        }
        for named in &options.token {
            tokens.add_named(named)?;
        }
        Ok(Some(tokens))
    }

    /// Returns the name of the caller that sends these headers, or the words that refuse them.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Option<String>, String> {
        let Some(sent) = lmcp::http::bearer(headers) else {
            return Err("a token is needed: `Authorization: Bearer TOKEN`".into());
        };
        let found = self.find(sent);
        let found = found.map(|known| known.name.clone());
        found.ok_or_else(|| "this token is not known here".into())
    }

    /// Compares all tokens, so that the time does not show which one matches.
    fn find(&self, sent: &str) -> Option<&Known> {
        let mut found = None;
        for known in &self.known {
            if hmac::verify(&self.key, sent.as_bytes(), known.tag.as_ref()).is_ok() {
                found = Some(known);
            }
        }
        found
    }

    fn add_named(&mut self, named: &NamedToken) -> Result<(), Failure> {
        let name = &named.name;
        let taken = |known: &Known| known.name.as_ref() == Some(name);
        if name.trim().is_empty() || self.known.iter().any(taken) {
            let words = format!("`{name}` cannot be the name of a token");
            return Err(Failure::misuse(words).hint("every [[token]] has a name of its own"));
        }
        match (&named.file, &named.secret) {
            (Some(path), None) => self.add_file(Some(name), path),
            (None, Some(Secret(token))) => {
                self.add(Some(name), token, &format!("the token `{name}`"))
            }
            _ => Err(Failure::misuse(format!(
                "the token `{name}` needs a `file` or a `secret`, and not both"
            ))),
        }
    }

    fn add_file(&mut self, name: Option<&str>, path: &Path) -> Result<(), Failure> {
        let text = private::read(path)?;
        self.add(name, &text, &path.display().to_string())
    }

    fn add(&mut self, name: Option<&str>, token: &str, place: &str) -> Result<(), Failure> {
        let token = token.trim();
        if token.is_empty() {
            let failure = Failure::misuse(format!("{place} is empty, and was to be a token"));
            return Err(failure.hint("`openssl rand -hex 32` makes one"));
        }
        // Other bytes in a header are read differently by different clients.
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let failure = Failure::misuse(format!("{place} is no token"));
            return Err(failure.hint("a token is one word of ASCII characters"));
        }
        if token.len() < SHORTEST {
            let words = format!(
                "{place} has {} characters, which can be guessed",
                token.len()
            );
            let hint = format!("a token has at least {SHORTEST}; `openssl rand -hex 32` makes one");
            return Err(Failure::misuse(words).hint(hint));
        }
        let tag = hmac::sign(&self.key, token.as_bytes());
        let mut known = self.known.iter();
        if known.any(|known| known.tag.as_ref() == tag.as_ref()) {
            return Err(Failure::misuse(format!(
                "{place} is the same as another token"
            )));
        }
        self.known.push(Known {
            name: name.map(str::to_owned),
            tag,
        });
        Ok(())
    }
}

/// Keeps other processes of the same user from reading the environment and the memory of this one, which hold tokens.
pub(crate) fn keep_to_ourselves() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Returns the token in lines of `key = value`. The last one counts, as in other programs that read such files.
fn in_conf(text: &str) -> Option<&str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let mut named = lines.filter(|(key, _)| key.trim() == CONF_KEY);
    let value = named.next_back()?.1.trim();
    // Quotes do not belong to a token.
    let bare = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    Some(bare.unwrap_or(value))
}

fn no_key(path: &Path) -> Failure {
    let words = format!(
        "{} has no line `{CONF_KEY} = TOKEN`, and LMCP_CONF says it has",
        path.display()
    );
    Failure::misuse(words).hint("a file of options is named by LMCP_CONFIG")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(entries: &[(Option<&str>, &str)]) -> Tokens {
        let mut tokens = Tokens {
            key: Key::new(HMAC_SHA256, &[0; 32]),
            known: Vec::new(),
        };
        for (name, token) in entries {
            tokens.add(*name, token, "here").unwrap();
        }
        tokens
    }

    fn sent(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", value.parse().unwrap());
        headers
    }

    #[test]
    fn a_token_is_known_whole_and_by_its_name() {
        let tokens = tokens(&[(None, "first-one\n"), (Some("ann"), "second-one")]);
        let identify = |value: &str| tokens.identify(&sent(value));
        assert_eq!(identify("Bearer first-one"), Ok(None));
        assert_eq!(identify("bearer second-one"), Ok(Some("ann".into())));
        for value in [
            "Bearer first-on",
            "Bearer first-one2",
            "Bearer FIRST-ONE",
            "Bearer first-onesecond-one",
            "Basic first-one",
        ] {
            assert!(identify(value).is_err(), "{value}");
        }
        assert!(tokens.identify(&HeaderMap::new()).is_err());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let mut tokens = tokens(&[(None, "first-one")]);
        for text in [
            "",
            " \n",
            "two words",
            "two\nlines",
            "é",
            "short",
            "first-one",
        ] {
            assert!(tokens.add(None, text, "here").is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_conf_has_its_token_in_one_line() {
        for (text, token) in [
            ("a = b\n.godparticle = x=y\n", Some("x=y")),
            (".godparticle=\"x\"", Some("x")),
            (".godparticle = 1\n.godparticle = 2", Some("2")),
            (".godparticle =", Some("")),
            ("godparticle = x\n#.godparticle = x", None),
            ("", None),
        ] {
            assert_eq!(in_conf(text), token, "{text}");
        }
    }
}
