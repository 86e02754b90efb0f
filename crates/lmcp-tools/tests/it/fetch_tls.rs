//! `fetch` over TLS: whom it trusts, and what it says of others.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

use crate::site::{Site, call, client, failure, loopback, send, text};
use base64::Engine;
use lmcp_tools::Settings;
use serde_json::json;
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};

/// A site with a certificate that it made itself.
struct SecureSite {
    address: SocketAddr,
    /// The certificate, as PEM.
    certificate: PathBuf,
    _folder: tempfile::TempDir,
}

impl SecureSite {
    fn new(name: &str, answer: impl Fn(&mut dyn Write) + Send + 'static) -> Self {
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
                // Who does not trust us says so instead of asking.
                if stream.read(&mut [0; 8192]).is_ok() {
                    answer(&mut stream);
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            }
        });
        Self {
            address,
            certificate,
            _folder: folder,
        }
    }

    fn hello(name: &str) -> Self {
        Self::new(name, |mut stream| {
            send(
                &mut stream,
                "200 OK",
                &[("Content-Type", "text/plain")],
                b"hello",
            );
        })
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }

    /// Settings that trust it.
    fn trusted(&self) -> Settings {
        let mut settings = reachable();
        settings.web.outbound.ca_file = Some(self.certificate.clone());
        settings
    }
}

/// `localhost` may be reached.
fn reachable() -> Settings {
    let mut settings = loopback();
    settings.web.allow.push("localhost".parse().unwrap());
    settings
}

#[tokio::test]
async fn a_certificate_of_the_operator_is_trusted() {
    let site = SecureSite::hello("localhost");
    let (_, value) = call(
        &client(site.trusted()),
        "fetch",
        json!({ "url": site.url() }),
    )
    .await;
    assert_eq!(value["body"], "hello");
}

#[tokio::test]
async fn an_unknown_certificate_is_refused() {
    let site = SecureSite::hello("localhost");
    let text = failure(&client(reachable()), "fetch", json!({ "url": site.url() })).await;
    assert!(
        text.contains("`localhost` (TLS)") && text.contains("UnknownIssuer"),
        "{text}"
    );
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let site = SecureSite::hello("other.example");
    let text = failure(
        &client(site.trusted()),
        "fetch",
        json!({ "url": site.url() }),
    )
    .await;
    assert!(
        text.contains("(TLS)") && text.contains("not valid for name"),
        "{text}"
    );
}

#[tokio::test]
async fn a_site_without_encryption_is_no_secure_one() {
    let site = Site::new(|_, stream| send(stream, "200 OK", &[], b"hello"));
    let url = format!("https://{}/", site.address);
    let text = failure(
        &client(loopback()),
        "fetch",
        json!({ "url": url, "timeout_s": 2 }),
    )
    .await;
    assert!(
        text.contains("encryption") || text.contains("(TLS)"),
        "{text}"
    );
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_named() {
    let site = SecureSite::hello("localhost");
    let mut settings = site.trusted();
    settings.web.outbound.ca_file = Some("/no/such/file.pem".into());
    let text = failure(&client(settings), "fetch", json!({ "url": site.url() })).await;
    assert!(text.contains("/no/such/file.pem"), "{text}");
}

#[tokio::test]
async fn a_redirect_to_an_unprotected_page_is_reported() {
    let plain = Site::of("text/plain", "hello");
    let to = plain.url("/");
    let site = SecureSite::new("localhost", move |mut stream| {
        send(&mut stream, "302 Found", &[("Location", &to)], b"");
    });
    let (result, value) = call(
        &client(site.trusted()),
        "fetch",
        json!({ "url": site.url() }),
    )
    .await;
    assert_eq!(
        (&value["body"], &value["downgraded"]),
        (&json!("hello"), &json!(true))
    );
    assert!(text(&result).contains("from https to http"));
}
