//! Reads the values of keywords: returns the right type, or an error that names the place.

use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

use crate::{compile::Compiler, error::SchemaError, node::NodeId, number, text};

pub(crate) type Object = Map<String, Value>;

/// The value of a keyword that may be absent.
type Read<T> = Result<Option<T>, SchemaError>;

impl<'a> Compiler<'a> {
    pub(crate) fn string(&self, object: &'a Object, keyword: &str) -> Read<&'a str> {
        self.read(object, keyword, "a string", Value::as_str)
    }

    pub(crate) fn number(&self, object: &'a Object, keyword: &str) -> Read<&'a Number> {
        self.read(object, keyword, "a number", Value::as_number)
    }

    pub(crate) fn list(&self, object: &'a Object, keyword: &str) -> Read<&'a Vec<Value>> {
        self.read(object, keyword, "an array", Value::as_array)
    }

    pub(crate) fn flag(&self, object: &'a Object, keyword: &str) -> Read<bool> {
        self.read(object, keyword, "a boolean", Value::as_bool)
    }

    pub(crate) fn count(&self, object: &'a Object, keyword: &str) -> Read<u64> {
        self.read(
            object,
            keyword,
            "a whole number that is not negative",
            number::count,
        )
    }

    /// Returns the members of an object; none if the object is absent.
    pub(crate) fn map(
        &self,
        object: &'a Object,
        keyword: &str,
    ) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, SchemaError> {
        let map = self.read(object, keyword, "an object", Value::as_object)?;
        Ok(map.into_iter().flatten())
    }

    /// Reads an array of different strings at `tokens` below this schema.
    pub(crate) fn names(
        &self,
        tokens: &[&str],
        value: &Value,
    ) -> Result<Box<[Box<str>]>, SchemaError> {
        let items = value
            .as_array()
            .map(|items| items.iter().map(Value::as_str));
        let Some(names) = items.and_then(|items| items.collect::<Option<Vec<_>>>()) else {
            let found = text::shown(value);
            return self.refuse(
                tokens,
                format!("expected an array of strings, found {found}"),
            );
        };
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = text::shorten(twice[0], text::MAX_SHOWN);
            return self.refuse(tokens, format!("`{name}` is listed twice"));
        }
        Ok(names.into_iter().map(Box::from).collect())
    }

    pub(crate) fn schema_at(&mut self, object: &'a Object, keyword: &str) -> Read<NodeId> {
        let value = object.get(keyword);
        value.map(|value| self.child(&[keyword], value)).transpose()
    }

    pub(crate) fn schemas(&mut self, object: &'a Object, keyword: &str) -> Read<Box<[NodeId]>> {
        let Some(list) = self.list(object, keyword)? else {
            return Ok(None);
        };
        if list.is_empty() {
            return self.refuse(&[keyword], "expected at least one schema");
        }
        let mut nodes = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            nodes.push(self.child(&[keyword, &index.to_string()], value)?);
        }
        Ok(Some(nodes.into()))
    }

    pub(crate) fn regex(&self, tokens: &[&str], pattern: &str) -> Result<Regex, SchemaError> {
        let shown = text::shorten(pattern, text::MAX_SHOWN);
        // In ECMA-262, these escapes mean the characters themselves; in regex-lite, they mean borders of words.
        let escapes = pattern.replace(r"\\", "");
        if escapes.contains(r"\<") || escapes.contains(r"\>") {
            let rule = format!("pattern `{shown}` escapes `<` or `>`, which needs no escape");
            return self.refuse(tokens, rule);
        }
        let regex = RegexBuilder::new(pattern)
            .size_limit(MAX_REGEX_BYTES)
            .build();
        regex.or_else(|err| {
            self.refuse(tokens, format!("pattern `{shown}` is not supported: {err}"))
        })
    }

    fn read<T>(
        &self,
        object: &'a Object,
        keyword: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Read<T> {
        let Some(value) = object.get(keyword) else {
            return Ok(None);
        };
        match convert(value) {
            Some(value) => Ok(Some(value)),
            None => {
                let found = text::shown(value);
                self.refuse(&[keyword], format!("expected {expected}, found {found}"))
            }
        }
    }
}

/// The most bytes of a compiled pattern. A class that is repeated a thousand times fits, a repetition of repetitions does not.
const MAX_REGEX_BYTES: usize = 256 << 10;
