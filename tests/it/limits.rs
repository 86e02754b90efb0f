//! Keeps `docs/limits.md` equal to the code: every bound of the server, of its tools and of the client side.
//!
//! Bounds that a program can change are struct fields: their defaults are what `Default` returns, and their options are
//! those of `docs/configuration.md`. All others are constants, mostly in files called `limits.rs`, and their values are
//! read from there. The texts are the doc comments of both. `UPDATE=1 cargo test -p lmcp-tests limits` writes the page anew.

use std::{
    fmt::{Debug, Write},
    fs,
    path::{Path, PathBuf},
};

use lmcp_core::Limits;
use lmcp_tools::settings::{Settings, Web};

use crate::runner::is_update;

const PAGE: &str = "docs/limits.md";

const HEAD: &str = "# Limits

<!-- Written by `UPDATE=1 cargo test -p lmcp-tests limits` from the doc comments in the code. Change those, not this page. -->

Every bound of the server, of its tools and of the client side: what it is called in the code, its value, and what happens when
it is met. A program that uses the library can change those of the server and of its tools, and some of them have an option of
`lmcp serve`. Those of the client side are fixed, but for what their texts say.
";

const SECTIONS: [Section; 3] = [
    Section {
        title: "The server",
        about: "`lmcp::Limits`, given to a server with `Server::limits`.",
        source: "crates/lmcp-core/src/limits.rs",
        name: "Limits",
    },
    Section {
        title: "Commands and jobs",
        about: "`lmcp_tools::settings::Settings`.",
        source: "crates/lmcp-tools/src/settings.rs",
        name: "Settings",
    },
    Section {
        title: "The web",
        about: "`lmcp_tools::settings::Web`, in `Settings::web`.",
        source: "crates/lmcp-tools/src/web/settings.rs",
        name: "Web",
    },
];

/// Files of bounds that have a value each, with a title and what it is about.
const FIXED: [Fixed; 8] = [
    Fixed {
        title: "Messages",
        about: "Of every peer, in every message.",
        source: "crates/lmcp-wire/src/limits.rs",
    },
    Fixed {
        title: "Clients over HTTP",
        about: "`lmcp_client::Settings`: a program can change them.",
        source: "crates/lmcp-client/src/settings.rs",
    },
    Fixed {
        title: "Clients",
        about: "Every connection to an MCP server elsewhere: of `lmcp::Client`, a bridge, a hub, and `lmcp proxy URL`.",
        source: "crates/lmcp-client/src/limits.rs",
    },
    Fixed {
        title: "Servers elsewhere",
        about: "`lmcp::Upstream`: one server behind a bridge, a hub or a program.",
        source: "crates/lmcp-upstream/src/limits.rs",
    },
    Fixed {
        title: "The hub",
        about: "`lmcp hub` and `lmcp::Hub`.",
        source: "crates/lmcp-hub/src/limits.rs",
    },
    Fixed {
        title: "The fleet",
        about: "The hosts of `lmcp hub`.",
        source: "crates/lmcp-fleet/src/limits.rs",
    },
    Fixed {
        title: "The proxy",
        about: "`lmcp proxy`.",
        source: "crates/lmcp-proxy/src/limits.rs",
    },
    Fixed {
        title: "Connections to other machines",
        about: "Of clients and of `fetch`.",
        source: "crates/lmcp-outbound/src/limits.rs",
    },
];

