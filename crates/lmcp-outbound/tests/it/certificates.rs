//! Who we are, and what is said of it.

use lmcp_outbound::{ClientCertificate, Settings};

use crate::{
    get,
    server::{self, Certificate},
};

#[tokio::test]
async fn a_server_that_wants_a_certificate_sees_ours() {
    let (theirs, ours, other) = (
        Certificate::new("localhost"),
        Certificate::new("client"),
        Certificate::new("other"),
    );
    let address = server::secure(&theirs, Some(&ours));
    let ask = async |shown: Option<&Certificate>| {
        let mut settings = Settings::default();
        settings.ca_file = Some(theirs.certificate.clone());
        settings.client_certificate =
            shown.map(|shown| ClientCertificate::new(&shown.certificate, &shown.key));
        get(settings, &format!("https://localhost:{}/", address.port())).await
    };
    ask(Some(&ours)).await.unwrap();
    for shown in [None, Some(&other)] {
        let words = ask(shown).await.unwrap_err();
        assert!(words.contains("Insecure"), "{words}");
        assert!(
            words.contains("does not take our certificate, or wants one"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn files_that_hold_no_certificate_or_key_are_named() {
    let certificate = Certificate::new("localhost");
    let address = server::secure(&certificate, None);
    let (good, key) = (&certificate.certificate, &certificate.key);
    let missing = &good.with_file_name("missing.pem");
    for (ca_file, ours, named) in [
        (missing, None, missing),
        (key, None, key),
        (good, Some((missing, key)), missing),
        (good, Some((good, missing)), missing),
        (good, Some((good, good)), good),
    ] {
        let mut settings = Settings::default();
        settings.ca_file = Some(ca_file.clone());
        settings.client_certificate = ours.map(|(cert, key)| ClientCertificate::new(cert, key));
        let url = format!("https://localhost:{}/", address.port());
        let words = get(settings, &url).await.unwrap_err();
        assert!(words.contains(&*named.to_string_lossy()), "{words}");
        assert!(words.starts_with("Refused"), "{words}");
    }
}
