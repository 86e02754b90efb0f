//! Data for tests: a line of JSON after `>`, and after `<` what is said about it.

use serde_json::Value;

/// The pairs of a transcript; `#` starts a remark.
pub(crate) fn rows(text: &str) -> Vec<(Value, String)> {
    let mut rows: Vec<(Value, String)> = Vec::new();
    for line in text.lines() {
        if let Some(json) = line.strip_prefix("> ") {
            rows.push((serde_json::from_str(json).expect(json), String::new()));
        } else if let Some(said) = line.strip_prefix("< ") {
            let (_, so_far) = rows.last_mut().expect("a line after `>` comes first");
            so_far.push_str(if so_far.is_empty() { "" } else { "\n" });
            so_far.push_str(said);
        }
    }
    rows
}
