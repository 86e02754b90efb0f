//! A page as people read it: its content, without what is around it.
//!
//! The parts around the content are known by their elements alone: `nav`, `footer`, `aside`, hidden ones. If a page
//! marks its main part, and that is a good part of the page, the rest is left out too. If next to nothing is left then,
//! the whole page is shown instead.

use super::{
    Cut, IsLate, Style, TOKENS_AT_ONCE,
    inline::Kind,
    math::Math,
    one_line,
    open::{Effect, Open},
    token::{Tag, Token, tokens},
    writer::Writer,
};
use lmcp_outbound::{Flaw, Url};

/// A page, made readable.
#[derive(Debug)]
pub(crate) struct Readable {
    pub(crate) text: String,
    pub(crate) title: Option<String>,
    /// Whether something around the main part was left out.
    pub(crate) main_only: bool,
    /// Why the text is cut.
    pub(crate) cut: Option<Cut>,
}

/// Makes a page readable, as at most so many bytes. Links are resolved against `base`.
pub(crate) fn readable(
    html: &str,
    base: &Url,
    style: Style,
    limit: usize,
    is_late: IsLate<'_>,
) -> Readable {
    let main = Reader::new(base, style, limit, Scope::Main).read(html, is_late);
    if main.text.len() >= LEAST_TEXT {
        return main;
    }
    let all = Reader::new(base, style, limit, Scope::All).read(html, is_late);
    if all.text.len() > main.text.len() * 2 {
        all
    } else {
        main
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Main,
    All,
}

#[derive(Debug)]
struct Reader {
    base: Url,
    scope: Scope,
    writer: Writer,
    title: String,
    in_title: bool,
    open: Open,
    /// The formula that is being read.
    math: Option<Math>,
    left_out: bool,
    /// The bytes of all links together.
    linked: usize,
    main: Part,
    article: Part,
}

/// An element whose end is searched for.
#[derive(Debug)]
struct Nested {
    name: String,
    depth: usize,
}

/// The position of an element in the output.
#[derive(Debug, Default)]
struct Part {
    open: Option<Nested>,
    start: usize,
    end: usize,
    /// How many such elements there are. The first counts.
    count: usize,
}

impl Reader {
    fn new(base: &Url, style: Style, limit: usize, scope: Scope) -> Self {
        Self {
            base: base.clone(),
            scope,
            writer: Writer::new(style, limit),
            title: String::new(),
            in_title: false,
            open: Open::default(),
            math: None,
            left_out: false,
            linked: 0,
            main: Part::default(),
            article: Part::default(),
        }
    }

    fn read(mut self, html: &str, is_late: IsLate<'_>) -> Readable {
        let mut cut = None;
        for (at, token) in tokens(html).enumerate() {
            if self.writer.is_full() {
                break;
            }
            if at % TOKENS_AT_ONCE == 0 && is_late() {
                cut = Some(Cut::Time);
                break;
            }
            match token {
                Token::Start(tag) => self.on_start(&tag),
                Token::End(name) => self.on_end(&name),
                Token::Text(text) if self.in_title => {
                    let room = MOST_TITLE_BYTES - self.title.len();
                    self.title.push_str(&text[..text.floor_char_boundary(room)]);
                }
                Token::Text(text) if !self.open.is_skipped() => self.writer.text(&text),
                Token::Text(_) => {}
            }
        }
        self.finish(cut)
    }

    fn finish(mut self, cut: Option<Cut>) -> Readable {
        self.writer.finish();
        let cut = cut.or(self.writer.is_full().then_some(Cut::Length));
        let mut out = std::mem::take(&mut self.writer.out);
        let parts = [self.main, self.article];
        let chosen = parts.iter().find_map(|part| part.of(&out));
        let chosen = chosen.filter(|_| self.scope == Scope::Main);
        let title = one_line(&self.title);
        let main_only = chosen.is_some_and(|part| part.len() < out.trim().len()) || self.left_out;
        let text = match chosen {
            Some(part) => part.trim().to_owned(),
            None => {
                out.truncate(out.trim_end().len());
                out
            }
        };
        Readable {
            main_only,
            text,
            title: Some(title).filter(|title| !title.is_empty()),
            cut,
        }
    }

    fn on_start(&mut self, tag: &Tag) {
        let is_open = self.open.start(tag);
        if self.open.is_skipped() {
            return;
        }
        if self.is_skipped(tag) {
            if is_open {
                self.open.skip(&tag.name);
            }
            return;
        }
        if tag.name == "math" || self.math.is_some() {
            self.start_math(tag);
            return;
        }
        self.start_parts(tag);
        match tag.name.as_str() {
            "title" => self.in_title = self.title.is_empty(),
            "base" => {
                if let Some(Ok(base)) = tag.get("href").map(|to| self.base.join(to)) {
                    self.base = base;
                }
            }
            "a" | "b" | "strong" | "i" | "em" | "code" | "kbd" | "samp" | "tt" | "sup" | "sub" => {
                self.start_mark(tag);
            }
            "img" => self.image(tag),
            "br" => self.writer.line_break(),
            "hr" => self.writer.rule(),
            name => self.start_block(name, tag),
        }
    }

    fn start_block(&mut self, name: &str, tag: &Tag) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.writer
                    .start_heading(usize::from(name.as_bytes()[1] - b'0'));
            }
            "blockquote" => self.writer.start_quote(),
            "ul" | "menu" | "dir" => self.writer.start_list(None),
            "ol" => {
                let first = tag.get("start").and_then(|start| start.trim().parse().ok());
                self.writer.start_list(Some(first.unwrap_or(1)));
            }
            "li" => self.writer.start_item(),
            "pre" | "listing" | "xmp" => self.writer.start_pre(language(tag)),
            "table" => self.writer.start_table(),
            "tr" => self.writer.start_row(),
            "td" | "th" => self.writer.start_cell(),
            name if is_block(name) && !self.writer.is_pre() => self.writer.end_block(),
            _ => {}
        }
    }

    fn on_end(&mut self, name: &str) {
        if self.open.end(name) == Effect::Skipped {
            return;
        }
        if let Some(math) = &mut self.math {
            if math.end() || name == "math" {
                self.math = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.writer.inline.close(&Kind::Link(String::new())),
            "b" | "strong" => self.writer.inline.close(&Kind::Strong),
            "i" | "em" => self.writer.inline.close(&Kind::Emphasis),
            "code" | "kbd" | "samp" | "tt" => self.writer.inline.close(&Kind::Code),
            "sup" => self.writer.inline.close(&Kind::Raised),
            "sub" => self.writer.inline.close(&Kind::Lowered),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.writer.end_heading(),
            "blockquote" => self.writer.end_quote(),
            "ul" | "ol" | "menu" | "dir" => self.writer.end_list(),
            "li" => self.writer.end_item(),
            "pre" | "listing" | "xmp" => self.writer.end_pre(),
            "table" => self.writer.end_table(),
            name if is_block(name) && !self.writer.is_pre() => self.writer.end_block(),
            _ => {}
        }
        self.end_parts(name);
    }

    fn start_mark(&mut self, tag: &Tag) {
        if self.writer.is_pre() {
            match tag.name.as_str() {
                "sup" => self.writer.text("^"),
                "sub" => self.writer.text("_"),
                _ => self.writer.set_language(language(tag)),
            }
            return;
        }
        let kind = match tag.name.as_str() {
            "a" => {
                // A link cannot be within a link: the first one ends here.
                self.writer.inline.close(&Kind::Link(String::new()));
                match tag.get("href").and_then(|to| self.link(to)) {
                    Some(to) => Kind::Link(to),
                    None => return,
                }
            }
            "b" | "strong" => Kind::Strong,
            "i" | "em" => Kind::Emphasis,
            "sup" => Kind::Raised,
            "sub" => Kind::Lowered,
            _ => Kind::Code,
        };
        self.writer.inline.open(kind);
    }

    fn start_math(&mut self, tag: &Tag) {
        if tag.self_closing {
            return;
        }
        let sign = self.math.get_or_insert_default().start(&tag.name);
        self.writer.text(sign);
    }

    fn image(&mut self, tag: &Tag) {
        let alt = one_line(tag.get("alt").unwrap_or_default());
        if alt.is_empty() || self.writer.is_pre() {
            return;
        }
        match tag.get("src").and_then(|source| self.link(source)) {
            Some(source) => self.writer.inline.push_raw(&format!("![{alt}]({source})")),
            None => self.writer.inline.push(&alt),
        }
    }

    /// Returns where a link leads, as Markdown takes it between `(` and `)`. `None` for a script, and for a place
    /// within the page.
    fn link(&mut self, to: &str) -> Option<String> {
        let wanted = self.writer.is_markdown() && self.linked < MOST_LINKED;
        if !wanted || to.trim_start().starts_with('#') {
            return None;
        }
        let link = match self.base.join(to) {
            Ok(url) => url.to_string(),
            Err(Flaw::Scheme(scheme)) if matches!(scheme.as_str(), "mailto" | "tel") => {
                to.trim().to_owned()
            }
            Err(_) => return None,
        };
        self.linked += link.len();
        Some(
            link.replace(' ', "%20")
                .replace('(', "%28")
                .replace(')', "%29"),
        )
    }

    /// Returns whether an element has nothing for a reader.
    fn is_skipped(&mut self, tag: &Tag) -> bool {
        let never_text = match tag.name.as_str() {
            "script" | "style" | "template" | "iframe" | "object" | "audio" | "video"
            | "canvas" | "svg" => true,
            // An annotation repeats the source of a formula.
            "annotation" | "annotation-xml" => true,
            _ => is_hidden(tag),
        };
        let around = self.scope == Scope::Main
            && match tag.name.as_str() {
                "noscript" | "select" | "datalist" | "button" | "textarea" | "dialog" => true,
                "nav" | "footer" | "aside" => true,
                name => has_end_tag(name) && is_around(tag),
            };
        self.left_out |= around && matches!(tag.name.as_str(), "nav" | "footer" | "aside");
        never_text || around
    }

    fn start_parts(&mut self, tag: &Tag) {
        let is_main =
            tag.name == "main" || (has_end_tag(&tag.name) && tag.get("role") == Some("main"));
        let parts = [
            (&mut self.main, is_main),
            (&mut self.article, tag.name == "article"),
        ];
        for (part, begins) in parts {
            match &mut part.open {
                Some(open) => open.start(&tag.name),
                None if begins => {
                    self.writer.end_block();
                    part.count += 1;
                    if part.count == 1 {
                        part.start = self.writer.out.len();
                        part.end = usize::MAX;
                    }
                    part.open = Some(Nested::new(&tag.name));
                }
                None => {}
            }
        }
    }

    fn end_parts(&mut self, name: &str) {
        for part in [&mut self.main, &mut self.article] {
            if part.open.as_mut().is_some_and(|open| open.end(name)) {
                self.writer.end_block();
                part.open = None;
                if part.count == 1 {
                    part.end = self.writer.out.len();
                }
            }
        }
    }
}

