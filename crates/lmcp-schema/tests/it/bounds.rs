//! Hostile schemas and values: the answer comes, it is no, and nothing overflows.

use lmcp_schema::{Aliases, Schema};
use serde_json::{Map, Value, json};

fn refused(schema: &Value) -> String {
    Schema::compile(schema)
        .expect_err("a hostile schema")
        .to_string()
}

/// A chain of definitions, each made from the name of the next.
fn chain(length: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut definitions: Map<String, Value> = (0..length)
        .map(|n| {
            (
                n.to_string(),
                link(json!({ "$ref": format!("#/$defs/{}", n + 1) })),
            )
        })
        .collect();
    definitions.insert(length.to_string(), json!({ "type": "string" }));
    json!({ "$ref": "#/$defs/0", "$defs": definitions })
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!({ "a": value }))
}

#[test]
fn a_schema_that_refers_to_itself_on_the_same_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "if": { "$ref": "#" } }),
        json!({ "dependentSchemas": { "a": { "$ref": "#" } } }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [true, { "$ref": "#/$defs/a" }] } } }),
        json!({ "properties": { "p": { "oneOf": [{ "$ref": "#/properties/p" }] } } }),
    ] {
        let text = refused(&schema);
        assert!(
            text.contains("refers to itself without going into the value"),
            "{schema}: {text}"
        );
    }
}

#[test]
fn long_chains_and_deep_nesting_are_refused() {
    assert!(Schema::compile(&chain(60, |next| next)).is_ok());
    let text = refused(&chain(3000, |next| next));
    assert!(
        text.contains("follow one another on the same value"),
        "{text}"
    );
    let deep = (0..65).fold(json!(true), |schema, _| json!({ "not": schema }));
    assert!(refused(&deep).ends_with("schemas nest more than 64 deep"));
    let wide: Map<String, Value> = (0..5000).map(|n| (n.to_string(), json!(true))).collect();
    assert!(refused(&json!({ "properties": wide })).contains("more than 4096 subschemas"));
}

#[test]
fn a_deep_value_is_checked_as_far_as_the_stack_allows() {
    let list = json!({ "anyOf": [
        { "type": "integer" },
        { "allOf": [{ "type": "object", "additionalProperties": { "$ref": "#" } }] },
    ]});
    let schema = Schema::compile(&list).unwrap();
    // As deep as text is parsed.
    assert!(schema.is_valid(&nested(127)));
    let text = schema.validate(&nested(600)).unwrap_err().to_string();
    assert!(text.contains("nests too deeply"), "{text}");
}

#[test]
fn the_deepest_walk_fits_a_small_stack() {
    let walk = || {
        // A chain of 60 on each level uses the stack up fastest.
        let mut schema = chain(30, |next| json!({ "allOf": [next] }));
        schema["$defs"]["30"] = json!({ "properties": { "a": { "$ref": "#" } } });
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.is_valid(&nested(5)));
        assert!(!schema.is_valid(&nested(600)));
        schema.validate(&nested(600)).unwrap_err().to_string()
    };
    let thread = std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(walk)
        .unwrap();
    assert!(thread.join().unwrap().contains("nests too deeply"));
}

#[test]
fn work_that_doubles_at_every_step_is_given_up() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schema = chain(25, |next| json!({ keyword: [next, next, false] }));
        let schema = Schema::compile(&schema).unwrap();
        let text = schema.validate(&json!(5)).unwrap_err().to_string();
        assert!(
            text.contains("too many steps") || keyword == "allOf",
            "{keyword}: {text}"
        );
    }
    let items: Vec<_> = (0..3000).collect();
    let schema =
        Schema::compile(&json!({ "items": { "enum": items.iter().rev().collect::<Vec<_>>() } }))
            .unwrap();
    assert!(!schema.is_valid(&json!(items)));
}

#[test]
fn long_texts_against_many_patterns_are_given_up() {
    let patterns: Vec<_> = (0..100)
        .map(|n| json!({ "pattern": format!("a{n}$") }))
        .collect();
    let schema = Schema::compile(&json!({ "not": { "anyOf": patterns } })).unwrap();
    assert!(schema.is_valid(&json!("a".repeat(100))));
    assert!(!schema.is_valid(&json!("a".repeat(100_000))));
}

#[test]
fn giving_up_cannot_be_turned_round() {
    let schema = json!({ "not": { "additionalProperties": { "$ref": "#" } } });
    assert!(!Schema::compile(&schema).unwrap().is_valid(&nested(600)));
}

#[test]
fn many_items_are_compared_quickly_enough() {
    let schema = Schema::compile(&json!({ "uniqueItems": true })).unwrap();
    let mut items: Vec<_> = (0..100_000).map(|n| json!(n)).collect();
    assert!(schema.is_valid(&Value::Array(items.clone())));
    items.push(json!(500.0));
    assert_eq!(
        schema
            .validate(&Value::Array(items))
            .unwrap_err()
            .to_string(),
        "`/`: expected items that differ, got equal items 500 and 100000"
    );
}

#[test]
fn of_many_objects_with_a_wrong_name_only_some_are_mended() {
    let item =
        json!({ "type": "object", "properties": { "name": {} }, "additionalProperties": false });
    let schema = Schema::compile(&json!({ "type": "array", "items": item })).unwrap();
    let mend = |count| {
        schema.mend(
            vec![json!({ "Name": 1 }); count].into(),
            &Aliases::default(),
        )
    };
    assert!(mend(1000).is_ok());
    assert!(mend(2000).is_err());
}
