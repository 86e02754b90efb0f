//! `lmcp proxy`: runs without a log, and for sockets without a runtime, because every client has a proxy.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use lmcp::embed::{Above, above};
use lmcp_proxy::{ClientCertificate, Endpoint, Identity, Outbound, Secret, Settings, Target, Way};

use crate::{
    daemon::Daemon,
    private,
    report::{self, Failure},
    socket,
};

/// The options of `lmcp proxy`.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The path of a unix socket, or a URL. Without it, the proxy takes the
    /// first of these that exists: the socket in the file of --identity-file;
    /// the one in LMCP_SOCKET; the one in the file of LMCP_IDENTITY_FILE; the
    /// server of the nearest parent process that has an identity; your own
    /// server at $XDG_RUNTIME_DIR/lmcp/serve.sock, which the proxy starts if
    /// need be.
    #[arg(value_name = "TARGET", verbatim_doc_comment)]
    target: Option<String>,

    /// Connect to your own server, even if this process or a parent of it has
    /// an identity.
    #[arg(
        long,
        conflicts_with_all = ["target", "identity_file"],
        verbatim_doc_comment
    )]
    own: bool,

    /// Wait for your own server, and do not start it.
    #[arg(long)]
    no_start: bool,

    /// The file with the identity of the caller, which only you can read:
    /// {"socket": PATH, "identity": TOKEN}. The proxy reads the file for each
    /// connection, and shows it to the server of that socket only.
    /// [env: LMCP_IDENTITY_FILE, or LMCP_IDENTITY_FD for a descriptor]
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    identity_file: Option<PathBuf>,

    /// The file with the token for a URL, which only you can read.
    /// [env: LMCP_TOKEN_FILE, or the token itself in LMCP_TOKEN]
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    token_file: Option<PathBuf>,

    /// The file with a client certificate (PEM), for a URL that asks for one.
    #[arg(long, value_name = "FILE")]
    client_cert: Option<PathBuf>,

    /// The file with the key of the certificate (PEM), which only you can
    /// read. Without it, the key is in the file of the certificate.
    #[arg(
        long,
        value_name = "FILE",
        requires = "client_cert",
        verbatim_doc_comment
    )]
    client_key: Option<PathBuf>,

    /// Send the token over plain http, too. Others on the way can read it,
    /// and a program of another user on this machine may receive it.
    #[arg(long, verbatim_doc_comment)]
    plain_secrets: bool,
}

impl Options {
    /// Returns the options, if the command line is only this command and nothing special: parsing this one command takes far
    /// less memory than parsing all commands.
    pub(crate) fn alone(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let name = args.nth(1)?;
        let is_it = [NAME, ALIAS].iter().any(|known| name == OsStr::new(known));
        if !is_it {
            return None;
        }
        Self::try_parse_from(std::iter::once(name).chain(args)).ok()
    }
}

/// The exit code for a missing permission, as in `sysexits.h`.
const REFUSED: u8 = 77;

/// The name of the command, and its name in another program.
const NAME: &str = "proxy";
pub(crate) const ALIAS: &str = "mcp-stdio";

pub(crate) const AFTER: &str = "\
When the server is lost, calls that it had begun fail, with an error whose data
says \"retriable\": true. Later calls wait up to 30 s for the server to return.
The proxy ends with its client: with 0 if every call was answered, else with 1.
It ends with 77 if the server refuses it, or if the program that gave it its
identity has ended.

  claude mcp add tools -- lmcp proxy
  lmcp serve --unix /run/user/1000/lmcp.sock
  claude mcp add tools -- lmcp proxy /run/user/1000/lmcp.sock
  claude mcp add far -- lmcp proxy --token-file FILE https://far.example/mcp

A URL is reached through the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, but
not if it is on this machine or in NO_PROXY. The certificates of the system are
trusted, and those in SSL_CERT_FILE.";

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut note = |words: &str| report::note(&format!("lmcp: {words}"));
    let ending = match target(options)? {
        Some(Target::Url(url)) => {
            let endpoint = endpoint(options, url)?;
            let ended = lmcp_proxy::run_url(&endpoint, &mut note);
            ended.map_err(|err| Failure::new("cannot start", err))?
        }
        target => lmcp_proxy::run(&way(options, target)?, &mut note),
    };
    Ok(ending.into())
}

fn target(options: &Options) -> Result<Option<Target>, Failure> {
    let named = match &options.target {
        Some(target) => Some(target.clone()),
        // The command line already selects a server.
        None if options.own || options.identity_file.is_some() => None,
        None => variable("LMCP_SOCKET")?,
    };
    let target = named.as_deref().map(Target::parse);
    target.transpose().map_err(misuse)
}