impl Nested {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            depth: 1,
        }
    }

    fn start(&mut self, name: &str) {
        self.depth += usize::from(self.name == name);
    }

    /// Handles an end tag, and returns whether it ends this element.
    fn end(&mut self, name: &str) -> bool {
        self.depth -= usize::from(self.name == name);
        self.depth == 0
    }
}

impl Part {
    /// Returns the text of this element, if it is the only one and a good part of the page.
    fn of<'a>(&self, out: &'a str) -> Option<&'a str> {
        if self.count != 1 {
            return None;
        }
        let text = out.get(self.start..self.end.min(out.len()))?.trim();
        let good = text.len() >= LEAST_TEXT && text.len() * 5 >= out.len();
        good.then_some(text)
    }
}

/// Returns whether an element is hidden. Text there would be for models alone.
fn is_hidden(tag: &Tag) -> bool {
    // Pages that show themselves by a script hide everything first.
    if matches!(tag.name.as_str(), "html" | "head" | "body") {
        return false;
    }
    // A picture of a formula is hidden only from people who hear the page, and who get the formula itself.
    let unheard = tag.name != "img" && tag.is("aria-hidden", "true");
    unheard || tag.get("hidden").is_some() || tag.get("style").is_some_and(hides)
}

fn hides(style: &str) -> bool {
    let mut plain = String::new();
    for (at, piece) in style.split("/*").enumerate() {
        plain.push_str(match at {
            0 => piece,
            _ => piece.split_once("*/").map_or("", |(_, after)| after),
        });
    }
    plain.retain(|character| !character.is_whitespace());
    let plain = plain.to_ascii_lowercase();
    plain.contains("display:none") || plain.contains("visibility:hidden")
}

