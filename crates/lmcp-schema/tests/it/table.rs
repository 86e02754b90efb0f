//! Every keyword by hand: a schema, values that are valid, values that are not; the oracle has to agree.

use lmcp_schema::Schema;
use serde_json::{Value, json};

use crate::oracle::oracle;

struct Row(Value, Vec<Value>, Vec<Value>);

macro_rules! rows {
    ($($schema:tt yes [$($yes:tt)*] no [$($no:tt)*])*) => {
        vec![$(Row(json!($schema), list(json!([$($yes)*])), list(json!([$($no)*])))),*]
    };
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        other => vec![other],
    }
}

fn agree(rows: Vec<Row>, at_least: usize) {
    let mut pairs = 0;
    for Row(schema, valid, invalid) in rows {
        let ours = Schema::compile(&schema).unwrap_or_else(|err| panic!("{schema}: {err}"));
        let theirs = oracle(&schema);
        let expected = valid
            .iter()
            .map(|value| (value, true))
            .chain(invalid.iter().map(|value| (value, false)));
        for (instance, expected) in expected {
            assert_eq!(
                theirs.is_valid(instance),
                expected,
                "the table is wrong: {schema} and {instance}"
            );
            assert_eq!(ours.is_valid(instance), expected, "{schema} and {instance}");
            assert_eq!(
                ours.validate(instance).is_ok(),
                expected,
                "{schema} and {instance}"
            );
            pairs += 1;
        }
    }
    assert!(pairs >= at_least, "only {pairs} pairs");
}

#[test]
fn values_of_any_type_agree_with_the_oracle() {
    agree(
        rows! {
            true yes [1, null] no []
            false yes [] no [1, null]
            {} yes [{}, []] no []
            { "type": "null" } yes [null] no [0, false, ""]
            { "type": "boolean" } yes [true, false] no [0, "true", null]
            { "type": "integer" } yes [1, 1.0, -3, 1e300, 18446744073709551615u64] no [1.5, "1", true]
            { "type": "number" } yes [1, 1.5] no ["1", null]
            { "type": "string" } yes ["", "a"] no [1, null]
            { "type": "array" } yes [[], [1]] no [{}, "[]"]
            { "type": "object" } yes [{}, { "a": 1 }] no [[], null]
            { "type": ["string", "null"] } yes ["a", null] no [1, []]
            { "type": ["integer", "number"] } yes [1, 1.5] no ["1"]
            { "enum": [1, "a", null, [1], { "a": 1 }] } yes [1, 1.0, "a", null, [1.0], { "a": 1.0 }] no [2, "b", false, [1, 1], {}]
            { "enum": [] } yes [] no [null, 1]
            { "enum": [true] } yes [true] no [1, "true"]
            { "enum": [0] } yes [0, 0.0, -0.0] no [false, ""]
            { "const": 1.0 } yes [1, 1.0] no [true, "1", 1.1]
            { "const": { "a": [1, { "b": null }] } } yes [{ "a": [1, { "b": null }] }] no [{ "a": [1, { "b": 0 }] }, { "a": [1, {}] }]
            { "const": null } yes [null] no [0, false]
            { "format": "email", "contentEncoding": "base64" } yes ["no mail", 5] no []
            { "unknown": 5, "title": "t", "default": 3, "examples": [1] } yes [1] no []
        },
        80,
    );
}

#[test]
fn numbers_agree_with_the_oracle() {
    agree(
        rows! {
            { "minimum": 1 } yes [1, 1.0, 2, "0", null] no [0, 0.99, -1]
            { "minimum": 1.5 } yes [1.5, 2, 18446744073709551615u64] no [1, 1.4]
            { "maximum": 9007199254740992u64 } yes [9007199254740992u64, 9007199254740992.0] no [9007199254740993u64, 1e16]
            { "maximum": 18446744073709551615u64 } yes [18446744073709551615u64, -5] no [1.8446744073709552e19, 1e20]
            { "minimum": -9223372036854775808i64 } yes [-9223372036854775808i64, 0] no [-1e19]
            { "exclusiveMinimum": 0 } yes [0.1, 1] no [0, 0.0, -0.0, -1]
            { "exclusiveMaximum": 10 } yes [9.99, 9] no [10, 10.0, 11]
            { "exclusiveMaximum": 0.5 } yes [0, 0.4] no [0.5, 1]
            { "multipleOf": 2 } yes [0, 4, -6, 4.0, "x"] no [1, 3, 2.5]
            { "multipleOf": 0.01 } yes [0.01, 4.02, 0.0, 19.99, 3] no [0.001, 0.015]
            { "multipleOf": 0.1 } yes [0.3, 1.1, 0.7] no [0.35]
            { "multipleOf": 1.5 } yes [3, 4.5, -1.5] no [2, 4]
            { "multipleOf": 1e-8 } yes [12391239123u64, 1e-8] no [1e-9]
            { "minimum": 1, "maximum": 3 } yes [1, 2, 3] no [0, 4]
        },
        50,
    );
}

