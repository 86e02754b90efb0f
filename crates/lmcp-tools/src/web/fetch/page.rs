//! Turns a download into a form that a model can take: text, or an image.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use ::http::{HeaderMap, header};
use base64::Engine;
use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_outbound::Url;

use super::{
    Method, Render,
    charset::decode,
    follow::{Download, Redirect},
    json,
    kind::{Kind, content_type},
};
use crate::{
    image,
    web::{
        html::{self, Cut, Style},
        http::{Deadline, Ending, Memory, Response},
    },
};

/// The result of a fetch. All parts are cut from the same text.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) url: String,
    pub(super) content_type: String,
    /// The length of the decoded body.
    pub(super) bytes_read: usize,
    pub(super) redirects: Vec<Redirect>,
    pub(super) downgraded: bool,
    pub(super) title: Option<String>,
    pub(super) text: String,
    pub(super) image: Option<Image>,
    /// Whether the text is only the main part of the page.
    pub(super) main_only: bool,
    /// Why the end of the page is missing.
    pub(super) incomplete: Option<String>,
    /// The memory that is reserved for the page, for as long as it is kept.
    pub(super) memory: Memory,
}

/// A page whose text is decoded, and not yet made readable.
#[derive(Debug)]
pub(super) struct Draft {
    page: Page,
    /// `None` if the page has no text, or is shown as it is.
    text: Option<(Kind, String)>,
    url: Url,
    ending: Ending,
}

#[derive(Debug)]
pub(super) struct Image {
    pub(super) base64: String,
    pub(super) media_type: &'static str,
}

impl Draft {
    /// Decodes a download. This takes time: do not call it on a thread that serves.
    ///
    /// # Errors
    /// The download is neither text nor an image that clients can show, or nothing of it arrived.
    pub(super) fn of(download: Download, limit: usize) -> ToolResult<Self> {
        let Download {
            url,
            method,
            mut response,
            redirects,
            downgraded,
        } = download;
        let mut page = Page {
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
            incomplete: match &response.ending {
                Ending::Whole => None,
                Ending::TooLong => Some(TOO_LONG.into()),
                Ending::Broken(err) => Some(in_a_line(err)),
            },
            memory: std::mem::take(&mut response.memory),
        };
        let done = |page: Page| Self {
            page,
            text: None,
            url: url.clone(),
            ending: Ending::Whole,
        };
        if method == Method::Head {
            page.text = header_lines(&response.headers);
            return Ok(done(page));
        }
        if response.body.is_empty() && !is_withheld(&response.headers) {
            return match response.ending {
                Ending::Broken(err) => page.fail(err).map(done),
                Ending::Whole | Ending::TooLong => Ok(done(page)),
            };
        }
        let kind = match Kind::of(&response.headers, &response.body) {
            Kind::Image => return page.show(response).map(done),
            Kind::Binary | Kind::Unknown => return page.refuse(&response.headers).map(done),
            kind @ (Kind::Html | Kind::Json | Kind::Text) => kind,
        };
        let cut = page.incomplete.is_some();
        let (text, is_whole) = decode(response.body, &page.content_type, cut, limit);
        page.cut((!is_whole).then_some(Cut::Length));
        Ok(Self {
            page,
            text: Some((kind, text)),
            url,
            ending: response.ending,
        })
    }

    /// Reserves memory for the readable text, because the decoded text may be longer than the body was. If there is not
    /// enough memory, the text is cut.
    pub(super) async fn make_room(&mut self, cx: &Cx) {
        let Some((_, text)) = &mut self.text else {
            return;
        };
        if let Err(err) = self.page.memory.hold(text.len(), cx).await {
            let most = self.page.memory.body_bytes();
            text.truncate(text.floor_char_boundary(most));
            self.page.incomplete.get_or_insert_with(|| in_a_line(&err));
        }
    }

    /// Makes the text readable. This takes time, too.
    ///
    /// # Errors
    /// Nothing of the page arrived.
    pub(super) fn finish(
        self,
        render: Render,
        limit: usize,
        deadline: Deadline,
    ) -> ToolResult<Page> {
        let Self {
            mut page,
            text: Some((kind, text)),
            url,
            ending,
        } = self
        else {
            return Ok(self.page);
        };
        let deadline = deadline.at_least(RENDER_TIME);
        page.render(kind, text, render, &url, limit, deadline);
        page.text.shrink_to_fit();
        page.memory.shrink_to(page.bytes());
        match ending {
            Ending::Broken(err) if page.text.is_empty() => page.fail(err),
            Ending::Broken(_) | Ending::Whole | Ending::TooLong => Ok(page),
        }
    }
}

