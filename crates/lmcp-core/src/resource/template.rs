//! URI templates of RFC 6570, limited to `{x}`, `{+x}` and `{?x,y}`.
//!
//! `{x}` is one path segment or a part of one: its value never contains a `/`, escaped or not, and is never `.` or `..`. The
//! value of `{+x}` may contain `/`, but none of its segments is `..`, and after a `/` of the template the value does not begin
//! with another `/`: joined to a folder, it stays below that folder. `{?x,y}` is the end of the template; its values may be
//! absent and come in any order. `{x}` reaches to the first occurrence of the text that follows it, `{+x}` to the last.

use std::collections::BTreeMap;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    query: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `{x}`
    Segment(String),
    /// `{+x}`
    Path(String),
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The text names the part that is wrong or not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut template = Self {
            parts: Vec::new(),
            query: Vec::new(),
        };
        let mut rest = text;
        while let Some((literal, tail)) = rest.split_once('{') {
            let (expression, tail) = tail.split_once('}').ok_or("a `{` has no `}`")?;
            if literal.contains('}') {
                return Err("a `}` has no `{`".into());
            }
            template.literal(literal)?;
            template.expression(expression)?;
            rest = tail;
        }
        if rest.contains('}') {
            return Err("a `}` has no `{`".into());
        }
        template.literal(rest)?;
        let mut names: Vec<_> = template.names().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("the variable `{}` stands twice", pair[0])),
            None if names.is_empty() => {
                Err("it has no variable; register it as a plain resource".into())
            }
            None => Ok(template),
        }
    }

    /// Returns the names of the variables, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Segment(name) | Part::Path(name) => Some(name.as_str()),
        });
        parts.chain(self.query.iter().map(String::as_str))
    }

    /// Returns the values of the variables, if the URI fits this template.
    pub fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let (mut rest, query) = match uri.split_once('?') {
            Some((path, query)) if !self.query.is_empty() => (path, Some(query)),
            _ => (uri, None),
        };
        let mut values = BTreeMap::new();
        for (index, part) in self.parts.iter().enumerate() {
            let (name, is_path) = match part {
                Part::Literal(literal) => {
                    rest = rest.strip_prefix(literal.as_str())?;
                    continue;
                }
                Part::Segment(name) => (name, false),
                Part::Path(name) => (name, true),
            };
            let end = match self.parts.get(index + 1) {
                Some(Part::Literal(next)) if is_path => rest.rfind(next.as_str())?,
                Some(Part::Literal(next)) => rest.find(next.as_str())?,
                _ => rest.len(),
            };
            let (value, tail) = rest.split_at(end);
            let value = if is_path {
                path(value)?
            } else {
                segment(value)?
            };
            let after_slash = uri[..uri.len() - rest.len()].ends_with('/');
            if after_slash && value.starts_with(['/', '\\']) {
                return None;
            }
            values.insert(name.clone(), value);
            rest = tail;
        }
        if !rest.is_empty() {
            return None;
        }
        self.read_query(query.unwrap_or_default(), &mut values)?;
        Some(values)
    }

    fn read_query(&self, query: &str, values: &mut BTreeMap<String, String>) -> Option<()> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = unescape(name)?;
            // A parameter that the template does not have belongs to another resource.
            if !self.query.contains(&name) || values.insert(name, unescape(value)?).is_some() {
                return None;
            }
        }
        Some(())
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        if !text.is_empty() && !self.query.is_empty() {
            return Err("nothing may follow `{?…}`".into());
        }
        if !text.is_empty() {
            self.parts.push(Part::Literal(text.into()));
        }
        Ok(())
    }

    fn expression(&mut self, text: &str) -> Result<(), String> {
        if !self.query.is_empty() {
            return Err("nothing may follow `{?…}`".into());
        }
        if let Some(names) = text.strip_prefix('?') {
            self.query = names.split(',').map(variable).collect::<Result<_, _>>()?;
            return Ok(());
        }
        if matches!(self.parts.last(), Some(Part::Segment(_) | Part::Path(_))) {
            return Err("two variables need a text between them".into());
        }
        let part = match text.strip_prefix('+') {
            Some(name) => Part::Path(variable(name)?),
            None => Part::Segment(variable(text)?),
        };
        self.parts.push(part);
        Ok(())
    }
}