#[test]
fn the_page_of_limits_is_what_the_code_says() {
    let options = options();
    let defaults = [
        shown(&Limits::default()),
        shown(&Settings::default()),
        shown(&Web::default()),
    ];
    let mut page = HEAD.to_owned();
    for (section, defaults) in SECTIONS.iter().zip(&defaults) {
        section.write(defaults, &options, &mut page);
    }
    for section in FIXED {
        section.write(&mut page);
    }
    let path = root().join(PAGE);
    if is_update() {
        fs::write(&path, page).expect("the page can be written");
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let stale = there
        .lines()
        .zip(page.lines())
        .find(|(old, new)| old != new);
    assert!(
        there == page,
        "{PAGE} is stale (first difference: {stale:?}); run `UPDATE=1 cargo test -p lmcp-tests limits`"
    );
}

#[test]
fn limits_have_a_comment_each() {
    for section in SECTIONS {
        for field in section.fields() {
            assert!(
                !field.doc.is_empty(),
                "{}::{} has no doc comment",
                section.name,
                field.name
            );
        }
    }
}

/// A struct whose fields are bounds.
struct Section {
    title: &'static str,
    about: &'static str,
    source: &'static str,
    name: &'static str,
}

/// A file whose constants are bounds, and the fields of the struct in it, if there is one.
struct Fixed {
    title: &'static str,
    about: &'static str,
    source: &'static str,
}

/// A field of such a struct.
struct Field {
    name: String,
    doc: String,
}

impl Section {
    fn write(&self, defaults: &str, options: &[String], page: &mut String) {
        let (title, about) = (self.title, self.about);
        let _ = write!(
            page,
            "\n## {title}\n\n{about}\n\n| bound | default | option | what it bounds, and what happens at it |\n|---|---|---|---|\n"
        );
        for field in self.fields() {
            let Field { name, doc } = &field;
            let default = field.default(defaults);
            let option = field.option(options);
            let _ = writeln!(page, "| `{name}` | {default} | {option} | {doc} |");
        }
    }

    /// The public fields whose type is a number or a time, in the order of the source.
    fn fields(&self) -> Vec<Field> {
        let source = fs::read_to_string(root().join(self.source)).expect("the source is there");
        let body = source
            .split_once(&format!("pub struct {} {{\n", self.name))
            .and_then(|(_, rest)| rest.split_once("\n}"))
            .expect("the struct is in its file")
            .0;
        let (mut fields, mut doc) = (Vec::new(), Vec::new());
        for line in body.lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("///") {
                doc.push(text.trim());
            } else if let Some((name, kind)) = line
                .strip_prefix("pub ")
                .and_then(|field| field.split_once(':'))
            {
                let text = plain(&doc.join(" "));
                doc.clear();
                if is_bound(kind) {
                    fields.push(Field {
                        name: name.to_owned(),
                        doc: text,
                    });
                }
            }
        }
        assert!(!fields.is_empty(), "{} has fields", self.name);
        fields
    }
}

impl Fixed {
    fn write(&self, page: &mut String) {
        let (title, about) = (self.title, self.about);
        let _ = write!(
            page,
            "\n## {title}\n\n{about}\n\n| bound | value | what it bounds, and what happens at it |\n|---|---|---|\n"
        );
        let source = fs::read_to_string(root().join(self.source)).expect("the source is there");
        let mut doc = Vec::new();
        for line in source.lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("/// ") {
                doc.push(text);
                continue;
            }
            if let Some((name, value)) = bound(line, &source) {
                let field = Field {
                    name: name.to_lowercase(),
                    doc: plain(&doc.join(" ")),
                };
                assert!(
                    !doc.is_empty(),
                    "{name} in {} has no doc comment",
                    self.source
                );
                let (value, doc) = (field.shown(evaluated(value)), &field.doc);
                let _ = writeln!(page, "| `{name}` | {value} | {doc} |");
            }
            doc.clear();
        }
    }
}

/// The name and the value of a bound that this line declares: a constant, or a field that the first `impl` of the file sets.
fn bound<'a>(line: &'a str, source: &'a str) -> Option<(&'a str, &'a str)> {
    let (_, declared) = line.strip_prefix("pub")?.split_once(' ')?;
    if let Some(constant) = declared.strip_prefix("const ") {
        let (name, value) = constant.split_once(':')?;
        return Some((name, value.split_once("= ")?.1.strip_suffix(';')?));
    }
    let (name, kind) = declared.split_once(": ")?;
    let kind = kind.strip_suffix(',').filter(|kind| is_bound(kind))?;
    let (_, defaults) = source.split_once("\nimpl ")?;
    let value = defaults.split_once(&format!(" {name}: "));
    let value = value.unwrap_or_else(|| panic!("`{name}` of type {kind} has a default"));
    Some((name, value.1.split_once(",\n")?.0))
}