impl Page {
    fn render(
        &mut self,
        kind: Kind,
        text: String,
        render: Render,
        url: &Url,
        limit: usize,
        deadline: Deadline,
    ) {
        let is_late = || deadline.is_over();
        let style = match render {
            Render::Markdown => Style::Markdown,
            Render::Plain | Render::Html | Render::Raw => Style::Plain,
        };
        self.text = match (kind, render) {
            (_, Render::Raw) => text,
            (Kind::Json, _) => json::indent(&text, limit).unwrap_or(text),
            (Kind::Html, Render::Html) => {
                let (stripped, cut) = html::strip(&text, limit, &is_late);
                self.cut(cut);
                stripped
            }
            (Kind::Html, Render::Plain | Render::Markdown) => {
                let readable = html::readable(&text, url, style, limit, &is_late);
                self.cut(readable.cut);
                self.title = readable.title;
                self.main_only = readable.main_only;
                readable.text
            }
            _ => text,
        };
        if self.text.len() > limit {
            self.text.truncate(self.text.floor_char_boundary(limit));
            self.cut(Some(Cut::Length));
        }
    }

    /// Notes why the end is missing; the first reason counts.
    fn cut(&mut self, cut: Option<Cut>) {
        let why = match cut {
            None => return,
            Some(Cut::Length) => TOO_LONG,
            Some(Cut::Time) => "time ran out while the page was made readable",
        };
        self.incomplete.get_or_insert_with(|| why.into());
    }

    /// Returns the number of bytes that the page takes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.url, &self.content_type, &self.text];
        let texts = texts.into_iter().chain(&self.title).map(String::len);
        let redirects = self.redirects.iter().map(|redirect| redirect.url.len());
        let image = self.image.iter().map(|image| image.base64.len());
        texts.chain(redirects).chain(image).sum()
    }

    /// Returns a number that differs between two texts, to notice that a page has changed.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        hasher.finish()
    }

    /// Shows a body that begins like an image. One that clients cannot show is refused: it would stop them for good.
    fn show(mut self, response: Response) -> ToolResult<Self> {
        let body = &response.body;
        let (checked, size) = match response.ending {
            Ending::Whole => (image::check(body), None),
            Ending::TooLong => (
                Err("it is too large".into()),
                content_length(&response.headers),
            ),
            Ending::Broken(err) => return self.fail(err),
        };
        match checked {
            Ok(media_type) => {
                let base64 = base64::engine::general_purpose::STANDARD.encode(body);
                self.image = Some(Image { base64, media_type });
                Ok(self)
            }
            Err(why) => {
                let what = image::describe(body, size.unwrap_or(body.len() as u64));
                let url = &self.url;
                let err = ToolError::new(format!("`{url}` ({what}) cannot be shown: {why}"));
                self.fail(err.hint("download it with a command if you need it"))
            }
        }
    }

    /// Returns an error, because nothing of the page can be shown. If the server itself answered with an error, returns the
    /// page: that matters more.
    fn fail(self, err: ToolError) -> ToolResult<Self> {
        if self.status >= 400 {
            return Ok(self);
        }
        Err(err)
    }

    /// Refuses a page of a kind that cannot be shown.
    fn refuse(self, headers: &HeaderMap) -> ToolResult<Self> {
        let kind = match self.content_type.as_str() {
            "" => "data without a type",
            name => name,
        };
        let size = match content_length(headers) {
            Some(size) => format!("{size} bytes"),
            None => "of unknown size".into(),
        };
        let err = ToolError::new(format!(
            "`{}` is {kind}, {size}, and cannot be shown as text or image",
            self.url
        ));
        self.fail(err.hint("download it with a command if you need it"))
    }
}

fn in_a_line(err: &ToolError) -> String {
    err.to_string().replace("\nhint: ", "; ")
}

/// Returns whether there was a body that was not read.
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

/// Returns the headers of an answer to HEAD, without cookies, which are meant for one visitor.
fn header_lines(headers: &HeaderMap) -> String {
    let shown = headers
        .iter()
        .filter(|(name, _)| **name != header::SET_COOKIE);
    let lines = shown
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    lines.collect()
}

const TOO_LONG: &str = "the page is longer than this server reads";

/// The least time to make a page readable, even if the call's time ran out while the page was read.
const RENDER_TIME: Duration = Duration::from_secs(2);