#[test]
fn strings_agree_with_the_oracle() {
    agree(
        rows! {
            { "minLength": 2 } yes ["ab", "ä€", "😀😀", 1, []] no ["", "a", "😀"]
            { "maxLength": 2 } yes ["", "ab", "😀😀"] no ["abc", "ä€😀"]
            { "minLength": 2.0, "maxLength": 2.0 } yes ["ab"] no ["a", "abc"]
            { "minLength": 0 } yes [""] no []
            { "pattern": "b+" } yes ["abc", "bb", 5] no ["", "ac"]
            { "pattern": "^a.c$" } yes ["abc", "aäc"] no ["abcd", "xabc", "a\nc"]
            { "pattern": "^[a-z][\\w.-]*\\/\\d{2,3}$" } yes ["a/12", "a.b-c_9/123"] no ["a/1", "A/12", "a/1234"]
            { "pattern": "^(?:a|b){2}(?<n>c)?$" } yes ["ab", "bac"] no ["a", "abcc"]
            { "pattern": "^\\S+$" } yes ["abc"] no ["a b", ""]
            { "pattern": "\\u0041" } yes ["A"] no ["a"]
        },
        30,
    );
}

#[test]
fn arrays_agree_with_the_oracle() {
    agree(
        rows! {
            { "items": { "type": "integer" } } yes [[], [1, 2], "x", {}] no [["a"], [1, "a"]]
            { "items": false } yes [[]] no [[1]]
            { "items": true } yes [[1, "a"]] no []
            { "prefixItems": [{ "type": "integer" }, { "type": "string" }] } yes [[], [1], [1, "a"], [1, "a", null]] no [["a"], [1, 2]]
            { "prefixItems": [true], "items": false } yes [[], [1]] no [[1, 2]]
            { "prefixItems": [{ "type": "integer" }], "items": { "type": "string" } } yes [[1, "a", "b"]] no [[1, 2], ["a"]]
            { "contains": { "type": "integer" } } yes [["a", 1], 5] no [[], ["a"]]
            { "contains": { "type": "integer" }, "minContains": 2 } yes [[1, 2], [1, "a", 3]] no [[1], []]
            { "contains": { "type": "integer" }, "minContains": 0 } yes [[], ["a"], [1]] no []
            { "contains": { "type": "integer" }, "maxContains": 1 } yes [[1], [1, "a"]] no [[1, 2], []]
            { "contains": { "type": "integer" }, "minContains": 0, "maxContains": 1 } yes [[], [1]] no [[1, 2]]
            { "minContains": 5, "maxContains": 0 } yes [[], [1]] no []
            { "contains": false } yes ["x"] no [[], [1]]
            { "minItems": 1 } yes [[1], "", {}] no [[]]
            { "maxItems": 1 } yes [[], [1]] no [[1, 2]]
            { "uniqueItems": true } yes [[], [1], [1, "1", true, null], [[1], [2]], [0, false], [{}, []]] no [[1, 1], [1, 1.0], [{ "a": 1, "b": 2 }, { "b": 2, "a": 1 }], [[1, 2], 3, [1, 2]], ["a", "b", "a"]]
            { "uniqueItems": false } yes [[1, 1]] no []
            { "prefixItems": [true], "unevaluatedItems": false } yes [[1]] no [[1, 2]]
            { "allOf": [{ "prefixItems": [true, true] }], "unevaluatedItems": { "type": "integer" } } yes [["a", "b", 3]] no [["a", "b", "c"]]
            { "contains": { "type": "string" }, "unevaluatedItems": { "type": "integer" } } yes [["a", 1], ["a"]] no [["a", null], [1]]
            { "anyOf": [{ "prefixItems": [{ "type": "string" }] }, { "items": true, "minItems": 2 }], "unevaluatedItems": false } yes [["a"], [1, 2, 3]] no [[1]]
        },
        60,
    );
}