fn is_around(tag: &Tag) -> bool {
    matches!(
        tag.get("role"),
        Some("navigation" | "contentinfo" | "search" | "complementary")
    )
}

/// Returns the language of code, which the class names by custom.
fn language(tag: &Tag) -> &str {
    let classes = tag
        .get("class")
        .unwrap_or_default()
        .split_ascii_whitespace();
    let mut languages = classes.filter_map(|class| {
        let name = class
            .strip_prefix("language-")
            .or_else(|| class.strip_prefix("lang-"))?;
        name.bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'`')
            .then_some(name)
    });
    languages.next().unwrap_or_default()
}

/// Returns whether an element always has an end tag, so that counting finds its end.
fn has_end_tag(name: &str) -> bool {
    matches!(
        name,
        "div"
            | "section"
            | "article"
            | "header"
            | "main"
            | "form"
            | "ul"
            | "ol"
            | "dl"
            | "table"
            | "figure"
            | "details"
            | "span"
            | "a"
            | "search"
    )
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "body"
            | "caption"
            | "center"
            | "dd"
            | "details"
            | "dialog"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "header"
            | "hgroup"
            | "html"
            | "legend"
            | "main"
            | "nav"
            | "optgroup"
            | "option"
            | "p"
            | "search"
            | "section"
            | "summary"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
    )
}

/// A shorter text is hardly the content of a page.
const LEAST_TEXT: usize = 200;

/// The most bytes of all links: short references can become long addresses, and a page of nothing else must end.
const MOST_LINKED: usize = 16 * 1024 * 1024;

/// The rest of a longer title is left out.
const MOST_TITLE_BYTES: usize = 512;
