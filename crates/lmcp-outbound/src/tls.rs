//! Encryption. It is prepared on first use, so that plain HTTP costs nothing for it.
//!
//! The roots are those of the system, read from the one file in which every distribution keeps them. The crate
//! `rustls-native-certs` would read more (folders of links, the stores of other systems), with two crates of 800 lines. A Linux
//! without such a file has no certificates at all; then the built-in roots of Mozilla are used. The file of macOS contains the
//! roots that Apple ships, but not those that a user added to a keychain. Windows has no such file.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{sync::OnceCell, task::spawn_blocking};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

use crate::{ClientCertificate, Error, Host, chain, connection::Stream};

/// The certificates to trust, and our own.
#[derive(Debug)]
pub(crate) struct Tls {
    files: Files,
    config: OnceCell<Arc<ClientConfig>>,
}

#[derive(Clone, Debug)]
struct Files {
    /// More roots, as PEM.
    ca_file: Option<PathBuf>,
    client_certificate: Option<ClientCertificate>,
}

impl Tls {
    pub(crate) fn new(
        ca_file: Option<PathBuf>,
        client_certificate: Option<ClientCertificate>,
    ) -> Self {
        let files = Files {
            ca_file,
            client_certificate,
        };
        Self {
            files,
            config: OnceCell::new(),
        }
    }

    /// Makes a TLS connection to a host, which must prove its identity.
    pub(crate) async fn encrypt(&self, host: &Host, stream: Stream) -> Result<Stream, Error> {
        let name = match host.address() {
            Some(address) => ServerName::from(address),
            None => {
                let name = host.to_string();
                let name = name.strip_suffix('.').unwrap_or(&name).to_owned();
                ServerName::try_from(name)
                    .map_err(|err| Error::Insecure(format!("`{host}` cannot be verified: {err}")))?
            }
        };
        let config = self.config.get_or_try_init(|| self.files.clone().load());
        let connector = TlsConnector::from(Arc::clone(config.await?));
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(err) => Err(failed(host, &err)),
        }
    }
}

impl Files {
    async fn load(self) -> Result<Arc<ClientConfig>, Error> {
        let made = spawn_blocking(move || self.load_now()).await;
        made.unwrap_or_else(|err| Err(Error::Unreachable(err.to_string())))
            .map(Arc::new)
    }

    fn load_now(&self) -> Result<ClientConfig, Error> {
        let mut roots = system_roots();
        if let Some(path) = &self.ca_file {
            add_file(&mut roots, path)?;
        }
        // The provider is named here: with two providers in one program, the process has no default one.
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|err| Error::Refused(err.to_string()))?
            .with_root_certificates(roots);
        let mut config = match &self.client_certificate {
            None => builder.with_no_client_auth(),
            Some(ours) => {
                let certificates = certificates(&ours.certificate)?;
                let key = PrivateKeyDer::from_pem_file(&ours.key).map_err(|err| {
                    let path = ours.key.display();
                    Error::Refused(format!("cannot read the key in `{path}`: {}", chain(&err)))
                })?;
                builder
                    .with_client_auth_cert(certificates, key)
                    .map_err(|err| {
                        let path = ours.certificate.display();
                        let why = chain(&err);
                        Error::Refused(format!("the certificate in `{path}` cannot be used: {why}"))
                    })?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Returns the roots of the system, or those of Mozilla if the system has none.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for path in BUNDLES {
        if add_file(&mut roots, Path::new(path)).is_ok() {
            return roots;
        }
    }
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    // Bundles of systems may contain certificates that cannot be read. The others are used.
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(unread(path, "none of them can be a root"));
    }
    Ok(())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|err| unread(path, &chain(&err)))?;
    if certificates.is_empty() {
        return Err(unread(path, "it holds none in PEM"));
    }
    Ok(certificates)
}

fn unread(path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::Refused(format!("cannot read the certificates in `{path}`: {why}"))
}

/// Makes the error of a failed handshake: final if the two could not agree, else worth another try.
fn failed(host: &Host, err: &io::Error) -> Error {
    let words = format!("no secure connection to `{host}` (TLS): {}", chain(err));
    match err.get_ref().map(|err| err.is::<rustls::Error>()) {
        Some(true) => Error::Insecure(words),
        _ => Error::Unreachable(words),
    }
}

/// The files in which distributions keep their roots.
const BUNDLES: [&str; 5] = [
    // Debian, Ubuntu, Arch, Gentoo, Alpine, Nix
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora, Red Hat
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    // openSUSE
    "/etc/ssl/ca-bundle.pem",
    // Alpine, Void, macOS
    "/etc/ssl/cert.pem",
];
