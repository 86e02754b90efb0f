//! A field of a form: the words for a person, and the check of the answer. No I/O.

use lmcp::wire::elicit::ElicitParams;
use serde_json::Value;

/// Returns the fields of a form, in its order.
pub(super) fn fields(form: &ElicitParams) -> impl Iterator<Item = Field<'_>> {
    let schema = form.requested_schema.as_ref();
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let required = schema.and_then(|schema| schema["required"].as_array());
    properties.into_iter().flatten().map(move |(name, schema)| {
        let is_required = required.is_some_and(|names| names.iter().any(|it| it == name));
        Field::new(name, schema, is_required)
    })
}

/// A field, with its schema.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    schema: &'a Value,
    /// The schema of the typed value; for a list, the schema of its items.
    item: &'a Value,
    choices: Vec<Choice<'a>>,
    pub(super) is_required: bool,
}

/// A value that can be chosen, and its title for people.
struct Choice<'a> {
    value: &'a Value,
    title: Option<&'a str>,
}

impl<'a> Field<'a> {
    pub(super) fn new(name: &'a str, schema: &'a Value, is_required: bool) -> Self {
        let item = match schema["type"] == "array" {
            true => &schema["items"],
            false => schema,
        };
        Self {
            name,
            schema,
            item,
            choices: choices(item),
            is_required,
        }
    }

    /// Returns the title for people; the member's name if the server gives none.
    pub(super) fn title(&self) -> &str {
        self.schema["title"].as_str().unwrap_or(self.name)
    }

    /// Returns the question, with all rules for the answer.
    pub(super) fn question(&self) -> String {
        self.asked(self.title().to_owned())
    }

    /// Returns the same question with a label in front. The name of the field is left out, because the label stands for it.
    pub(super) fn question_as(&self, label: &str) -> String {
        self.asked(match self.schema["title"].as_str() {
            Some(title) => format!("{label} {title}"),
            None => label.to_owned(),
        })
    }

    /// Returns whether the answer is yes or no.
    pub(super) fn is_truth(&self) -> bool {
        self.schema["type"] == "boolean"
    }

    fn asked(&self, mut words: String) -> String {
        let about = self.schema["description"].as_str();
        // `Cx::confirm` describes its field so, and the prompt says the same.
        if let Some(about) = about.filter(|about| *about != "Yes or no?") {
            words += &format!(" ({about})");
        }
        let mut hints: Vec<_> = self.offered().into_iter().chain(self.rules()).collect();
        if !self.is_required && self.default().is_none() {
            hints.push("optional".to_owned());
        }
        if !hints.is_empty() {
            words += &format!(" [{}]", hints.join("; "));
        }
        if let Some(default) = self.default() {
            words += &format!(" = {}", self.shown(default));
        }
        words + ": "
    }

