//! TLS: the servers that a link trusts, and the errors for others.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use base64::Engine;
use lmcp_client::{Endpoint, Error, Settings};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};

use crate::support::{Client, NEWEST};

/// A server with a certificate that it made itself, which answers a ping.
struct Secure {
    address: SocketAddr,
    /// The certificate, as PEM.
    certificate: PathBuf,
    _folder: tempfile::TempDir,
}

impl Secure {
    fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let der: CertificateDer<'static> = made.cert.der().clone();
        let folder = tempfile::tempdir().unwrap();
        let certificate = folder.path().join("ca.pem");
        let pem = base64::engine::general_purpose::STANDARD.encode(&der);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n");
        std::fs::write(&certificate, pem).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], key.into())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream);
                let mut head = Vec::new();
                let mut piece = [0; 4096];
                // A client that does not trust the server sends an alert instead of a request.
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    head.extend_from_slice(&piece[..count]);
                    let text = String::from_utf8_lossy(&head);
                    if text.ends_with("\r\n\r\n") && text.contains("upgrade: echo") {
                        let _ = write!(
                            stream,
                            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"
                        );
                        let _ = stream.flush();
                        while let Ok(count @ 1..) = stream.read(&mut piece) {
                            let _ = stream.write_all(&piece[..count]);
                            let _ = stream.flush();
                        }
                        break;
                    }
                    if head.ends_with(b"}") {
                        let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
                        let length = body.len();
                        let _ = write!(
                            stream,
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
                        );
                        let _ = stream.flush();
                        break;
                    }
                }
            }
        });
        Self {
            address,
            certificate,
            _folder: folder,
        }
    }

    /// Returns settings that trust the server, under a name.
    fn settings(&self, name: &str) -> Settings {
        let mut settings = Settings::new(format!("https://{name}:{}/mcp", self.address.port()));
        settings.outbound.ca_file = Some(self.certificate.clone());
        settings
    }
}

async fn refused(settings: Settings) -> String {
    match Endpoint::new(settings).unwrap().open().await {
        Err(Error::Refused(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_certificate_of_the_operator_is_trusted() {
    let site = Secure::new("localhost");
    let mut client = Client::open(site.settings("localhost"), NEWEST).await;
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn a_connection_goes_on_in_another_protocol_and_stays_encrypted() {
    let site = Secure::new("localhost");
    let mut settings = site.settings("localhost");
    settings.bearer = Some(lmcp_client::Secret::new("s3cret"));
    let endpoint = Endpoint::new(settings.clone()).unwrap();
    let (_, mut stream) = endpoint.upgrade("echo").await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.flush().await.unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
    drop(stream);
    settings.outbound.ca_file = None;
    let unknown = Endpoint::new(settings).unwrap().upgrade("echo").await;
    let words = unknown.err().unwrap().to_string();
    assert!(words.contains("UnknownIssuer"), "{words}");
}

#[tokio::test]
async fn an_unknown_certificate_or_another_name_is_refused() {
    let site = Secure::new("localhost");
    let mut unknown = site.settings("localhost");
    unknown.outbound.ca_file = None;
    assert!(refused(unknown).await.contains("UnknownIssuer"));
    let words = refused(site.settings("127.0.0.1")).await;
    assert!(words.contains("not valid for name"), "{words}");
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_named() {
    let mut settings = Secure::new("localhost").settings("localhost");
    settings.outbound.ca_file = Some("/no/such/file.pem".into());
    assert!(refused(settings).await.contains("/no/such/file.pem"));
}

#[tokio::test]
async fn a_server_without_encryption_is_no_secure_one() {
    let running = crate::support::serve(crate::support::server()).await;
    let words = refused(Settings::new(format!("https://{}/mcp", running.address))).await;
    assert!(words.contains("(TLS)"), "{words}");
}
