//! How a result is presented to each client: one table, by the name that a client claims.
//!
//! Clients show different parts of a result to their model. Some show only `structuredContent` if there is any: text then
//! arrives as escaped JSON, and images do not arrive. Some show only the text. Each client cuts long results, silently and in
//! the middle. The name that a client claims decides nothing but this.

use lmcp_wire::CallToolResult;

use crate::{outcome::keep_as_text, request::Request, server::Engine};

/// How results are presented to one client: how much text, and with which parts.
///
/// A handler reads it with [`Cx::presentation`](crate::Cx::presentation) before it decides how much to return.
/// [`Server::present`](crate::Server::present) sets it for clients that lmcp does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Presentation {
    /// Whether this client gets `structuredContent`, and tools with an `outputSchema`. `false` for a client that would show its model only
    /// `structuredContent`, and for one that shows none of it: text and pictures then reach the model.
    pub structured: bool,
    /// The most text in one result that the client does not cut, in bytes as JSON writes them.
    pub bytes: usize,
    /// The most lines of text in one result that the client does not cut.
    pub lines: usize,
    /// The largest image that the client takes, in bytes before Base64.
    pub image_bytes: usize,
    /// The longest side of an image that the client takes, in pixels.
    pub image_side: u32,
}

impl Presentation {
    /// Makes a presentation for a client whose model reads the text: the client gets no `structuredContent`.
    pub const fn text(bytes: usize, lines: usize) -> Self {
        Self {
            structured: false,
            bytes,
            lines,
            image_bytes: IMAGE_BYTES,
            image_side: IMAGE_SIDE,
        }
    }

    /// Makes a presentation for a program, or for a client that lmcp does not know: the client gets every part of a result.
    pub const fn whole(bytes: usize, lines: usize) -> Self {
        Self {
            structured: true,
            ..Self::text(bytes, lines)
        }
    }

    /// Sets the largest image, in bytes, and the longest side of an image, in pixels.
    #[must_use]
    pub const fn images(mut self, bytes: usize, side: u32) -> Self {
        self.image_bytes = bytes;
        self.image_side = side;
        self
    }

    /// Removes the parts of a result that the client does not get. Structured content is kept as text.
    pub(crate) fn shape(&self, result: &mut CallToolResult) {
        if self.structured {
            return;
        }
        if let Some(value) = result.structured_content.take() {
            keep_as_text(result, &value);
        }
    }
}

/// The presentation for an unknown client. The text is in the result twice, so each copy gets half the room.
impl Default for Presentation {
    fn default() -> Self {
        Self::whole(24 * 1024, 2000)
    }
}

/// The presentations for known clients, by the beginning of the name that they claim.
const KNOWN: &[(&str, Presentation)] = &[
    // Shows only `structuredContent` if there is any. Warns at 10,000 tokens, cuts at 25,000. Its provider shrinks images to
    // this side, and refuses requests with many images larger than 2000 pixels.
    (
        "claude-code",
        Presentation::text(32 * 1024, 2000).images(IMAGE_BYTES, 1568),
    ),
    // Shows only `structuredContent` if there is any. Cuts at 10 KB or 256 lines.
    ("codex", Presentation::text(9 * 1024, 240)),
    // Shows the text unless there is none. Cuts at 50 KB or 2000 lines.
    ("opencode", Presentation::text(48 * 1024, 1900)),
    // Cuts at 40,000 characters, including those that it adds.
    ("gemini-cli", Presentation::text(36 * 1024, 2000)),
];

/// The presentations that the program sets. They come before the table above.
pub(crate) type Presentations = Vec<(Box<str>, Presentation)>;

impl Engine {
    /// Returns how results are presented to the client that sent a request.
    pub(crate) fn presentation(&self, request: &Request) -> Presentation {
        let name = request.client_name().unwrap_or_default();
        let own = self
            .presentations
            .iter()
            .map(|(known, how)| (&**known, how));
        let known = KNOWN.iter().map(|(known, how)| (*known, how));
        let mut all = own.chain(known);
        let found = all.find(|(known, _)| name.starts_with(known));
        found.map_or_else(Presentation::default, |(_, how)| *how)
    }
}

/// A little less than the 5 MB of base64 that model providers accept.
const IMAGE_BYTES: usize = 3_932_160;
/// No provider accepts more.
const IMAGE_SIDE: u32 = 8000;
