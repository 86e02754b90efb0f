//! What a model is told about wrong arguments, word for word.

use lmcp_schema::Schema;
use serde_json::{Value, json};

use crate::transcript;

/// The arguments of a made-up tool that has one of everything.
fn arguments() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "minLength": 2, "maxLength": 8 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
            "ratio": { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            "step": { "type": "number", "multipleOf": 0.5 },
            "mode": { "type": "string", "enum": ["read", "write"] },
            "version": { "const": 2 },
            "code": { "type": "string", "pattern": "^[A-Z]{3}$" },
            "max_results": { "type": "integer" },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 3, "minItems": 1, "uniqueItems": true },
            "pair": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "items": false, "minItems": 2 },
            "mixed": { "type": "array", "contains": { "type": "integer" }, "maxContains": 1 },
            "options": {
                "type": "object",
                "properties": { "deep": { "type": "object", "properties": { "er": { "type": "boolean" } }, "required": ["er"] } },
                "additionalProperties": false,
            },
            "labels": {
                "type": "object", "additionalProperties": { "type": "integer" }, "propertyNames": { "maxLength": 4 },
                "minProperties": 1, "maxProperties": 2,
            },
            "id": { "anyOf": [{ "type": "string" }, { "type": "integer", "minimum": 0 }] },
            "shape": { "oneOf": [
                { "type": "object", "properties": { "kind": { "const": "circle" }, "r": { "type": "number" } }, "required": ["kind", "r"] },
                { "type": "object", "properties": { "kind": { "const": "square" }, "side": { "type": "number" } }, "required": ["kind", "side"] },
            ]},
            "variant": { "oneOf": [
                { "type": "string", "enum": ["Unit"] },
                { "type": "string", "const": "Other", "description": "another" },
                { "type": "object", "properties": { "New": { "type": "integer" } }, "required": ["New"], "additionalProperties": false },
            ]},
            "odd": { "not": { "const": 7 } },
            "both": { "oneOf": [{ "minimum": 1 }, { "maximum": 5 }] },
            "never": false,
            "card": { "type": "string" },
            "address": { "type": "string" },
            "a/b": { "type": "null" },
        },
        "required": ["text"],
        "dependentRequired": { "card": ["address"] },
        "additionalProperties": false,
    })
}

#[test]
fn every_mistake_has_its_path_and_its_sentence() {
    let schema = Schema::compile_input(&arguments()).unwrap();
    let rows = transcript::rows(include_str!("messages.txt"));
    assert!(rows.len() >= 40);
    for (instance, sentence) in rows {
        let mismatches = schema.validate(&instance).expect_err(&sentence);
        assert_eq!(mismatches.to_string(), sentence);
        assert!(sentence.chars().count() <= 400, "{sentence}");
        for (mismatch, line) in mismatches.iter().zip(sentence.lines()) {
            let path = if mismatch.path.is_empty() {
                "/"
            } else {
                &mismatch.path
            };
            assert!(line.starts_with(&format!("`{path}`")), "{line}");
        }
    }
}

#[test]
fn many_mistakes_are_ten_at_most_and_fit_into_400_characters() {
    let schema = Schema::compile_input(
        &json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
    )
    .unwrap();
    let instance: Value = (0..50)
        .map(|n| (format!("key{n:02}"), json!("wrong")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mismatches = schema.validate(&instance).unwrap_err();
    assert_eq!(mismatches.iter().count(), 10);
    let text = mismatches.to_string();
    assert!(
        text.chars().count() <= 400
            && text.starts_with("`/key00`: expected integer")
            && text.ends_with(" more"),
        "{text}"
    );
    let instance = json!({ "k".repeat(10_000): "x".repeat(10_000) });
    assert!(
        schema
            .validate(&instance)
            .unwrap_err()
            .to_string()
            .chars()
            .count()
            <= 400
    );
}
