//! The functions that `fuzz/` calls with any input. They are no part of the API.

use lmcp_outbound::Url;

use crate::web::html::{Style, readable, strip};

/// Returns a page in all forms in which it is shown, each as at most so many bytes.
pub fn readable_texts(html: &str, limit: usize) -> Vec<String> {
    let Ok(base) = Url::parse("http://example.org/a/") else {
        return Vec::new();
    };
    let shown = [Style::Markdown, Style::Plain];
    let shown = shown.map(|style| readable(html, &base, style, limit, &|| false).text);
    let (stripped, _) = strip(html, limit, &|| false);
    shown.into_iter().chain([stripped]).collect()
}
