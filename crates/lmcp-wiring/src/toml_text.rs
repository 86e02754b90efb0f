//! Writes TOML: a value on one line, and a document of such lines. The writer of the crate `toml` would make the binary
//! larger.

use toml::{Table, Value};

/// Writes a document: a line for each key.
pub(crate) fn document(table: &Table) -> String {
    let lines = table
        .iter()
        .map(|(name, of)| format!("{} = {}\n", string(name), value(of)));
    lines.collect()
}

/// Writes a value on one line.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(values) => list('[', values.iter().map(self::value), ']'),
        Value::Table(table) => {
            let entries = table.iter();
            list(
                '{',
                entries.map(|(name, of)| format!("{}={}", string(name), self::value(of))),
                '}',
            )
        }
    }
}

/// Writes a string as JSON, which is valid TOML except for one character that TOML wants escaped.
fn string(text: &str) -> String {
    let quoted = Value::from(text);
    let quoted = super::json::json(quoted).to_string();
    quoted.replace('\u{7f}', "\\u007f")
}

fn list(open: char, items: impl Iterator<Item = String>, close: char) -> String {
    let items: Vec<_> = items.collect();
    format!("{open}{}{close}", items.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let text = r#"
            "a b.c" = "quo\"te \\ \u0001 \u007f ü \n"
            numbers = [1, -2, 1.5, 1e300, inf, -inf, true]
            when = 1979-05-27T07:32:00Z
            [deep.er]
            list = [{ a = 1 }, { b = [[]] }]
            empty = {}
        "#;
        let table: Table = text.parse().unwrap();
        let written = document(&table);
        assert_eq!(written.parse::<Table>().unwrap(), table, "{written}");
        assert!(value(&Value::Float(f64::NAN)) == "nan");
    }
}
