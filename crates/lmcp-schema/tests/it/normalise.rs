//! Schemas before and after they are made acceptable.

use lmcp_schema::{normalise_input, normalise_output};
use serde_json::{Value, json};

use crate::transcript;

#[test]
fn arguments_are_rewritten_as_written_down() {
    let rows = transcript::rows(include_str!("normalise.txt"));
    assert!(rows.len() > 25);
    for (before, after) in rows {
        let after: Value = serde_json::from_str(&after).expect(&after);
        assert_eq!(normalise_input(before.clone()), after, "{before}");
        assert_eq!(
            normalise_input(after.clone()),
            after,
            "twice is not once: {before}"
        );
    }
}

#[test]
fn output_keeps_its_nulls() {
    let before = json!({ "title": "T", "type": "object", "properties": {
        "a": { "type": ["string", "null"], "default": null },
        "b": { "anyOf": [{ "type": "integer", "format": "int64" }, { "type": "null" }] },
    }});
    let after = json!({ "type": "object", "properties": {
        "a": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null },
        "b": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
    }});
    assert_eq!(normalise_output(before), after);
    assert_eq!(normalise_output(after.clone()), after);
}
