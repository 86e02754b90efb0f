//! The place of a server.

use std::path::PathBuf;

use crate::Error;

/// The place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A unix socket.
    Socket(PathBuf),
    /// Streamable HTTP.
    Url(String),
}

impl Target {
    /// Reads the text of a person: a path, or a URL that begins with `http://` or `https://`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            _ if text.is_empty() => Err(Error::new("the target is empty; name a socket or a URL")),
            Some("http" | "https") => Ok(Self::Url(text.to_owned())),
            Some(scheme) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                let words = format!("`{text}` is neither the path of a socket nor an http URL");
                Err(Error::new(words))
            }
            _ => Ok(Self::Socket(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_socket_and_a_url_a_url() {
        for path in ["/run/x.sock", "x", "./http:", "a/b://c"] {
            assert_eq!(Target::parse(path), Ok(Target::Socket(path.into())));
        }
        for url in ["http://127.0.0.1:8080/mcp", "https://example.com"] {
            assert_eq!(Target::parse(url), Ok(Target::Url(url.to_owned())));
        }
        for neither in ["", "ftp://example.com", "ws://x"] {
            assert!(Target::parse(neither).is_err(), "{neither}");
        }
    }
}
