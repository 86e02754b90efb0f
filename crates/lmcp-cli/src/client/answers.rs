//! The answers that a command line gives with `--answer`, for questions that nobody is there to answer. No I/O.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use lmcp::wire::elicit::ElicitParams;
use serde_json::{Map, Value, json};

use super::field::{Field, fields};
use crate::report::Failure;

/// The answers of a command line, each by the name of its field.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<String, Given>);

#[derive(Debug)]
struct Given {
    text: String,
    /// Set when a question had a field of this name.
    used: AtomicBool,
}

impl Answers {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// A word is not `NAME=VALUE`, or a name stands twice.
    pub(super) fn of(words: &[String]) -> Result<Self, Failure> {
        let mut answers = BTreeMap::new();
        for word in words {
            let Some((name, text)) = word.split_once('=') else {
                return Err(Failure::misuse(format!(
                    "--answer: `{word}` is not NAME=VALUE"
                )));
            };
            let given = Given {
                text: text.to_owned(),
                used: AtomicBool::new(false),
            };
            if answers.insert(name.to_owned(), given).is_some() {
                return Err(Failure::misuse(format!("--answer: `{name}` stands twice")));
            }
        }
        Ok(Self(answers))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers a form. Optional fields without an answer have their default.
    ///
    /// # Errors
    /// The form cannot be answered. The error says why.
    pub(super) fn to(&self, form: &ElicitParams) -> Result<Value, String> {
        if form.url.is_some() {
            return Err("it wants an address to be opened, and that takes a terminal".to_owned());
        }
        let mut content = Map::new();
        let (mut missing, mut open, mut is_given) = (Vec::new(), Vec::new(), false);
        for field in fields(form) {
            let Some(given) = self.0.get(field.name) else {
                match field.default().filter(|_| !field.is_required) {
                    Some(default) => drop(content.insert(field.name.to_owned(), default.clone())),
                    None if field.is_required => missing.push(needs(&field)),
                    None => open.push(needs(&field)),
                }
                continue;
            };
            given.used.store(true, Ordering::Relaxed);
            is_given = true;
            let value = field.value(&given.text);
            let value = value.map_err(|why| format!("`{}={}`: {why}", field.name, given.text))?;
            content.insert(field.name.to_owned(), value);
        }
        match (is_given, missing.is_empty(), open.is_empty()) {
            (true, true, _) => Ok(json!({ "action": "accept", "content": content })),
            (_, false, _) => Err(format!("it needs {}", missing.join(" "))),
            (false, true, false) => Err(format!("it takes {}", open.join(" "))),
            // Nobody has agreed to a form that asks for nothing.
            (false, true, true) => Err("no --answer is for it".to_owned()),
        }
    }

    /// Returns the names of the answers that no question had a field for.
    pub(super) fn unused(&self) -> Vec<&str> {
        let unused = self
            .0
            .iter()
            .filter(|(_, given)| !given.used.load(Ordering::Relaxed));
        unused.map(|(name, _)| &**name).collect()
    }
}

fn needs(field: &Field<'_>) -> String {
    format!("--answer {}=…", field.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(words: &[&str], schema: Value) -> Result<Value, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let answers = Answers::of(&words).map_err(|failure| failure.to_string())?;
        answers.to(&ElicitParams::form("Where to?", schema))
    }

    fn form() -> Value {
        json!({
            "properties": {
                "age": { "type": "integer" },
                "color": { "enum": ["red", "blue"], "default": "red" },
                "happy": { "type": "boolean" },
                "tags": { "type": "array", "items": { "enum": ["a", "b"] } },
            },
            "required": ["age"],
        })
    }

    #[test]
    fn a_form_whose_required_fields_are_given_is_accepted() {
        let content = json!({ "age": 41, "color": "red" });
        let accepted = json!({ "action": "accept", "content": content });
        assert_eq!(answer(&["age=41"], form()), Ok(accepted));
        let content = json!({ "age": 41, "color": "blue", "happy": false, "tags": ["a", "b"] });
        let accepted = json!({ "action": "accept", "content": content });
        let words = ["tags=a, b", "happy=no", "color=blue", "age=41", "other=x"];
        assert_eq!(answer(&words, form()), Ok(accepted));
    }

    #[test]
    fn a_form_that_cannot_be_answered_says_what_it_needs() {
        let words = |words: &[&str], schema| answer(words, schema).unwrap_err();
        assert_eq!(words(&["happy=yes"], form()), "it needs --answer age=…");
        assert_eq!(
            words(&["age=old"], form()),
            "`age=old`: a whole number is needed"
        );
        let optional = json!({ "properties": { "age": { "type": "integer" } } });
        assert_eq!(words(&["x=1"], optional), "it takes --answer age=…");
        assert_eq!(words(&["x=1"], json!({})), "no --answer is for it");
    }

    #[test]
    fn a_word_that_is_no_answer_is_refused() {
        let words = |words: &[&str]| answer(words, form()).unwrap_err();
        assert_eq!(words(&["age"]), "--answer: `age` is not NAME=VALUE");
        assert_eq!(words(&["age=1", "age=2"]), "--answer: `age` stands twice");
    }

    #[test]
    fn an_address_is_never_agreed_to() {
        let answers = Answers::of(&["yes=yes".to_owned()]).unwrap();
        let form = ElicitParams::url("Please log in", "https://example.org/");
        assert!(answers.to(&form).unwrap_err().contains("a terminal"));
        assert_eq!(answers.unused(), ["yes"]);
    }
}
