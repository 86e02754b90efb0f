//! The answer of `fetch`: one part of a page, and where the next one begins.

use lmcp_core::Cx;
use lmcp_wire::Content;
use schemars::JsonSchema;
use serde::Serialize;

use super::{follow::Redirect, page::Page};
use crate::{answer::Answer, room::Room};

/// What was fetched.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Fetched {
    /// Is the status below 400?
    ok: bool,
    /// The HTTP status.
    status: u16,
    /// Where it came from, after redirects.
    final_url: String,
    /// What the server says it is.
    content_type: String,
    /// Bytes of the body that were read, decompressed.
    bytes_read: usize,
    /// The redirects on the way.
    redirects: Vec<Redirect>,
    /// A redirect led from https to http: somebody on the way may have read or changed it.
    #[serde(skip_serializing_if = "is_false")]
    downgraded: bool,
    /// The page's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Navigation and the like was left out; `render: html` has everything.
    #[serde(skip_serializing_if = "is_false")]
    main_only: bool,
    /// The text of this part, unless the client reads it from the text content; for HEAD, the headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Where in the whole text this part begins, in bytes.
    start: usize,
    /// The length of the whole text, in bytes.
    total_bytes: usize,
    /// Pass this as `start` for the next part. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_start: Option<usize>,
    /// Is there more, either to read with `next_start` or lost because the page is too long?
    truncated: bool,
    /// Why the end of the page is missing: too long, too slow, or broken off. Absent if it is all there.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
    /// This part was cut from the download of an earlier call.
    cached: bool,
    /// Does this part fit to the one before?
    continuity: Continuity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Continuity {
    /// Cut from the same text.
    Same,
    /// The page was fetched again and is another: begin again with `start` 0.
    Changed,
    /// The page was fetched again, and nobody knows what it was before.
    Unknown,
}

/// The part that is wanted, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) max_bytes: usize,
    pub(super) cached: bool,
    pub(super) continuity: Continuity,
}

/// Returns the answer, and whether it is the whole page.
pub(super) fn answer(page: &Page, part: Part, cx: &Cx) -> (Answer<Fetched>, bool) {
    answer_in(Room::of(cx), page, part)
}

fn answer_in(mut room: Room, page: &Page, part: Part) -> (Answer<Fetched>, bool) {
    room.bytes = room.bytes.min(part.max_bytes);
    let start = page
        .text
        .floor_char_boundary(part.start.min(page.text.len()));
    let rest = &page.text[start..];
    let body = &rest[..room.fit(rest)];
    let end = start + body.len();
    let next_start = (end < page.text.len()).then_some(end);
    let is_whole = body.len() == page.text.len();
    let fetched = Fetched {
        ok: page.status < 400,
        status: page.status,
        final_url: page.url.clone(),
        content_type: page.content_type.clone(),
        bytes_read: page.bytes_read,
        redirects: page.redirects.clone(),
        downgraded: page.downgraded,
        title: page.title.clone(),
        main_only: page.main_only,
        body: room.structured_copy(body),
        start,
        total_bytes: page.text.len(),
        next_start,
        truncated: next_start.is_some() || page.incomplete.is_some(),
        incomplete: page.incomplete.clone(),
        cached: part.cached,
        continuity: part.continuity,
    };
    let mut text = fetched.summary(end);
    let failed = !fetched.ok;
    if !body.is_empty() {
        text.push_str("\n\n");
        text.push_str(body);
    }
    let answer = Answer::new(fetched, text).failed_if(failed);
    let answer = match &page.image {
        Some(image) => answer.with(Content::image_base64(&image.base64, image.media_type)),
        None => answer,
    };
    (answer, is_whole)
}

impl Fetched {
    /// Returns a few lines to stand before the text: what it is, and what to know about it.
    fn summary(&self, end: usize) -> String {
        let mut lines = vec![format!(
            "{} {} ({}, {} bytes)",
            self.status,
            self.final_url,
            match self.content_type.as_str() {
                "" => "no type",
                name => name,
            },
            self.bytes_read
        )];
        lines.extend(self.title.as_ref().map(|title| format!("title: {title}")));
        if !self.redirects.is_empty() {
            lines.push(format!("redirects followed: {}", self.redirects.len()));
        }
        if self.downgraded {
            lines.push("a redirect led from https to http: this came unprotected".into());
        }
        match self.continuity {
            Continuity::Same => {}
            Continuity::Changed => {
                lines.push("the page changed since its last part: begin again with start 0".into());
            }
            Continuity::Unknown => lines.push(
                "the page was fetched again; if it changed since its last part, begin again with start 0".into(),
            ),
        }
        if self.start > 0 || self.next_start.is_some() {
            lines.push(format!(
                "bytes {} to {end} of {}",
                self.start, self.total_bytes
            ));
        }
        lines.extend(
            self.next_start
                .map(|next| format!("more with start {next}")),
        );
        let incomplete = self.incomplete.as_ref();
        lines.extend(incomplete.map(|why| format!("its end is missing: {why}")));
        lines.join("\n")
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use lmcp_core::tool::IntoToolOutput;

    use super::*;
    use crate::web::http::Memory;

    fn text_of(status: u16) -> String {
        let page = Page {
            status,
            url: "http://a.example/".into(),
            content_type: "text/plain".into(),
            bytes_read: 5000,
            redirects: Vec::new(),
            downgraded: false,
            title: None,
            text: "é".repeat(2500),
            image: None,
            main_only: false,
            incomplete: None,
            memory: Memory::default(),
        };
        let part = Part {
            start: 0,
            max_bytes: 65536,
            cached: false,
            continuity: Continuity::Same,
        };
        let result = answer_in(Room::UNKNOWN, &page, part)
            .0
            .into_output()
            .unwrap();
        assert_eq!(result.structured_content.unwrap()["body"], page.text);
        result.content[0].as_text().unwrap().to_owned()
    }

    #[test]
    fn a_page_and_an_error_have_their_whole_body_in_the_text() {
        for status in [200, 500] {
            assert_eq!(text_of(status).matches('é').count(), 2500, "{status}");
        }
    }
}
