//! The kind of a body, by the type that the server names, and by its first bytes.

use ::http::{HeaderMap, header};

use super::charset::is_utf8;
use crate::image;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Json,
    Text,
    /// An image that clients can show.
    Image,
    Binary,
    /// The server does not tell the kind.
    Unknown,
}

impl Kind {
    pub(super) fn by_headers(headers: &HeaderMap) -> Self {
        Self::by_type(&media_type(headers))
    }

    /// Returns the kind by the media type, as far as the bytes agree: they count more than the type.
    pub(super) fn of(headers: &HeaderMap, body: &[u8]) -> Self {
        let begin = &body[..body.len().min(1024)];
        let cut = begin.len() < body.len();
        if image::begins(begin) {
            return Self::Image;
        }
        let wide = begin.starts_with(&[0xff, 0xfe])
            || begin.starts_with(&[0xfe, 0xff])
            || content_type(headers)
                .to_ascii_lowercase()
                .contains("utf-16");
        match Self::by_headers(headers) {
            Self::Binary => Self::Binary,
            Self::Unknown if begin.contains(&0) && !wide => Self::Binary,
            Self::Image if controls(begin) > 0 || !is_utf8(begin, cut) => Self::Binary,
            Self::Unknown | Self::Image if looks_like_html(begin) => Self::Html,
            Self::Unknown if !wide && !is_utf8(begin, cut) => Self::Binary,
            Self::Unknown | Self::Image => Self::Text,
            Self::Html | Self::Json | Self::Text if is_binary(begin) && !wide => Self::Binary,
            kind @ (Self::Html | Self::Json | Self::Text) => kind,
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

/// The bytes of a content type that are read.
const MOST_TYPE_BYTES: usize = 256;

/// Returns the type that the server names, with parameters. It is cut where it is longer than any real one.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    value.map_or_else(String::new, |value| {
        let bytes = value.as_bytes();
        let start = &bytes[..bytes.len().min(MOST_TYPE_BYTES)];
        String::from_utf8_lossy(start).into_owned()
    })
}

/// Returns the type without parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let whole = content_type(headers);
    let name = whole.split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

/// Returns whether the bytes have zeros, and more control characters than a slip leaves in a text.
fn is_binary(begin: &[u8]) -> bool {
    begin.contains(&0) && controls(begin) > 1 + begin.len() / 50
}

/// Returns how many bytes mean nothing in a text.
fn controls(begin: &[u8]) -> usize {
    let means_nothing = |byte: &&u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f);
    begin.iter().filter(means_nothing).count()
}

fn looks_like_html(begin: &[u8]) -> bool {
    let begin = String::from_utf8_lossy(begin)
        .trim_start()
        .to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|sign| begin.starts_with(sign))
}

/// Types of text whose names do not begin with `text/`.
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
