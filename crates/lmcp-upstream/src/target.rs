//! The servers that a client can connect to.

use std::{ffi::OsString, path::PathBuf};

use lmcp_client::{
    Command, Endpoint as HttpEndpoint, Given, HeaderMap, Route, Secret, Settings as Http,
    outbound::{self, ClientCertificate},
};
use lmcp_core::{
    Caller, CallerTransport as Transport, Endpoint,
    client::{Error, KeepsKeys, Retriable, Settings, Target},
    streams,
};

use crate::upstream::Upstream;

/// A server behind a URL, as the target of a client.
///
/// ```no_run
/// # async fn run() -> Result<(), lmcp::client::Error> {
/// use lmcp::{Client, upstream};
///
/// let target = upstream::url("https://tools.example/mcp").token_file("token").from_env();
/// let client = Client::connect(target).await?;
/// # Ok(())
/// # }
/// ```
pub fn url(url: impl Into<String>) -> UrlTarget {
    UrlTarget {
        settings: Http::new(url),
        token_file: None,
    }
}

/// A server on a unix socket, as the target of a client.
///
/// ```no_run
/// # async fn run() -> Result<(), lmcp::client::Error> {
/// let client = lmcp::Client::connect(lmcp::upstream::socket("/run/user/1000/lmcp/serve.sock")).await?;
/// # Ok(())
/// # }
/// ```
///
/// A server that asks for a token gets one with [`token`](SocketTarget::token).
pub fn socket(path: impl Into<PathBuf>) -> SocketTarget {
    SocketTarget {
        path: path.into(),
        token: None,
    }
}

/// A server that is started as a program, as the target of a client. The program speaks on its standard input and output, and ends with
/// the client, even if the client is killed.
///
/// ```no_run
/// # async fn run() -> Result<(), lmcp::client::Error> {
/// use lmcp::{Client, upstream};
///
/// let client = Client::connect(upstream::command("npx").args(["-y", "some-server"]).env("LANG", "C")).await?;
/// # Ok(())
/// # }
/// ```
pub fn command(program: impl Into<OsString>) -> CommandTarget {
    CommandTarget(Command::new(program))
}

/// A server in this process, in any revision: for tests that show what older clients see.
///
/// Messages travel through a pipe in memory, as they would on a socket. [`Client::connect`](lmcp_core::Client::connect) with the
/// server itself needs no pipe, and speaks the newest revision only.
///
/// ```
/// # use lmcp::{Client, Cx, NoArgs, Server, Tool};
/// # async fn hello(_: NoArgs, _: Cx) -> &'static str { "hello" }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use lmcp::wire::ProtocolVersion;
///
/// let server = Server::new("greeter", "1.0.0").tool(Tool::new("hello", hello).about("Say hello.").read_only());
/// let server = server.start().unwrap();
/// for version in ProtocolVersion::ALL {
///     let target = lmcp::upstream::in_process(server.clone());
///     let client = Client::builder().version(version).connect(target).await.unwrap();
///     let result = client.call_tool("hello", serde_json::json!({})).await.unwrap();
///     assert_eq!(result.content[0].as_text(), Some("hello"));
/// }
/// # });
/// ```
pub fn in_process(server: impl Into<Endpoint>) -> InProcessTarget {
    InProcessTarget {
        server: server.into(),
        caller: Caller::new(Transport::Memory),
    }
}

/// A server behind a URL, as the target of a client.
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

    /// Sends this token with every request, for a program that holds it as a [`Secret`].
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

    /// Sends the token and the headers over plain `http`, too. Without this, they travel over plain `http` to a server on loopback only,
    /// and only if that server runs as this user or as root. macOS and Windows do not tell which user a server runs as, so that a
    /// token for a server on loopback needs this call there. On the way to another machine, everybody can read what is sent.
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

    /// Uses the proxy and the certificates that the environment names: `HTTPS_PROXY` and the like, `SSL_CERT_FILE`.
    pub fn from_env(mut self) -> Self {
        let certificate = self.settings.outbound.client_certificate.take();
        self.settings.outbound = outbound::Settings::from_env(|name| std::env::var(name).ok());
        self.settings.outbound.client_certificate = certificate;
        self
    }

    /// Returns the route to the server, for an [`Upstream`].
    ///
    /// # Errors
    /// The URL is not valid, a header cannot be sent, or a file cannot be read.
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

/// A server on a unix socket, as the target of a client.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct SocketTarget {
    path: PathBuf,
    token: Option<Secret>,
}

impl SocketTarget {
    /// Shows this token in the first line, to a server that asks for one: see `Unix::token`. A server of another user is not shown it,
    /// unless that user is root.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let target = lmcp::upstream::socket("/run/user/1000/notes.sock").token(std::env::var("ANNS_TOKEN")?);
    /// let client = lmcp::Client::connect(target).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(mut self, token: impl AsRef<str>) -> Self {
        self.token = Some(Secret::new(token));
        self
    }

    /// Shows a token as [`token`](Self::token) does, for a program that holds it as a [`Secret`].
    pub fn secret(mut self, token: Secret) -> Self {
        self.token = Some(token);
        self
    }

    /// Returns the route to the server, for an [`Upstream`].
    pub fn route(self) -> Route {
        match self.token {
            Some(token) => Route::SocketWithToken(self.path, token),
            None => Route::Socket(self.path),
        }
    }
}

/// A server that is started as a program, as the target of a client.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct CommandTarget(Command);

impl CommandTarget {
    /// Adds an argument.
    pub fn arg(self, arg: impl Into<OsString>) -> Self {
        Self(self.0.arg(arg))
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        Self(self.0.args(args))
    }

    /// Sets a variable for the program, beside those of this process.
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Self(self.0.env(name, value))
    }

    /// Sets the folder that the program works in.
    pub fn current_dir(self, folder: impl Into<PathBuf>) -> Self {
        Self(self.0.current_dir(folder))
    }

    /// Returns the route to the server, for an [`Upstream`].
    pub fn route(self) -> Route {
        Route::Command(self.0)
    }
}

/// A server in this process.
#[derive(Clone, Debug)]
#[must_use = "a client is connected to it"]
pub struct InProcessTarget {
    server: Endpoint,
    caller: Caller,
}

impl InProcessTarget {
    /// Calls as this caller, with a name and a role for example.
    pub fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }
}

impl Target for InProcessTarget {
    async fn connect(self, settings: &Settings) -> Result<Endpoint, Error> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let given = Given::new("the server in this process", Box::new(ours));
        let upstream = Upstream::builder(Route::Given(given))
            .settings(settings)
            .build();
        let (reader, writer) = tokio::io::split(theirs);
        let caller = self.caller.extended(KeepsKeys);
        let connection = streams(reader, writer, caller);
        // A pipe in memory does not fail; it ends when the client closes it.
        upstream.run_beside(async move { drop(self.server.serve(connection).await) });
        upstream.ready().await?;
        Ok(Endpoint::new(upstream))
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

/// The number of bytes that the pipe to a server in this process holds in each direction, the same as a pipe of the system.
const PIPE_BYTES: usize = 64 << 10;

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