/// A value as it stands in the source: a product or a shift of numbers, or a time made of one.
fn evaluated(value: &str) -> Value {
    let number = |text: &str| -> u64 {
        let parsed = |text: &str| text.trim().replace('_', "").parse::<u64>();
        let parsed = |text: &str| parsed(text).unwrap_or_else(|_| panic!("`{value}` is a number"));
        if let Some((number, by)) = text.split_once("<<") {
            return parsed(number) << parsed(by);
        }
        text.split('*').map(parsed).product()
    };
    let within = |name: &str| value.strip_prefix(name)?.strip_suffix(')');
    match (
        within("Duration::from_secs("),
        within("Duration::from_millis("),
    ) {
        (Some(seconds), _) => Value::Milliseconds(number(seconds) * 1000),
        (None, Some(milliseconds)) => Value::Milliseconds(number(milliseconds)),
        (None, None) => Value::Number(number(value)),
    }
}

#[derive(Clone, Copy)]
enum Value {
    Milliseconds(u64),
    Number(u64),
}

impl Field {
    /// A value as people write it.
    fn shown(&self, value: Value) -> String {
        match value {
            Value::Milliseconds(number) => time(number),
            Value::Number(number)
                if self.name.contains("bytes") || self.doc.contains("in bytes") =>
            {
                bytes(number)
            }
            Value::Number(number) => thousands(number),
        }
    }

    /// The default as people write it, found in the `{:#?}` of the whole struct.
    fn default(&self, defaults: &str) -> String {
        let value = defaults
            .lines()
            .find_map(|line| line.strip_prefix(&format!("    {}: ", self.name)))
            .unwrap_or_else(|| panic!("`{}` has a default", self.name))
            .trim_end_matches(',');
        if let Ok(number) = value.parse::<u64>() {
            return self.shown(match self.name.ends_with("_ms") {
                true => Value::Milliseconds(number),
                false => Value::Number(number),
            });
        }
        match milliseconds(value) {
            Some(number) => time(number),
            None => format!("`{value}`"),
        }
    }

    /// The option that the comment names, or else the one with the name of the field: `--memory` for `memory_bytes`.
    fn option(&self, options: &[String]) -> String {
        let said = self.doc.split('`').find(|word| word.starts_with("--"));
        let name = self.name.strip_suffix("_bytes").unwrap_or(&self.name);
        let same = format!("--{}", name.replace('_', "-"));
        let found = said.or_else(|| options.contains(&same).then_some(&*same));
        found
            .map(|option| format!("`{option}`"))
            .unwrap_or_default()
    }
}

/// Every option of `docs/configuration.md`, as `--name`.
fn options() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/configuration.md")).expect("the page is there");
    text.lines()
        .filter_map(|line| line.strip_prefix("| `--"))
        .filter_map(|line| line.split(['`', ' ']).next())
        .map(|name| format!("--{name}"))
        .collect()
}

fn shown(value: &dyn Debug) -> String {
    format!("{value:#?}")
}

/// A comment for a cell of a table: links to other fields lose their brackets, bars are escaped.
fn plain(doc: &str) -> String {
    doc.replace("[`", "`")
        .replace("`](crate::Cx::blocking)", "`")
        .replace("`]", "`")
        .replace('|', "\\|")
}

fn is_bound(kind: &str) -> bool {
    ["usize", "u64", "u32", "u16", "u8", "Duration"]
        .iter()
        .any(|number| kind.contains(number) && !kind.contains("Vec"))
}

fn bytes(number: u64) -> String {
    for (unit, size) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if number >= size && number.is_multiple_of(size) {
            return format!("{} {unit}", number / size);
        }
    }
    format!("{} bytes", thousands(number))
}

fn time(milliseconds: u64) -> String {
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1000),
    ];
    for (unit, size) in units {
        if milliseconds >= size && milliseconds.is_multiple_of(size) {
            return format!("{} {unit}", milliseconds / size);
        }
    }
    format!("{milliseconds} ms")
}

/// What `Duration` shows itself as, whole seconds or milliseconds.
fn milliseconds(value: &str) -> Option<u64> {
    if let Some(number) = value.strip_suffix("ms") {
        return number.parse().ok();
    }
    Some(value.strip_suffix('s')?.parse::<u64>().ok()? * 1000)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