#[test]
fn objects_agree_with_the_oracle() {
    agree(
        rows! {
            { "properties": { "a": { "type": "integer" }, "b": false } } yes [{}, { "a": 1 }, { "c": 1 }, []] no [{ "a": "x" }, { "b": 1 }]
            { "properties": { "": { "type": "integer" }, "a/b~c": { "type": "string" } } } yes [{ "": 1 }] no [{ "": "x" }, { "a/b~c": 1 }]
            { "patternProperties": { "^a": { "type": "integer" }, "z$": { "minimum": 3 } } } yes [{ "ab": 1 }, { "b": "x" }, { "az": 3 }] no [{ "ab": "x" }, { "az": 1 }, { "z": 0 }]
            { "additionalProperties": false } yes [{}, 5] no [{ "a": 1 }]
            { "additionalProperties": { "type": "integer" } } yes [{ "a": 1 }] no [{ "a": "x" }]
            { "properties": { "a": true }, "patternProperties": { "^x-": true }, "additionalProperties": false } yes [{ "a": 1, "x-b": 2 }] no [{ "b": 1 }, { "ax-": 1 }]
            { "properties": { "a": { "minimum": 2 } }, "patternProperties": { "a": { "maximum": 3 } }, "additionalProperties": { "type": "string" } } yes [{ "a": 2, "b": "s" }] no [{ "a": 1 }, { "a": 4 }, { "b": 1 }]
            { "propertyNames": { "maxLength": 2 } } yes [{}, { "ab": 1 }, "abc"] no [{ "abc": 1 }]
            { "propertyNames": false } yes [{}] no [{ "a": 1 }]
            { "required": ["a", "b"] } yes [{ "a": null, "b": 1 }, [], "x"] no [{}, { "a": 1 }]
            { "required": [] } yes [{}] no []
            { "minProperties": 1, "maxProperties": 2 } yes [{ "a": 1 }, { "a": 1, "b": 2 }, []] no [{}, { "a": 1, "b": 2, "c": 3 }]
            { "dependentRequired": { "a": ["b", "c"] } } yes [{}, { "b": 1 }, { "a": 1, "b": 2, "c": 3 }, []] no [{ "a": 1 }, { "a": 1, "b": 2 }]
            { "dependentSchemas": { "a": { "required": ["b"], "maxProperties": 2 }, "z": false } } yes [{}, { "a": 1, "b": 2 }] no [{ "a": 1 }, { "a": 1, "b": 2, "c": 3 }, { "z": 1 }]
            { "properties": { "a": true }, "unevaluatedProperties": false } yes [{}, { "a": 1 }, 5] no [{ "b": 1 }]
            { "allOf": [{ "properties": { "a": true } }, { "patternProperties": { "^b": true } }], "unevaluatedProperties": false } yes [{ "a": 1, "bb": 2 }] no [{ "c": 1 }]
            { "anyOf": [{ "properties": { "a": { "const": 1 } }, "required": ["a"] }, { "properties": { "b": true } }], "unevaluatedProperties": false } yes [{ "a": 1 }, { "b": 1 }, { "a": 1, "b": 1 }] no [{ "a": 2 }, { "c": 1 }]
            { "if": { "properties": { "k": { "const": 1 } }, "required": ["k"] }, "then": { "properties": { "a": true } }, "else": { "properties": { "b": true } }, "unevaluatedProperties": false } yes [{ "k": 1, "a": 1 }, { "b": 1 }] no [{ "k": 1, "b": 1 }, { "k": 2 }, { "a": 1 }]
            { "dependentSchemas": { "a": { "properties": { "a": true, "b": true } } }, "unevaluatedProperties": false } yes [{ "a": 1, "b": 1 }] no [{ "b": 1 }]
            { "$ref": "#/$defs/d", "unevaluatedProperties": { "type": "integer" }, "$defs": { "d": { "properties": { "a": true } } } } yes [{ "a": "x", "b": 1 }] no [{ "b": "x" }]
            { "allOf": [{ "properties": { "a": true }, "unevaluatedProperties": { "type": "integer" } }], "unevaluatedProperties": false } yes [{ "a": "x", "b": 1 }] no [{ "b": "x" }]
            { "not": { "properties": { "a": true } }, "unevaluatedProperties": false } yes [] no [{ "a": 1 }]
        },
        70,
    );
}

#[test]
fn combinations_agree_with_the_oracle() {
    agree(
        rows! {
            { "allOf": [{ "minimum": 1 }, { "maximum": 3 }] } yes [2, "x"] no [0, 4]
            { "anyOf": [{ "type": "string" }, { "minimum": 3 }] } yes ["x", 3] no [1]
            { "oneOf": [{ "minimum": 2 }, { "maximum": 3 }] } yes [1, 4] no [2, 3, "x"]
            { "oneOf": [false, true, false] } yes [1] no []
            { "oneOf": [true, true] } yes [] no [1]
            { "not": { "type": "string" } } yes [1] no ["x"]
            { "not": {} } yes [] no [1, null]
            { "not": { "not": { "type": "string" } } } yes ["x"] no [1]
            { "if": { "type": "string" }, "then": { "minLength": 2 }, "else": { "minimum": 2 } } yes ["ab", 2, null] no ["a", 1]
            { "if": { "type": "string" }, "then": false } yes [1] no ["a"]
            { "if": true, "else": false } yes [1] no []
            { "then": false, "else": false } yes [1] no []
        },
        25,
    );
}

