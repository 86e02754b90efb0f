//! URLs as people write them, and their meanings.

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
        "http://0x7f42949672964294967296",
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
    // The cases of RFC 3986, 5.4, that apply to `http`.
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

/// Pieces of URLs, and some other pieces. `^` is missing: the standard encodes it, and the other parser does not yet.
fn pieces() -> impl proptest::strategy::Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "http:",
        "https:",
        "HTTP:",
        "ftp:",
        "//",
        "/",
        "\\",
        "?",
        "#",
        ":",
        "@",
        ".",
        "..",
        "%2e",
        "%2E%2e",
        "%",
        "%41",
        "%zz",
        "a",
        "B",
        "xy.example",
        "EXAMPLE.",
        "127.1",
        "0x7f",
        "1",
        "256",
        "08",
        "4294967296",
        "[",
        "]",
        "[::1]",
        "[::ffff:1.2.3.4]",
        "[1::2:0:0:3]",
        ":80",
        ":443",
        ":8080",
        ":0",
        ":65536",
        ":",
        " ",
        "\t",
        "\n",
        "ä",
        "'",
        "\"",
        "<",
        ">",
        "`",
        "{",
        "}",
        "|",
        "~",
        "!",
        "$",
        "&",
        "=",
        "+",
        "*",
        "-",
        "_",
        ";",
        ",",
        "\u{7f}",
        "\0",
    ]);
    use proptest::strategy::Strategy as _;
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Whether the difference is intended. Names and passwords, port 0, and hosts that no resolver finds are refused here.
fn is_stricter(theirs: &::url::Url) -> bool {
    let has_user = !theirs.username().is_empty() || theirs.password().is_some();
    let host = match theirs.host() {
        Some(::url::Host::Domain(host)) => host.trim_end_matches('.'),
        _ => "",
    };
    let odd = |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'.');
    has_user
        || theirs.port() == Some(0)
        || host.bytes().any(odd)
        || host.split('.').any(|label| label.len() > 63)
        || theirs
            .host_str()
            .is_some_and(|host| host.contains("..") || host.starts_with('.'))
        || !matches!(theirs.scheme(), "http" | "https")
}

fn has_many_slashes(text: &str) -> bool {
    let text = clean(text).unwrap_or_default();
    let rest = split_scheme(&text).map_or(&*text, |(_, rest)| rest);
    rest.chars().take_while(|c| is_slash(*c)).count() > 2
}

/// Both parsers read the same, or neither accepts the text. Hosts that are not ASCII are not compared.
fn agree(
    text: &str,
    ours: Result<Url, Flaw>,
    theirs: impl FnOnce() -> Result<::url::Url, ::url::ParseError>,
) -> Option<(Url, ::url::Url)> {
    let is_ascii = clean(text).is_ok_and(|text| decode(&text).is_ascii());
    if ours.is_err() && !is_ascii {
        return None;
    }
    match (ours, theirs()) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours.to_string(), theirs.as_str());
            return Some((ours, theirs));
        }
        // By the standard, any number of slashes may be before a host. The other parser wants two.
        (Ok(_), Err(::url::ParseError::EmptyHost)) if has_many_slashes(text) => {}
        (Ok(ours), Err(err)) => panic!("only we read `{ours}`: {err}"),
        (Err(Flaw::Userinfo), _) | (Err(_), Err(_)) => {}
        (Err(flaw), Ok(theirs)) => {
            assert!(is_stricter(&theirs), "only they read `{theirs}`: {flaw:?}");
        }
    }
    None
}

proptest::proptest! {
    #[test]
    fn another_parser_reads_the_same(text in pieces(), reference in pieces()) {
        let text = format!("http://{text}");
        if let Some((ours, theirs)) = agree(&text, Url::parse(&text), || ::url::Url::parse(&text)) {
            agree(&reference, ours.join(&reference), || theirs.join(&reference));
        }
    }

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
