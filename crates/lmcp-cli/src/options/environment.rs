//! Options from the environment. If a variable is set and cannot be understood, that is an error, and no default is used.

use std::{ffi::OsString, net::IpAddr, path::PathBuf, str::FromStr};

use super::{
    Options,
    values::{Address, Secret, host},
};
use crate::report::Failure;

/// Reads the variables. Those that say where to listen count only if the command line does not: an operator who writes
/// `--stdio` means it.
pub(super) fn read(
    variable: &dyn Fn(&str) -> Option<OsString>,
    command_line: &Options,
) -> Result<Options, Failure> {
    let variables = Variables(variable);
    let mut said = Options {
        root: variables.paths("LMCP_ROOT")?,
        read_only: variables.parsed("LMCP_READ_ONLY")?,
        tools: variables.list("LMCP_TOOLS")?,
        searxng_url: variables.text("LMCP_SEARXNG_URL")?,
        connections: variables.parsed("LMCP_CONNECTIONS")?,
        memory: variables.parsed("LMCP_MEMORY")?,
        allow_host: variables.list("LMCP_ALLOW_HOST")?,
        allow_origin: variables.list("LMCP_ALLOW_ORIGIN")?,
        name: variables.parsed("LMCP_NAME")?,
        state_dir: variables.path("LMCP_STATE_DIR")?,
        config: variables.path("LMCP_CONFIG")?,
        hosts_file: variables.path("LMCP_HUB_BACKENDS")?,
        ..Options::default()
    };
    variables.token(&mut said)?;
    if !command_line.listens() {
        variables.listen(&mut said)?;
    }
    Ok(said)
}

/// Returns variables that look like ours and are not known, so that a misspelt one is noticed.
pub(super) fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let names = names.filter_map(|name| name.into_string().ok());
    let unknown = names.filter(|name| name.starts_with("LMCP_") && !KNOWN.contains(&&**name));
    // Variables of hubs and of plugins belong to other programs of the family.
    let mut unknown: Vec<_> = unknown
        .filter(|name| !name.starts_with("LMCP_HUB_") && name != "LMCP_TOOLS_DIR")
        .collect();
    unknown.sort();
    unknown
}

/// All variables that are read anywhere.
const KNOWN: &[&str] = &[
    "LMCP_ALLOW_HOST",
    "LMCP_ALLOW_ORIGIN",
    "LMCP_BRAVE_KEY",
    "LMCP_CONF",
    "LMCP_CONFIG",
    "LMCP_CONNECTIONS",
    "LMCP_FETCH_ALLOW",
    "LMCP_HOST",
    "LMCP_HTTP",
    "LMCP_IDENTITY_FD",
    "LMCP_IDENTITY_FILE",
    "LMCP_MEMORY",
    "LMCP_NAME",
    "LMCP_PORT",
    "LMCP_READ_ONLY",
    "LMCP_ROOT",
    "LMCP_SEARCH_BACKEND",
    "LMCP_SEARXNG_URL",
    "LMCP_SOCKET",
    "LMCP_STATE_DIR",
    "LMCP_TAVILY_KEY",
    "LMCP_TOKEN",
    "LMCP_TOKEN_FILE",
    "LMCP_TOOLS",
    "LMCP_TRANSPORT",
    "LMCP_UNIX",
    "LMCP_USER_AGENT",
];

struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    /// Reads where to listen.
    fn listen(&self, said: &mut Options) -> Result<(), Failure> {
        let transport = self.text("LMCP_TRANSPORT")?;
        match transport.as_deref() {
            Some("stdio") => {
                // The other variables may be set for starts with another transport.
                said.stdio = true;
                return Ok(());
            }
            None | Some("http") => {}
            Some(other) => return Err(wrong("LMCP_TRANSPORT", other, "neither stdio nor http")),
        }
        let whole: Option<Address> = self.parsed("LMCP_HTTP")?;
        let address: Option<IpAddr> = match self.text("LMCP_HOST")? {
            None => None,
            Some(text) => Some(host(&text).map_err(|words| wrong("LMCP_HOST", &text, &words))?),
        };
        let port: Option<u16> = self.parsed("LMCP_PORT")?;
        let half = address.is_some() || port.is_some();
        if whole.is_some() && half {
            let words = "LMCP_HTTP says where to listen, and so do LMCP_HOST and LMCP_PORT";
            return Err(Failure::misuse(words).hint("unset one or the other"));
        }
        said.http = whole.or((half || transport.is_some()).then(|| Address::of(address, port)));
        said.unix = self.path("LMCP_UNIX")?;
        Ok(())
    }

    /// Reads where the token is.
    fn token(&self, said: &mut Options) -> Result<(), Failure> {
        // `text` is not used here, because an error about a token must not show the token.
        said.secret = match (self.0)("LMCP_TOKEN").map(OsString::into_string) {
            None => None,
            Some(Ok(token)) => Some(Secret(token)),
            Some(Err(_)) => return Err(Failure::misuse("LMCP_TOKEN is not text")),
        };
        said.token_file = self.path("LMCP_TOKEN_FILE")?;
        said.conf = self.path("LMCP_CONF")?;
        let sources = [
            ("LMCP_TOKEN", said.secret.is_some()),
            ("LMCP_TOKEN_FILE", said.token_file.is_some()),
            ("LMCP_CONF", said.conf.is_some()),
        ];
        let set: Vec<_> = sources
            .iter()
            .filter(|(_, set)| *set)
            .map(|(name, _)| *name)
            .collect();
        if set.len() > 1 {
            let words = format!("{} all say what the token is", set.join(" and "));
            return Err(Failure::misuse(words).hint("unset all but one"));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(value) = (self.0)(name) else {
            return Ok(None);
        };
        match value.into_string() {
            Ok(text) if text.is_empty() => {
                Err(Failure::misuse(format!("{name} is empty")).hint("unset it, or say something"))
            }
            Ok(text) => Ok(Some(text)),
            Err(value) => Err(wrong(name, &value.to_string_lossy(), "not text")),
        }
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, Failure> {
        match (self.0)(name) {
            Some(value) if value.is_empty() => {
                Err(Failure::misuse(format!("{name} is empty")).hint("unset it, or say something"))
            }
            value => Ok(value.map(PathBuf::from)),
        }
    }

    /// Reads a list of paths in the form of PATH.
    fn paths(&self, name: &str) -> Result<Vec<PathBuf>, Failure> {
        let Some(value) = self.path(name)? else {
            return Ok(Vec::new());
        };
        let paths: Vec<_> = std::env::split_paths(&value).collect();
        if paths.iter().any(|path| path.as_os_str().is_empty()) {
            return Err(wrong(
                name,
                &value.to_string_lossy(),
                "no list of folders with `:` between them",
            ));
        }
        Ok(paths)
    }

    fn parsed<T>(&self, name: &str) -> Result<Option<T>, Failure>
    where
        T: FromStr<Err: ToString>,
    {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let parsed = text.parse().map(Some);
        parsed.map_err(|err: T::Err| wrong(name, &text, &err.to_string()))
    }

    fn list<T>(&self, name: &str) -> Result<Vec<T>, Failure>
    where
        T: FromStr<Err: ToString>,
    {
        let text = self.text(name)?;
        let parts = text.iter().flat_map(|text| text.split(',')).map(str::trim);
        let parsed = parts.map(|part| {
            let parsed = part.parse();
            parsed.map_err(|err: T::Err| wrong(name, part, &err.to_string()))
        });
        parsed.collect()
    }
}

fn wrong(name: &str, value: &str, words: &str) -> Failure {
    Failure::misuse(format!("{name} is `{value}`: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(variables: &[(&str, &str)]) -> Result<Options, String> {
        let found = |name: &str| {
            let mut named = variables.iter().filter(|(known, _)| *known == name);
            named.next().map(|(_, value)| value.into())
        };
        read(&found, &Options::default()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn an_address_may_be_said_in_two_halves() {
        for (variables, expected) in [
            (&[("LMCP_PORT", "9000")][..], Some("127.0.0.1:9000")),
            (&[("LMCP_HOST", "0.0.0.0")], Some("0.0.0.0:8080")),
            (&[("LMCP_HOST", "::1"), ("LMCP_PORT", "1")], Some("[::1]:1")),
            (&[("LMCP_TRANSPORT", "http")], Some("127.0.0.1:8080")),
            (&[("LMCP_HTTP", "localhost:81")], Some("127.0.0.1:81")),
            (&[("LMCP_TRANSPORT", "stdio"), ("LMCP_PORT", "1")], None),
            (&[], None),
        ] {
            let said = read_from(variables).unwrap();
            let address = said.http.map(|address| address.0.to_string());
            assert_eq!(address.as_deref(), expected, "{variables:?}");
        }
    }

    #[test]
    fn a_bad_value_is_an_error_that_names_its_variable() {
        for (name, value) in [
            ("LMCP_HTTP", "nonsense"),
            ("LMCP_HOST", "no.such.host"),
            ("LMCP_PORT", "http"),
            ("LMCP_PORT", "65536"),
            ("LMCP_TRANSPORT", "carrier-pigeon"),
            ("LMCP_TRANSPORT", "STDIO"),
            ("LMCP_NAME", ""),
            ("LMCP_READ_ONLY", "yes"),
            ("LMCP_CONNECTIONS", "0"),
            ("LMCP_ALLOW_ORIGIN", "https://a.example,*"),
            ("LMCP_ALLOW_HOST", "http://a.example"),
            ("LMCP_ROOT", "/a::/b"),
            ("LMCP_CONF", ""),
            ("LMCP_SEARXNG_URL", ""),
        ] {
            let error = read_from(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name} is ")), "{error}");
        }
    }

    #[test]
    fn a_misspelt_variable_is_noticed() {
        let names = ["LMCP_READONLY", "LMCP_ROOT", "HOME", "LMCP_HUB_LOG"];
        assert_eq!(
            unknown(names.map(OsString::from).into_iter()),
            ["LMCP_READONLY"]
        );
    }

    #[test]
    fn one_thing_is_said_once() {
        let error = read_from(&[("LMCP_HTTP", "80"), ("LMCP_PORT", "81")]).unwrap_err();
        assert!(
            error.contains("LMCP_HTTP") && error.contains("LMCP_PORT"),
            "{error}"
        );
        let error = read_from(&[("LMCP_TOKEN", "hush"), ("LMCP_CONF", "/x")]).unwrap_err();
        assert!(error.contains("LMCP_TOKEN and LMCP_CONF"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}
