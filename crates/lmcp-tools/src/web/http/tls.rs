//! Encryption: made ready on first use, so that a server that fetches nothing pays nothing for it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use lmcp_core::{ToolError, ToolResult};
use tokio::{io, net::TcpStream};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::{blocking::housekeeping, web::url::Host};

/// Whom to trust: the roots of Mozilla, and those of the operator.
#[derive(Debug)]
pub(crate) struct Tls {
    /// More roots, as PEM.
    ca_file: Option<PathBuf>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            config: OnceLock::new(),
        }
    }

    /// Agrees on keys with a host, which must prove that it is the one.
    pub(super) async fn encrypt(
        &self,
        host: &Host,
        stream: TcpStream,
    ) -> ToolResult<TlsStream<TcpStream>> {
        let name = match host {
            Host::Name(name) => {
                let name = name.strip_suffix('.').unwrap_or(name).to_owned();
                ServerName::try_from(name).map_err(|err| {
                    ToolError::new(format!("`{host}` cannot be verified")).source(err)
                })?
            }
            Host::V4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::V6(address) => ServerName::from(std::net::IpAddr::from(*address)),
        };
        let connector = TlsConnector::from(self.config().await?);
        let agreed = connector.connect(name, stream).await;
        agreed.map_err(|err| failed(host, err))
    }

    async fn config(&self) -> ToolResult<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let ca_file = self.ca_file.clone();
        let config = housekeeping(move || configure(ca_file.as_deref())).await?;
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
}

fn configure(ca_file: Option<&Path>) -> ToolResult<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    // Named, not the process's default: with two providers in one program there is none.
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> ToolResult<()> {
    let failed = || {
        ToolError::new(format!(
            "cannot read the operator's certificates in `{}`",
            path.display()
        ))
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|err| failed().source(err))?;
    // Bundles of systems hold odd ones; those that can be read count.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(failed().hint("it holds no certificate in PEM"));
    }
    Ok(())
}

fn failed(host: &Host, err: io::Error) -> ToolError {
    ToolError::new(format!("no secure connection to `{host}` (TLS)"))
        .source(err)
        .hint("the site's certificate may be wrong or unknown; the operator can trust more with SSL_CERT_FILE")
}
