//! A download, made into what a model can take: text, or an image.

use std::hash::{DefaultHasher, Hash, Hasher};

use ::http::{HeaderMap, header};
use base64::Engine;
use lmcp_core::{ToolError, ToolResult};

use super::{
    Method, Render,
    charset::decode,
    follow::{Download, Redirect},
    json,
    kind::{Kind, content_type, media_type},
};
use crate::web::html::{self, Style};

/// What a fetch came to. Its parts are all cut from the same text.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) url: String,
    pub(super) content_type: String,
    /// Of the body, decoded.
    pub(super) bytes_read: usize,
    pub(super) redirects: Vec<Redirect>,
    pub(super) downgraded: bool,
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) image: Option<Image>,
    /// Only the main part of the page.
    pub(super) main_only: bool,
    /// There was more than this server reads.
    pub(super) incomplete: bool,
}

#[derive(Debug)]
pub(super) struct Image {
    pub(super) base64: String,
    pub(super) media_type: String,
}

impl Page {
    /// Takes time: not on the thread that serves.
    ///
    /// # Errors
    /// It is neither text nor an image that clients can show.
    pub(super) fn make(download: Download, render: Render, limit: usize) -> ToolResult<Self> {
        let Download {
            url,
            method,
            response,
            redirects,
            downgraded,
        } = download;
        let mut page = Self {
            status: response.status.as_u16(),
            url: url.to_string(),
            content_type: content_type(&response.headers),
            bytes_read: response.body.len(),
            redirects,
            downgraded,
            title: None,
            text: String::new(),
            image: None,
            main_only: false,
            incomplete: response.cut,
        };
        if method == Method::Head {
            page.text = header_lines(&response.headers);
            return Ok(page);
        }
        if response.body.is_empty() && !is_withheld(&response.headers) {
            return Ok(page);
        }
        match Kind::of(&response.headers, &response.body) {
            Kind::Image if !response.cut => {
                page.image = Some(Image {
                    base64: base64::engine::general_purpose::STANDARD.encode(&response.body),
                    media_type: media_type(&response.headers),
                });
            }
            Kind::Image | Kind::Binary | Kind::Unknown => {
                return page.refuse(&response.headers);
            }
            kind @ (Kind::Html | Kind::Json | Kind::Text) => {
                let text = decode(&response.body, &page.content_type, response.cut);
                drop(response.body);
                page.render(kind, text, render, &url, limit);
            }
        }
        Ok(page)
    }

    fn render(
        &mut self,
        kind: Kind,
        text: String,
        render: Render,
        url: &crate::web::url::Url,
        limit: usize,
    ) {
        let style = match render {
            Render::Markdown => Style::Markdown,
            Render::Plain | Render::Html | Render::Raw => Style::Plain,
        };
        self.text = match (kind, render) {
            (_, Render::Raw) => text,
            (Kind::Json, _) => json::indent(&text, limit).unwrap_or(text),
            (Kind::Html, Render::Html) => {
                let (stripped, cut) = html::strip(&text, limit);
                self.incomplete |= cut;
                stripped
            }
            (Kind::Html, Render::Plain | Render::Markdown) => {
                let readable = html::readable(&text, url, style, limit);
                self.incomplete |= readable.cut;
                self.title = readable.title;
                self.main_only = readable.main_only;
                readable.text
            }
            _ => text,
        };
        if self.text.len() > limit {
            self.text.truncate(self.text.floor_char_boundary(limit));
            self.incomplete = true;
        }
    }

    /// Tells two texts apart, to notice that a page has changed.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        hasher.finish()
    }

    /// It cannot be shown. An error of the server matters more than that.
    fn refuse(self, headers: &HeaderMap) -> ToolResult<Self> {
        if self.status >= 400 {
            return Ok(self);
        }
        let kind = match self.content_type.as_str() {
            "" => "data without a type",
            name => name,
        };
        let size = match content_length(headers) {
            Some(size) => format!("{size} bytes"),
            None => "of unknown size".into(),
        };
        Err(ToolError::new(format!(
            "`{}` is {kind}, {size}, and cannot be shown as text or image",
            self.url
        ))
        .hint("download it with a command if you need it"))
    }
}

/// Was there a body that was not read?
fn is_withheld(headers: &HeaderMap) -> bool {
    Kind::by_headers(headers) == Kind::Binary && content_length(headers) != Some(0)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// All that an answer to HEAD has to say. Not the cookies: they are meant for one visitor.
fn header_lines(headers: &HeaderMap) -> String {
    let shown = headers
        .iter()
        .filter(|(name, _)| **name != header::SET_COOKIE);
    let lines = shown
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    lines.collect()
}