    /// Returns the value for an empty line: the field's default, if the default is valid.
    pub(super) fn default(&self) -> Option<&'a Value> {
        let default = self.schema.get("default").filter(|it| !it.is_null())?;
        self.check(default).is_ok().then_some(default)
    }

    /// Returns the value of a line. The error says what is expected.
    pub(super) fn value(&self, line: &str) -> Result<Value, String> {
        let value = match self.schema["type"] == "array" {
            true => {
                let items = line.split(',').map(str::trim);
                let items = items.filter(|item| !item.is_empty());
                items
                    .map(|item| self.item(item))
                    .collect::<Result<_, _>>()?
            }
            false => self.item(line)?,
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Returns a value in the form for people.
    pub(super) fn shown(&self, value: &Value) -> String {
        if let Value::Array(items) = value {
            let items: Vec<_> = items.iter().map(|item| self.shown(item)).collect();
            return items.join(", ");
        }
        if let Value::Bool(truth) = value {
            return if *truth { "yes" } else { "no" }.to_owned();
        }
        plain(value)
    }

    fn item(&self, line: &str) -> Result<Value, String> {
        if !self.choices.is_empty() {
            let is_it = |choice: &&Choice<'_>| {
                let title = choice.title.unwrap_or_default();
                plain(choice.value) == line || title.to_lowercase() == line.to_lowercase()
            };
            let found = self.choices.iter().find(is_it);
            let values = self.choices.iter().map(|choice| plain(choice.value));
            let none = || format!("it is one of {}", values.collect::<Vec<_>>().join(", "));
            return found.map(|choice| choice.value.clone()).ok_or_else(none);
        }
        let number: Option<Value> = serde_json::from_str(line).ok().filter(Value::is_number);
        let expected = |words: &str| words.to_owned();
        match self.item["type"].as_str() {
            Some("boolean") => truth(line)
                .map(Value::Bool)
                .ok_or_else(|| expected("yes or no")),
            Some("integer") => number
                .filter(|it| !it.is_f64())
                .ok_or_else(|| expected("a whole number is needed")),
            Some("number") => number.ok_or_else(|| expected("a number is needed")),
            _ => Ok(line.into()),
        }
    }

    fn offered(&self) -> Option<String> {
        if self.choices.is_empty() {
            return (self.item["type"] == "boolean").then(|| "yes/no".to_owned());
        }
        let has_titles = self.choices.iter().any(|choice| choice.title.is_some());
        let words = self.choices.iter().map(|choice| match choice.title {
            Some(title) => format!("{}: {title}", plain(choice.value)),
            None => plain(choice.value),
        });
        let words: Vec<_> = words.collect();
        Some(words.join(if has_titles { ", " } else { "/" }))
    }

    /// Returns the rules for the answer beside its type, in words.
    fn rules(&self) -> Vec<String> {
        let schema = self.schema;
        let mut rules = Vec::new();
        if schema["type"] == "array" {
            rules.push("several with commas between them".to_owned());
        }
        rules.extend(span(schema, "minItems", "maxItems").map(|span| format!("{span} of them")));
        rules.extend(format_of(schema).map(|(words, _)| words.to_owned()));
        let most = span(schema, "minLength", "maxLength");
        rules.extend(most.map(|span| format!("{span} characters")));
        rules.extend(span(schema, "minimum", "maximum"));
        let pattern = schema["pattern"].as_str();
        rules.extend(pattern.map(|pattern| format!("like {pattern}")));
        rules
    }

    /// Checks the value against the rules. The error names the broken rule.
    fn check(&self, value: &Value) -> Result<(), String> {
        let schema = self.schema;
        let is_within = |size: f64, least: &str, most: &str| {
            let is_low = schema[least].as_f64().is_some_and(|least| size < least);
            !is_low && schema[most].as_f64().is_none_or(|most| size <= most)
        };
        let fits = match value {
            Value::Array(items) => is_within(items.len() as f64, "minItems", "maxItems"),
            Value::String(text) => {
                let length = text.chars().count() as f64;
                let has_form = format_of(schema).is_none_or(|(_, fits)| fits(text));
                is_within(length, "minLength", "maxLength") && has_form
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                is_within(number, "minimum", "maximum")
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => true,
        };
        match fits {
            true => Ok(()),
            false => Err(format!("it has to be {}", self.rules().join("; "))),
        }
    }
}

/// Returns the possible values of a field, if they are few.
fn choices(field: &Value) -> Vec<Choice<'_>> {
    let names = field["enumNames"].as_array();
    let plain_ones = field["enum"].as_array().into_iter().flatten().enumerate();
    let plain_ones = plain_ones.map(|(place, value)| Choice {
        value,
        title: names.and_then(|names| names.get(place)?.as_str()),
    });
    let titled = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|name| field[name].as_array());
    let titled = titled.flatten().filter_map(|choice| {
        Some(Choice {
            value: choice.get("const")?,
            title: choice["title"].as_str(),
        })
    });
    let mut all: Vec<_> = plain_ones.chain(titled).collect();
    // A title that equals the value is dropped.
    for choice in &mut all {
        choice.title = choice.title.filter(|title| plain(choice.value) != *title);
    }
    all
}

