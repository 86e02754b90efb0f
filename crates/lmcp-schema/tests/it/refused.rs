//! What does not become a schema, word for word.

use lmcp_schema::Schema;
use serde_json::json;

use crate::transcript;

#[test]
fn every_broken_rule_is_named_with_its_place() {
    let rows = transcript::rows(include_str!("refused.txt"));
    assert!(rows.len() >= 40);
    for (schema, expected) in rows {
        let err = Schema::compile(&schema).expect_err(&schema.to_string());
        assert_eq!(err.to_string(), expected, "{schema}");
    }
}

#[test]
fn keywords_of_another_dialect_are_refused() {
    for keyword in [
        "prefixItems",
        "minContains",
        "maxContains",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
    ] {
        let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", keyword: [] });
        let err = Schema::compile(&schema).unwrap_err();
        assert_eq!(err.pointer(), format!("/{keyword}"));
    }
}

#[test]
fn a_pattern_that_grows_too_large_is_refused() {
    let err = Schema::compile(&json!({ "pattern": "((a{100}){100}){100}" })).unwrap_err();
    assert!(err.rule().contains("is not supported: "), "{err}");
}
