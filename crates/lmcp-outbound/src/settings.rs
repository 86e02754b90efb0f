//! The operator's settings for connections to other machines.

use std::path::PathBuf;

use crate::Proxies;

/// The certificates to trust, our own certificate, and the proxies.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// More certificates to trust, as PEM, besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our certificate for servers that ask for one. Proxies never see it.
    pub client_certificate: Option<ClientCertificate>,
    /// The proxies, and the URLs that go through them.
    pub proxies: Proxies,
}

/// A certificate for clients, and its private key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// The certificate, and the chain from it to a root, as PEM.
    pub certificate: PathBuf,
    /// The key, as PEM.
    pub key: PathBuf,
}

impl Settings {
    /// Reads the settings from the environment: `SSL_CERT_FILE`, and the variables of [`Proxies::from_env`]. An empty value
    /// counts as none.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let ca_file = lookup("SSL_CERT_FILE").map(|path| path.trim().to_owned());
        Self {
            ca_file: ca_file.filter(|path| !path.is_empty()).map(PathBuf::from),
            client_certificate: None,
            proxies: Proxies::from_env(lookup),
        }
    }
}

impl ClientCertificate {
    /// A certificate and its key, which may be in one file.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
        }
    }
}
