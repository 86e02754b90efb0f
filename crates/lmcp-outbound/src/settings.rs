//! What an operator says about the way out.

use std::path::PathBuf;

use crate::Proxies;

/// Whom to trust, who we are, and through which proxy.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// More certificates to trust, as PEM, besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Shown to servers that ask who we are. Proxies never see it.
    pub client_certificate: Option<ClientCertificate>,
    /// Which URLs go through a proxy.
    pub proxies: Proxies,
}

/// A certificate for clients, and the key that proves that it is ours.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// The certificate and those that lead from it to a root, as PEM.
    pub certificate: PathBuf,
    /// The key, as PEM.
    pub key: PathBuf,
}

impl Settings {
    /// The settings as the environment has them: `SSL_CERT_FILE`, and the variables of [`Proxies::from_env`]. An empty
    /// value is as good as none.
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
