//! A server on loopback that answers every request with what it was asked, with or without encryption.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    thread,
};

use base64::Engine as _;
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

/// Answers with the head of each request.
pub(crate) fn plain() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// A certificate with its key, in files.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    der: CertificateDer<'static>,
    key_der: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Certificate {
    pub(crate) fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        let der: CertificateDer<'static> = made.cert.der().clone();
        let key_der = made.signing_key.serialize_der();
        std::fs::write(&certificate, pem("CERTIFICATE", &der)).unwrap();
        std::fs::write(&key, pem("PRIVATE KEY", &key_der)).unwrap();
        Self {
            certificate,
            key,
            der,
            key_der,
            _folder: folder,
        }
    }
}

fn pem(kind: &str, der: &[u8]) -> String {
    let coded = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN {kind}-----\n{coded}\n-----END {kind}-----\n")
}

/// The same, encrypted, with a certificate. With the one of a client, for that client alone.
pub(crate) fn secure(ours: &Certificate, theirs: Option<&Certificate>) -> SocketAddr {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match theirs {
        None => builder.with_no_client_auth(),
        Some(theirs) => {
            let mut roots = RootCertStore::empty();
            roots.add(theirs.der.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivatePkcs8KeyDer::from(ours.key_der.clone());
    let config = builder.with_single_cert(vec![ours.der.clone()], key.into());
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            thread::spawn(move || answer(StreamOwned::new(connection, stream)));
        }
    });
    address
}

fn answer(stream: impl Read + Write) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{head}");
    let _ = stream.get_mut().write_all(answer.as_bytes());
    let _ = stream.get_mut().flush();
    // Whoever asked hangs up.
    let _ = stream.read(&mut [0]);
}