/// Returns bounds in words.
fn span(schema: &Value, least: &str, most: &str) -> Option<String> {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    match (bound(least), bound(most)) {
        (Some(least), Some(most)) if least == most => Some(format!("exactly {least}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

type Format = (&'static str, fn(&str) -> bool);

/// Returns the rule of a format, in words and as a check.
fn format_of(schema: &Value) -> Option<Format> {
    match schema["format"].as_str()? {
        "email" => Some(("an e-mail address", is_email)),
        "uri" => Some(("an address such as https://example.org", is_uri)),
        "date" => Some(("a date such as 2026-07-28", is_date)),
        "date-time" => Some(("a time such as 2026-07-28T09:30:00Z", is_time)),
        _ => None,
    }
}

fn is_email(text: &str) -> bool {
    let is_plain = !text.contains(char::is_whitespace);
    let parts = text.rsplit_once('@');
    is_plain && parts.is_some_and(|(who, place)| !who.is_empty() && !place.is_empty())
}

fn is_uri(text: &str) -> bool {
    let is_plain = !text.contains(char::is_whitespace);
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    is_plain
        && text.split_once(':').is_some_and(|(scheme, rest)| {
            let begins = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
            begins && scheme.chars().all(letter) && !rest.is_empty()
        })
}

fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else {
        return false;
    };
    let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let Some(zone) = time.find(['Z', 'z', '+', '-']) else {
        return false;
    };
    let (time, zone) = time.split_at(zone);
    let (time, part) = time.split_once('.').unwrap_or((time, "0"));
    let is_part = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    let is_clock = numbers(time, ':', [2, 2, 2])
        .is_some_and(|[hour, minute, second]| hour < 24 && minute < 60 && second <= 60);
    let is_zone = matches!(zone, "Z" | "z")
        || zone.strip_prefix(['+', '-']).is_some_and(|zone| {
            numbers(zone, ':', [2, 2]).is_some_and(|[hour, minute]| hour < 24 && minute < 60)
        });
    is_date(date) && is_clock && is_part && is_zone
}

/// Reads numbers with the given counts of digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits)?;
        let is_number = part.bytes().all(|digit| digit.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(numbers)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads a word as yes or no.
pub(super) fn truth(line: &str) -> Option<bool> {
    match &*line.to_ascii_lowercase() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_and_bounds_are_shown_and_checked() {
        for (schema, hint, good, bad) in [
            (
                json!({ "type": "string", "format": "email" }),
                "e-mail",
                &["a@example.org"][..],
                &["a", "@b", "a@", "a b@c"][..],
            ),
            (
                json!({ "type": "string", "format": "uri" }),
                "https://",
                &["https://example.org/a?b", "mailto:a@b"],
                &["example.org", "1:2", "https:", "https://a b"],
            ),
            (
                json!({ "type": "string", "format": "date" }),
                "2026-07-28",
                &["2024-02-29", "2026-12-31"],
                &[
                    "2026-02-29",
                    "2026-13-01",
                    "28.7.2026",
                    "2026-1-1",
                    "+026-01-01",
                ],
            ),
            (
                json!({ "type": "string", "format": "date-time" }),
                "2026-07-28T",
                &["2026-07-28T09:30:00Z", "2026-07-28T09:30:00.5+02:00"],
                &[
                    "2026-07-28",
                    "2026-07-28T9:30:00Z",
                    "2026-07-28T09:30:00",
                    "2026-07-28T24:00:00Z",
                ],
            ),
            (
                json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
                "2 to 3 characters",
                &["ab", "äöü"],
                &["a", "abcd"],
            ),
            (
                json!({ "type": "integer", "minimum": 1 }),
                "at least 1",
                &["1", "99"],
                &["0", "-1", "1.5", "many"],
            ),
            (
                json!({ "type": "number", "maximum": 0.5 }),
                "at most 0.5",
                &["0.5", "-3"],
                &["0.6"],
            ),
            (
                json!({ "type": "array", "items": { "enum": ["a", "b", "c"] }, "minItems": 1, "maxItems": 2 }),
                "1 to 2 of them",
                &["a", "a, c"],
                &["a,b,c", "d", ","],
            ),
        ] {
            let field = Field::new("it", &schema, true);
            let question = field.question();
            assert!(question.contains(hint), "{question}");
            for line in good {
                assert!(field.value(line).is_ok(), "{schema}: {line}");
            }
            for line in bad {
                assert!(field.value(line).is_err(), "{schema}: {line}");
            }
        }
    }

    #[test]
    fn choices_have_titles_and_either_is_taken() {
        let names = json!({ "type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"], "default": "b" });
        let consts = json!({ "type": "string", "default": "b",
            "oneOf": [{ "const": "r", "title": "Red" }, { "const": "b", "title": "Blue" }] });
        for schema in [names, consts] {
            let field = Field::new("color", &schema, false);
            assert_eq!(field.question(), "color [r: Red, b: Blue] = b: ");
            for line in ["r", "Red", "red"] {
                assert_eq!(field.value(line), Ok(json!("r")), "{schema}");
            }
            assert_eq!(field.value("green"), Err("it is one of r, b".to_owned()));
        }
        let numbers = json!({ "enum": [1, 2] });
        assert_eq!(Field::new("n", &numbers, true).value("2"), Ok(json!(2)));
    }

    #[test]
    fn a_default_that_does_not_fit_is_none() {
        let schema = json!({ "type": "string", "format": "date", "default": "soon" });
        let field = Field::new("day", &schema, false);
        assert_eq!(field.default(), None);
        assert!(
            field.question().contains("optional"),
            "{}",
            field.question()
        );
        let schema = json!({ "type": "boolean", "default": true, "title": "Go?" });
        let field = Field::new("go", &schema, true);
        assert_eq!(field.question(), "Go? [yes/no] = yes: ");
    }
}
