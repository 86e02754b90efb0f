//! What a body is, by what its server says, and by what it begins with where the server does not know.

use ::http::{HeaderMap, header};

use super::charset::is_utf8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Json,
    Text,
    /// One that clients can show.
    Image,
    Binary,
    /// The server does not know.
    Unknown,
}

impl Kind {
    pub(super) fn by_headers(headers: &HeaderMap) -> Self {
        Self::by_type(&media_type(headers))
    }

    /// By the media type, or by the bytes where that says nothing. What has zeros in it is no text, whatever it says.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let kind = Self::by_headers(headers);
        let begin = &body[..body.len().min(1024)];
        let wide = begin.starts_with(&[0xff, 0xfe])
            || begin.starts_with(&[0xfe, 0xff])
            || content_type(headers)
                .to_ascii_lowercase()
                .contains("utf-16");
        match kind {
            Self::Binary | Self::Image => kind,
            Self::Unknown if begin.contains(&0) && !wide => Self::Binary,
            Self::Unknown if looks_like_html(begin) => Self::Html,
            Self::Unknown if !wide && !is_utf8(begin, begin.len() < body.len()) => Self::Binary,
            Self::Unknown => Self::Text,
            Self::Html | Self::Json | Self::Text if begin.contains(&0) && !wide => Self::Binary,
            Self::Html | Self::Json | Self::Text => kind,
        }
    }

    fn by_type(media_type: &str) -> Self {
        match media_type {
            "" | "application/octet-stream" | "binary/octet-stream" | "application/unknown" => {
                Self::Unknown
            }
            "text/html" | "application/xhtml+xml" => Self::Html,
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Self::Image,
            "application/json" | "text/json" => Self::Json,
            name if name.ends_with("+json") => Self::Json,
            name if name.starts_with("text/") || name.ends_with("+xml") => Self::Text,
            name if TEXTS.contains(&name) => Self::Text,
            _ => Self::Binary,
        }
    }
}

/// What the server says it is, in whole.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    value.map_or_else(String::new, |value| {
        String::from_utf8_lossy(value.as_bytes()).into_owned()
    })
}

/// The same without parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let whole = content_type(headers);
    let name = whole.split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

fn looks_like_html(begin: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(begin)
        .trim_start()
        .to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|sign| begin.starts_with(sign))
}

/// Texts that are not called so.
const TEXTS: &[&str] = &[
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/jsonl",
    "application/sql",
    "application/toml",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-yaml",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
];