#[test]
fn references_agree_with_the_oracle() {
    agree(
        rows! {
            { "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } } yes ["x"] no [1]
            { "$ref": "#/$defs/a", "minLength": 2, "$defs": { "a": { "type": "string" } } } yes ["xy"] no ["x", 1]
            { "$ref": "#name", "$defs": { "a": { "$anchor": "name", "type": "string" } } } yes ["x"] no [1]
            { "$ref": "#/$defs/a~1b~0c%25", "$defs": { "a/b~c%": { "type": "string" } } } yes ["x"] no [1]
            { "$ref": "#/$defs/list/1", "$defs": { "list": { "allOf": [true] , "1": { "type": "string" } } } } yes ["x"] no [1]
            { "properties": { "a": { "type": "integer" }, "b": { "$ref": "#/properties/a" } } } yes [{ "b": 1 }] no [{ "b": "x" }]
            { "properties": { "kids": { "items": { "$ref": "#" } } }, "additionalProperties": false } yes [{ "kids": [{ "kids": [] }] }] no [{ "kids": [{ "kid": [] }] }]
            { "$ref": "#/$defs/node", "$defs": { "node": { "type": "object", "properties": { "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } }, "required": ["next"] } } } yes [{ "next": null }, { "next": { "next": null } }] no [{}, { "next": {} }, { "next": 1 }]
            { "$id": "https://example.com/tool", "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } } yes ["x"] no [1]
            { "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/c" }, "c": { "type": "string" } }, "items": { "$ref": "#/$defs/a" } } yes [["x"]] no [[1]]
            { "$defs": { "a": { "type": "string" } }, "definitions": { "b": { "$ref": "#/$defs/a" } }, "$ref": "#/definitions/b" } yes ["x"] no [1]
        },
        25,
    );
}

#[test]
fn draft_07_agrees_with_the_oracle() {
    const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";
    agree(
        rows! {
            { "$schema": DRAFT_07, "items": [{ "type": "integer" }, { "type": "string" }] } yes [[1], [1, "a"], [1, "a", null]] no [["a"], [1, 1]]
            { "$schema": DRAFT_07, "items": [true], "additionalItems": false } yes [[1]] no [[1, 2]]
            { "$schema": DRAFT_07, "items": [true], "additionalItems": { "type": "string" } } yes [[1, "a"]] no [[1, 2]]
            { "$schema": DRAFT_07, "items": { "type": "integer" }, "additionalItems": false } yes [[1, 2]] no [["a"]]
            { "$schema": DRAFT_07, "dependencies": { "a": ["b"], "c": { "required": ["d"] }, "e": false } } yes [{}, { "a": 1, "b": 1 }, { "c": 1, "d": 1 }] no [{ "a": 1 }, { "c": 1 }, { "e": 1 }]
            { "$schema": DRAFT_07, "$ref": "#/definitions/a", "minLength": 5, "definitions": { "a": { "type": "string" } } } yes ["x"] no [1]
            { "$schema": DRAFT_07, "properties": { "a": { "$ref": "#/definitions/a", "maximum": 0 } }, "definitions": { "a": { "type": "integer" } } } yes [{ "a": 5 }] no [{ "a": "x" }]
            { "$schema": DRAFT_07, "contains": { "type": "integer" } } yes [[1]] no [[], ["a"]]
            { "$schema": DRAFT_07, "if": { "type": "string" }, "then": { "minLength": 2 } } yes ["ab", 1] no ["a"]
            { "$schema": DRAFT_07, "type": "integer", "const": 1 } yes [1, 1.0] no [2]
            { "$schema": "http://json-schema.org/draft-07/schema", "propertyNames": { "pattern": "^a" } } yes [{ "ab": 1 }] no [{ "b": 1 }]
        },
        30,
    );
}

#[test]
fn the_schema_of_the_conformance_suite_works() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        }},
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    let compiled = Schema::compile_input(&schema).unwrap();
    assert!(compiled.is_valid(&json!({ "contactMethod": "phone", "phone": "1" })));
    assert!(!compiled.is_valid(&json!({ "contactMethod": "phone", "email": "a" })));
    assert!(!compiled.is_valid(&json!({ "address": { "street": 5 }, "email": "a" })));
}
