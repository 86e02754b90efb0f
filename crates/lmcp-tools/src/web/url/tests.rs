//! Addresses as people write them, and what they mean.

use super::*;

fn parse(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) => url.to_string(),
        Err(flaw) => format!("{flaw:?}"),
    }
}

#[test]
fn addresses_are_read_as_browsers_read_them() {
    for (text, url) in [
        (" HTTP://Example.COM ", "http://example.com/"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com:443", "https://example.com/"),
        ("https://example.com:8443?q", "https://example.com:8443/?q"),
        ("http:example.com", "http://example.com/"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        (
            "http://example.com/a/../b/./c/%2E%2e/d",
            "http://example.com/b/d",
        ),
        ("http://example.com/../..", "http://example.com/"),
        ("http://example.com/a/.", "http://example.com/a/"),
        (
            "http://example.com/ä b?ü'<#ö\"",
            "http://example.com/%C3%A4%20b?%C3%BC%27%3C#%C3%B6%22",
        ),
        ("http://ex\nample.com/\t", "http://example.com/"),
        ("http://%65xample.com", "http://example.com/"),
        ("http://0x7f.1", "http://127.0.0.1/"),
        ("http://256", "http://0.0.1.0/"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://a_b.example./", "http://a_b.example./"),
    ] {
        assert_eq!(parse(text), url, "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused() {
    for text in [
        "http://",
        "http:///",
        "http://a..b",
        "http://1.2.3.4.5",
        "http://256.1.1.1",
        "http://0x100000000",
        "http://1.2.3.09",
        "http://a%00b",
        "http://a<b",
        "http://[::1",
        "http://[fe80::1%25eth0]",
        "http://a%2fb",
        "http://a:b",
        "http://a:0",
        "http://-\u{ad}",
        "http://\u{ff11}27.0.0.1",
    ] {
        assert!(Url::parse(text).is_err(), "{text}: {}", parse(text));
    }
    assert_eq!(Url::parse("http://a@b"), Err(Flaw::Userinfo));
    assert_eq!(
        Url::parse(&format!("http://a/{}", "a".repeat(9000))),
        Err(Flaw::TooLong)
    );
}

#[test]
fn references_are_resolved_by_the_book() {
    // RFC 3986, 5.4, as far as `http` goes.
    let base = Url::parse("http://a/b/c/d;p?q").unwrap();
    for (reference, url) in [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"),
        ("g?y/./x", "http://a/b/c/g?y/./x"),
        ("http:g", "http://a/b/c/g"),
        ("https:g", "https://g/"),
        ("http:/x", "http://a/x"),
        ("\\\\g\\x", "http://g/x"),
    ] {
        assert_eq!(
            base.join(reference).unwrap().to_string(),
            url,
            "{reference}"
        );
    }
    assert_eq!(base.join("mailto:a@b"), Err(Flaw::Scheme("mailto".into())));
}

#[test]
fn parameters_are_written_and_read() {
    let url = Url::parse("http://a/b?c=d")
        .unwrap()
        .with_query(&[("q", "a b&c=ü+")]);
    assert_eq!(url.to_string(), "http://a/b?q=a%20b%26c%3D%C3%BC%2B");
    assert_eq!(url.parameter("q").as_deref(), Some("a b&c=ü+"));
    assert_eq!(url.parameter("c"), None);
}

proptest::proptest! {
    #[test]
    fn what_was_read_once_is_read_the_same_again(text in "(?s)https?:.{0,40}", reference in "(?s).{0,30}") {
        if let Ok(url) = Url::parse(&text) {
            proptest::prop_assert_eq!(Url::parse(&url.to_string()), Ok(url.clone()));
            if let Ok(there) = url.join(&reference) {
                proptest::prop_assert_eq!(Url::parse(&there.to_string()), Ok(there.clone()));
                proptest::prop_assert!(there.target().parse::<::http::Uri>().is_ok());
            }
        }
    }
}
