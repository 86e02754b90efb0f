//! What a client connects to.

use std::{ffi::OsString, path::PathBuf};

use lmcp_client::{
    Command, Endpoint as HttpEndpoint, HeaderMap, Route, Secret, Settings as Http,
    outbound::{self, ClientCertificate},
};
use lmcp_core::{
    Endpoint,
    client::{Error, Retriable, Settings, Target},
};

use crate::upstream::Upstream;

/// A server behind a URL.
pub fn url(url: impl Into<String>) -> UrlTarget {
    UrlTarget {
        settings: Http::new(url),
        token_file: None,
    }
}

/// A server on a unix socket.
pub fn socket(path: impl Into<PathBuf>) -> SocketTarget {
    SocketTarget(path.into())
}

/// A server that is a program: it is started for the client, speaks on its standard input and output, and ends with the
/// client, however that ends.
pub fn command(program: impl Into<OsString>) -> CommandTarget {
    CommandTarget(Command::new(program))
}

/// A server behind a URL.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct UrlTarget {
    settings: Http,
    token_file: Option<PathBuf>,
}

impl UrlTarget {
    /// Sends this token with every request.
    pub fn token(mut self, token: impl AsRef<str>) -> Self {
        self.settings.bearer = Some(Secret::new(token));
        self
    }

    /// The same, for a token that is kept out of sight already.
    pub fn secret(mut self, token: Secret) -> Self {
        self.settings.bearer = Some(token);
        self
    }

    /// Sends the token that stands in a file with every request.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// Sends these headers with every request. Those that the protocol uses itself are refused.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.settings.headers = headers;
        self
    }

    /// Sends the token and the headers over plain `http`, too: to other machines, where everybody on the way can read them, and
    /// to a server on loopback that nobody knows the user of. macOS and Windows never tell that user.
    pub fn plain_secrets(mut self) -> Self {
        self.settings.plain_secrets = true;
        self
    }

    /// Trusts more certificates, as PEM in a file.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.outbound.ca_file = Some(path.into());
        self
    }

    /// Shows this certificate to a server that asks for one: two files, as PEM.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let certificate = ClientCertificate::new(certificate, key);
        self.settings.outbound.client_certificate = Some(certificate);
        self
    }

    /// Goes the way that the environment names: `HTTPS_PROXY` and the like, `SSL_CERT_FILE`.
    pub fn from_env(mut self) -> Self {
        let certificate = self.settings.outbound.client_certificate.take();
        self.settings.outbound = outbound::Settings::from_env(|name| std::env::var(name).ok());
        self.settings.outbound.client_certificate = certificate;
        self
    }

    /// The way to it.
    ///
    /// # Errors
    /// The URL is none, a header cannot be sent, or a file cannot be read.
    pub fn route(mut self) -> Result<Route, Error> {
        if let Some(path) = &self.token_file {
            let token = std::fs::read_to_string(path).map_err(|err| {
                let words = format!("cannot read the token in `{}`: {err}", path.display());
                Error::transport(words, Retriable::No).caused_by(err)
            })?;
            self.settings.bearer = Some(Secret::new(token));
        }
        let endpoint = HttpEndpoint::new(self.settings)
            .map_err(|err| Error::transport(err.to_string(), Retriable::No).caused_by(err))?;
        Ok(Route::Url(endpoint))
    }
}

/// A server on a unix socket.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct SocketTarget(PathBuf);

impl SocketTarget {
    /// The way to it.
    pub fn route(self) -> Route {
        Route::Socket(self.0)
    }
}

/// A server that is started.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct CommandTarget(Command);

impl CommandTarget {
    /// One more argument.
    pub fn arg(self, arg: impl Into<OsString>) -> Self {
        Self(self.0.arg(arg))
    }

    /// More arguments.
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        Self(self.0.args(args))
    }

    /// One more variable of its environment, which is otherwise that of this program.
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Self(self.0.env(name, value))
    }

    /// Where it works.
    pub fn current_dir(self, folder: impl Into<PathBuf>) -> Self {
        Self(self.0.current_dir(folder))
    }

    /// The way to it.
    pub fn route(self) -> Route {
        Route::Command(self.0)
    }
}

impl Target for UrlTarget {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        connect(self.route()?, settings).await
    }
}

impl Target for SocketTarget {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        connect(self.route(), settings).await
    }
}

impl Target for CommandTarget {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        connect(self.route(), settings).await
    }
}

impl Target for Upstream {
    async fn connect(self, _: &Settings) -> Result<Endpoint, Error> {
        self.ready().await?;
        Ok(Endpoint::new(self))
    }
}

async fn connect(route: Route, settings: &Settings) -> Result<Endpoint, Error> {
    let upstream = Upstream::builder(route).settings(settings).build();
    upstream.ready().await?;
    Ok(Endpoint::new(upstream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_plain_http_only_when_the_program_says_so() {
        let target = || url("http://192.0.2.1/mcp").token("s3cret");
        let refused = target().route().unwrap_err().to_string();
        assert!(refused.contains("unprotected"), "{refused}");
        target().plain_secrets().route().unwrap();
    }
}