fn variable(name: &str) -> Result<String, String> {
    let fits = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    if fits {
        Ok(name.into())
    } else {
        Err(format!(
            "`{{{name}}}` is not supported; use `{{x}}`, `{{+x}}` or `{{?x}}`"
        ))
    }
}

/// Reads one segment: not empty, without a slash even as an escape, and not `.` or `..`.
fn segment(text: &str) -> Option<String> {
    let value = unescape(text)?;
    let plain =
        !value.is_empty() && !text.contains(['/', '?', '#']) && !value.contains(['/', '\\']);
    (plain && value != "." && value != "..").then_some(value)
}

/// Reads several segments. None of them may be `..`.
fn path(text: &str) -> Option<String> {
    let value = unescape(text).filter(|_| !text.contains(['?', '#']))?;
    (!value.is_empty() && !value.split(['/', '\\']).any(|segment| segment == "..")).then_some(value)
}

/// Decodes percent-encoding. `None` for a malformed escape, a NUL, or bytes that are not UTF-8.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|value| !value.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<String> {
        let values = Template::parse(template).unwrap().matches(uri)?;
        Some(
            values
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    #[test]
    fn values_are_cut_where_the_template_says() {
        for (template, uri, expected) in [
            ("note://{name}", "note://a%20b", Some("name=a b")),
            ("note://{name}", "note://a/b", None),
            ("note://{name}", "note://a%2Fb", None),
            ("note://{name}", "note://..", None),
            ("note://{name}", "note://%2e%2E", None),
            ("note://{name}", "note://", None),
            ("note://{name}", "note://a%0", None),
            ("note://{name}", "note://a%00", None),
            ("note://{name}", "note://a%ff", None),
            (
                "test://template/{id}/data",
                "test://template/123/data",
                Some("id=123"),
            ),
            (
                "test://template/{id}/data",
                "test://template/1/2/data",
                None,
            ),
            ("file:///{+path}", "file:///a/b.txt", Some("path=a/b.txt")),
            ("file:///{+path}", "file:///a/../b", None),
            ("file:///{+path}", "file:///a/%2e%2e/b", None),
            ("file:///{+path}", "file:///..a/b..", Some("path=..a/b..")),
            ("x:{a}-{b}", "x:1-2-3", Some("a=1 b=2-3")),
            ("db://{table}{?limit,from}", "db://t", Some("table=t")),
            (
                "db://{table}{?limit,from}",
                "db://t?from=2&limit=1%2F",
                Some("from=2 limit=1/ table=t"),
            ),
            ("db://{table}{?limit}", "db://t?other=1", None),
            ("db://{table}{?limit}", "db://t?limit=1&limit=2", None),
        ] {
            assert_eq!(
                matched(template, uri).as_deref(),
                expected,
                "{template} {uri}"
            );
        }
    }

    #[test]
    fn a_wrong_template_says_what_is_wrong() {
        for (template, expected) in [
            ("a://{", "a `{` has no `}`"),
            ("a://}{x}", "a `}` has no `{`"),
            (
                "a://b",
                "it has no variable; register it as a plain resource",
            ),
            ("a://{x}{y}", "two variables need a text between them"),
            ("a://{x}/{x}", "the variable `x` stands twice"),
            (
                "a://{#x}",
                "`{#x}` is not supported; use `{x}`, `{+x}` or `{?x}`",
            ),
            ("a://{?x}/b", "nothing may follow `{?…}`"),
        ] {
            assert_eq!(
                Template::parse(template).unwrap_err(),
                expected,
                "{template}"
            );
        }
    }
}
