//! The settings of an operator for the web.

use std::{fmt, time::Duration};

use lmcp_core::Error;
use lmcp_outbound::{Settings as Outbound, Url};

use super::allow::Allow;
use crate::image;

/// The settings of `fetch` and `web_search`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Web {
    /// What may be reached although it is not the public internet.
    pub allow: Vec<Allow>,
    /// How `fetch` names itself, unless a call says otherwise.
    pub user_agent: String,
    /// Certificates to trust besides those of the system, and proxies.
    pub outbound: Outbound,
    /// What is read of one page at most, decoded, in bytes. 8 MiB: more than any page for readers has.
    pub page_bytes: usize,
    /// Largest picture, in bytes. 3,932,160, and never more: as Base64 these are 5 MiB, what models take.
    pub image_bytes: usize,
    /// Pages that are kept for whoever reads on, together, in bytes. 8 MiB. At least one page of `page_bytes`, or that
    /// one is cut shorter.
    pub cache_bytes: usize,
    /// How long they are kept. 10 minutes.
    pub cache_time: Duration,
    /// Who searches.
    pub search: Search,
}

/// The search engine, with its keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Search {
    /// The backend that is asked; no other ever is.
    pub backend: Backend,
    /// The address of the SearXNG instance. May be private.
    pub searxng_url: Option<String>,
    /// The key for Tavily.
    pub tavily_key: Option<Secret>,
    /// The key for Brave.
    pub brave_key: Option<Secret>,
    /// Another address for the other backends.
    #[doc(hidden)]
    pub base_url: Option<String>,
}

/// A search engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// Its page without scripts. It needs no key, and turns away clients that ask often.
    #[default]
    DuckDuckGo,
    /// An instance that the operator runs.
    Searxng,
    /// Tavily, which needs a key.
    Tavily,
    /// Brave, which needs a key.
    Brave,
}

/// A value that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Web {
    /// Reads the settings from the environment: `LMCP_FETCH_ALLOW` (networks and hosts, with commas),
    /// `LMCP_SEARCH_BACKEND`, `LMCP_SEARXNG_URL`, `LMCP_TAVILY_KEY`, `LMCP_BRAVE_KEY`, `LMCP_USER_AGENT`,
    /// `SSL_CERT_FILE`, and the proxies in `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. An empty value
    /// counts as none.
    ///
    /// Without `LMCP_SEARCH_BACKEND`, the one backend that has an address or a key is asked, or DuckDuckGo.
    ///
    /// ```
    /// use lmcp_tools::settings::{Backend, Web};
    ///
    /// let web = Web::from_env(|name| (name == "LMCP_BRAVE_KEY").then(|| "secret".to_owned())).unwrap();
    /// assert_eq!(web.search.backend, Backend::Brave);
    /// ```
    ///
    /// # Errors
    /// A value cannot be read, leaves open which backend is meant, or chooses one without its key or address.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let lookup = |name: &str| {
            let value = lookup(name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        let mut web = Self::default();
        if let Some(list) = lookup("LMCP_FETCH_ALLOW") {
            let items = list.split(',').filter(|item| !item.trim().is_empty());
            web.allow = items.map(str::parse).collect::<Result<_, _>>()?;
        }
        if let Some(user_agent) = lookup("LMCP_USER_AGENT") {
            web.user_agent = user_agent;
        }
        web.outbound = Outbound::from_env(lookup);
        web.search = Search::from_env(lookup)?;
        Ok(web)
    }
}

impl Search {
    fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let mut search = Self {
            searxng_url: lookup("LMCP_SEARXNG_URL"),
            tavily_key: lookup("LMCP_TAVILY_KEY").map(Secret::new),
            brave_key: lookup("LMCP_BRAVE_KEY").map(Secret::new),
            ..Self::default()
        };
        if let Some(url) = &search.searxng_url
            && Url::parse(url).is_err()
        {
            return Err(Error::config(
                "LMCP_SEARXNG_URL is no address like http://127.0.0.1:8888",
            ));
        }
        search.backend = match lookup("LMCP_SEARCH_BACKEND") {
            Some(name) => Backend::parse(&name)?,
            None => search.only_configured()?,
        };
        search.expect_usable()?;
        Ok(search)
    }

    /// Checks that the backend has its key or address: an error at the start is better than one at every search.
    fn expect_usable(&self) -> Result<(), Error> {
        let (is_there, variable) = match self.backend {
            Backend::DuckDuckGo => return Ok(()),
            Backend::Searxng => (self.searxng_url.is_some(), "LMCP_SEARXNG_URL"),
            Backend::Tavily => (self.tavily_key.is_some(), "LMCP_TAVILY_KEY"),
            Backend::Brave => (self.brave_key.is_some(), "LMCP_BRAVE_KEY"),
        };
        if is_there {
            return Ok(());
        }
        Err(Error::config(format!(
            "{} is chosen to search, but {variable} is not set",
            self.backend
        )))
    }

    fn only_configured(&self) -> Result<Backend, Error> {
        let configured = [
            self.searxng_url.as_ref().map(|_| Backend::Searxng),
            self.tavily_key.as_ref().map(|_| Backend::Tavily),
            self.brave_key.as_ref().map(|_| Backend::Brave),
        ];
        let mut configured = configured.into_iter().flatten();
        match (configured.next(), configured.next()) {
            (None, _) => Ok(Backend::DuckDuckGo),
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(Error::config(format!(
                "both {one} and {other} are configured: say which with LMCP_SEARCH_BACKEND"
            ))),
        }
    }
}

