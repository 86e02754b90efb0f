//! How `UPDATE=1` writes a message into a file: on one line if it fits, else one member per line.

use serde_json::Value;

/// The lines of a `<` entry.
pub(crate) fn entry(message: &Value) -> String {
    format!("< {}", layout(message, 2))
}

fn layout(value: &Value, indent: usize) -> String {
    let compact = compact(value);
    if compact.chars().count() + indent <= WIDTH {
        return compact;
    }
    let (pad, end) = (" ".repeat(indent + 2), " ".repeat(indent));
    if let Value::Array(items) = value
        && items
            .iter()
            .all(|item| !item.is_array() && !item.is_object())
    {
        return format!("[\n{pad}{}\n{end}]", fill(items, indent + 2));
    }
    let (open, items, close): (_, Vec<String>, _) = match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| layout(item, indent + 2));
            ('[', items.collect(), ']')
        }
        Value::Object(_) => {
            let item = |(key, value): (&String, &Value)| {
                format!(
                    "{}:{}",
                    Value::from(key.as_str()),
                    layout(value, indent + 2)
                )
            };
            ('{', members(value).into_iter().map(item).collect(), '}')
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return compact,
    };
    let items = items.join(&format!(",\n{pad}"));
    format!("{open}\n{pad}{items}\n{end}{close}")
}

/// As many items on a line as fit.
fn fill(items: &[Value], indent: usize) -> String {
    let mut lines = vec![String::new()];
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 < items.len() { "," } else { "" };
        let item = format!("{}{comma}", compact(item));
        match lines.last_mut() {
            Some(line) if line.is_empty() || indent + line.len() + item.len() <= WIDTH => {
                line.push_str(&item)
            }
            _ => lines.push(item),
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

fn compact(value: &Value) -> String {
    match value {
        Value::Object(_) => {
            let item = |(key, value): (&String, &Value)| {
                format!("{}:{}", Value::from(key.as_str()), compact(value))
            };
            let items: Vec<_> = members(value).into_iter().map(item).collect();
            format!("{{{}}}", items.join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(compact).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The members of an object; those that tell what it is come first.
fn members(value: &Value) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = value.as_object().into_iter().flatten().collect();
    let rank = |key: &str| FIRST.iter().position(|first| *first == key);
    members.sort_by_key(|(key, _)| rank(key).unwrap_or(FIRST.len()));
    members
}

const WIDTH: usize = 118;
const FIRST: [&str; 7] = [
    "jsonrpc",
    "id",
    "method",
    "resultType",
    "code",
    "type",
    "name",
];