fn way(options: &Options, target: Option<Target>) -> Result<Way, Failure> {
    let for_urls = [
        ("--token-file", &options.token_file),
        ("--client-cert", &options.client_cert),
    ];
    if let Some((option, _)) = for_urls.iter().find(|(_, file)| file.is_some()) {
        let failure = Failure::misuse(format!("{option} is for a URL, and this is a socket"));
        return Err(failure.hint("a socket asks for --identity-file, if for anything"));
    }
    if options.plain_secrets {
        let failure = Failure::misuse("--plain-secrets is for a URL, and this is a socket");
        return Err(failure.hint("an identity is shown to servers of this user alone"));
    }
    if !options.own {
        let identity = identity(options)?;
        if target.is_some() || identity.is_some() {
            return Way::new(target, identity).map_err(misuse);
        }
        if let Some(way) = way_of_above()? {
            return Ok(way);
        }
    }
    let own = socket::own()?;
    let way = Way::new(Some(Target::Socket(own.path())), None).map_err(misuse)?;
    if options.no_start {
        return Ok(way);
    }
    let daemon = Daemon::new(own);
    Ok(way.starting(move || daemon.start()))
}

/// Returns the way to the server of a process above this one. A stripped environment must not lead a child with few rights
/// to a server with all rights: the user's own server is used only if no process above has an identity.
fn way_of_above() -> Result<Option<Way>, Failure> {
    let refused = |words: String| {
        Failure::of(words)
            .code(REFUSED)
            .hint("`lmcp proxy --own` goes to your own server instead")
    };
    match above() {
        Above::Nobody => Ok(None),
        Above::Identity(file) => {
            let way = Way::new(None, Some(Identity::inherited(file)));
            way.map(Some)
                .map_err(|err| refused(format!("a process above this one has an identity: {err}")))
        }
        Above::Unknown(why) => Err(refused(format!(
            "it cannot be told whether a process above this one has an identity: {why}"
        ))),
        _ => Err(refused(
            "it cannot be told whose process this is".to_owned(),
        )),
    }
}

/// Returns the endpoint for a URL. Identities in the environment are not used for it.
fn endpoint(options: &Options, url: String) -> Result<Endpoint, Failure> {
    if options.identity_file.is_some() {
        let failure = Failure::misuse("--identity-file is for a socket, and this is a URL");
        return Err(failure.hint("a URL asks for --token-file, if for anything"));
    }
    let mut settings = Settings::new(url);
    settings.bearer = token(options.token_file.as_deref())?;
    settings.plain_secrets = options.plain_secrets;
    settings.outbound = Outbound::from_env(|name| env::var(name).ok());
    settings.outbound.client_certificate = client_certificate(options)?;
    Endpoint::new(settings).map_err(|err| Failure::misuse(err.to_string()))
}

fn client_certificate(options: &Options) -> Result<Option<ClientCertificate>, Failure> {
    let Some(certificate) = &options.client_cert else {
        return Ok(None);
    };
    let key = options.client_key.as_ref().unwrap_or(certificate);
    private::read(key)?;
    Ok(Some(ClientCertificate::new(certificate, key)))
}

/// Returns the token for a URL: from the named file, or else from the environment.
pub(crate) fn token(file: Option<&Path>) -> Result<Option<Secret>, Failure> {
    let named = env::var_os("LMCP_TOKEN_FILE").map(PathBuf::from);
    if let Some(path) = file.map(Path::to_owned).or(named) {
        return Ok(Some(Secret::new(private::read(&path)?)));
    }
    Ok(variable("LMCP_TOKEN")?.map(Secret::new))
}

fn identity(options: &Options) -> Result<Option<Identity>, Failure> {
    if let Some(path) = &options.identity_file {
        return Ok(Some(Identity::file(path)));
    }
    if let Some(path) = env::var_os("LMCP_IDENTITY_FILE") {
        return Ok(Some(Identity::inherited(path)));
    }
    let Some(number) = variable("LMCP_IDENTITY_FD")? else {
        return Ok(None);
    };
    let number = number.parse().map_err(|_| {
        Failure::misuse(format!(
            "LMCP_IDENTITY_FD: `{number}` is not the number of a descriptor"
        ))
    })?;
    let identity = Identity::descriptor(number);
    identity.map(Some).map_err(misuse)
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn misuse(err: lmcp_proxy::Error) -> Failure {
    Failure::misuse(err.to_string())
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    let text = env::var_os(name).map(OsString::into_string).transpose();
    text.map_err(|_| Failure::misuse(format!("{name} is not UTF-8")))
}