impl Backend {
    fn parse(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            "duckduckgo" | "ddg" => Ok(Self::DuckDuckGo),
            "searxng" => Ok(Self::Searxng),
            "tavily" => Ok(Self::Tavily),
            "brave" => Ok(Self::Brave),
            _ => Err(Error::config(format!(
                "there is no search backend `{name}`: there are duckduckgo, searxng, tavily and brave"
            ))),
        }
    }
}

impl Secret {
    /// Hides a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Default for Web {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            user_agent: concat!("lmcp-fetch/", env!("CARGO_PKG_VERSION")).into(),
            outbound: Outbound::default(),
            page_bytes: 8 * 1024 * 1024,
            image_bytes: image::MOST_BYTES,
            cache_bytes: 8 * 1024 * 1024,
            cache_time: Duration::from_secs(600),
            search: Search::default(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DuckDuckGo => "duckduckgo",
            Self::Searxng => "searxng",
            Self::Tavily => "tavily",
            Self::Brave => "brave",
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Web, Error> {
        Web::from_env(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_said_is_duckduckgo_and_nothing_private() {
        let web = from(&[("LMCP_TAVILY_KEY", " ")]).unwrap();
        assert_eq!(web.search.backend, Backend::DuckDuckGo);
        assert!(web.allow.is_empty() && web.search.tavily_key.is_none());
    }

    #[test]
    fn one_backend_that_is_configured_is_the_one() {
        let web = from(&[("LMCP_SEARXNG_URL", "http://10.0.0.1:8888")]).unwrap();
        assert_eq!(web.search.backend, Backend::Searxng);
    }

    #[test]
    fn two_backends_need_a_choice() {
        let two = [("LMCP_TAVILY_KEY", "a"), ("LMCP_BRAVE_KEY", "b")];
        assert!(
            from(&two)
                .unwrap_err()
                .to_string()
                .contains("LMCP_SEARCH_BACKEND")
        );
        let chosen = [two[0], two[1], ("LMCP_SEARCH_BACKEND", "Brave")];
        assert_eq!(from(&chosen).unwrap().search.backend, Backend::Brave);
    }

    #[test]
    fn a_chosen_backend_needs_its_key_or_address() {
        for (backend, variable, value) in [
            ("searxng", "LMCP_SEARXNG_URL", "http://a.example"),
            ("tavily", "LMCP_TAVILY_KEY", "k"),
            ("brave", "LMCP_BRAVE_KEY", "k"),
        ] {
            let chosen = ("LMCP_SEARCH_BACKEND", backend);
            let err = from(&[chosen, (variable, " ")]).unwrap_err().to_string();
            assert!(err.contains(backend) && err.contains(variable), "{err}");
            assert!(from(&[chosen, (variable, value)]).is_ok());
        }
        assert!(from(&[("LMCP_SEARCH_BACKEND", "duckduckgo")]).is_ok());
    }

    #[test]
    fn values_that_cannot_be_read_are_errors() {
        assert!(from(&[("LMCP_SEARCH_BACKEND", "altavista")]).is_err());
        assert!(from(&[("LMCP_FETCH_ALLOW", "10.0.0.0/8,nonsense/9")]).is_err());
        assert!(from(&[("LMCP_SEARXNG_URL", "ftp://x")]).is_err());
        assert_eq!(
            from(&[("LMCP_FETCH_ALLOW", "10.0.0.0/8, wiki.internal")])
                .unwrap()
                .allow
                .len(),
            2
        );
    }

    #[test]
    fn keys_are_not_shown() {
        let web = from(&[("LMCP_BRAVE_KEY", "hunter2")]).unwrap();
        assert!(!format!("{web:?}").contains("hunter2"));
    }
}
