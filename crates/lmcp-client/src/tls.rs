//! Encryption: made ready on first use, so that whoever speaks plain HTTP pays nothing for it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{io, net::TcpStream, sync::OnceCell, task::spawn_blocking};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::error::{Error, chain};

/// Whom to trust: the roots of Mozilla, and those of the operator.
#[derive(Debug)]
pub(crate) struct Tls {
    /// More roots, as PEM.
    ca_file: Option<PathBuf>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            config: OnceCell::new(),
        }
    }

    /// Agrees on keys with a host, which must prove that it is the one. `host` is a name or an address.
    pub(crate) async fn encrypt(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let name = host.strip_suffix('.').unwrap_or(host).to_owned();
        let name = ServerName::try_from(name)
            .map_err(|err| Error::Refused(format!("`{host}` cannot be verified: {err}")))?;
        let config = self
            .config
            .get_or_try_init(|| configure(self.ca_file.clone()));
        let connector = TlsConnector::from(Arc::clone(config.await?));
        let agreed = connector.connect(name, stream).await;
        agreed.map_err(|err| failed(host, &err))
    }
}

async fn configure(ca_file: Option<PathBuf>) -> Result<Arc<ClientConfig>, Error> {
    let made = spawn_blocking(move || configure_now(ca_file.as_deref())).await;
    made.unwrap_or_else(|err| Err(Error::Unreachable(err.to_string())))
        .map(Arc::new)
}

fn configure_now(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    // Named, not the process's default: with two providers in one program there is none.
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| Error::Refused(err.to_string()))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let failed = |why: String| {
        let path = path.display();
        Error::Refused(format!("cannot read the certificates in `{path}`: {why}"))
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|err| failed(chain(&err)))?;
    // Bundles of systems hold odd ones; those that can be read count.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(failed("it holds none in PEM".to_owned()));
    }
    Ok(())
}

/// What the two could not agree on stays so; what happened on the way may not happen again.
fn failed(host: &str, err: &io::Error) -> Error {
    let words = format!("no secure connection to `{host}` (TLS): {}", chain(err));
    match err.get_ref().map(|err| err.is::<rustls::Error>()) {
        Some(true) => Error::Refused(format!(
            "{words}; is the address right? more certificates are trusted with SSL_CERT_FILE"
        )),
        _ => Error::Unreachable(words),
    }
}
