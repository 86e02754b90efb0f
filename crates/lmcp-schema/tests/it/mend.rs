//! What is sent beside what a schema says, and what is made of it.

use lmcp_schema::{Aliases, Schema};
use serde_json::{Value, json};

/// The arguments of a made-up tool, as strict as they come.
fn schema() -> Schema {
    let edit = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "minLength": 1 },
            "old_string": { "type": "string" },
            "count": { "type": ["integer", "null"], "minimum": 1 },
        },
        "required": ["old_string"],
        "additionalProperties": false,
    });
    Schema::compile_input(&json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" },
            "content": { "type": "string" },
            "cursor": { "type": "string", "minLength": 1 },
            "stdin": { "type": "string" },
            "limit": { "type": "integer", "minimum": 1 },
            "ratio": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
            "deep": { "type": "boolean" },
            "mode": { "anyOf": [{ "type": "string", "enum": ["read", "write"] }, { "type": "null" }] },
            "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            "env": { "type": "object", "additionalProperties": { "type": "string" } },
            "edits": { "type": "array", "items": edit },
            "edit": { "anyOf": [edit, { "type": "null" }] },
            "id": { "type": ["string", "integer"] },
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    }))
    .expect("the schema is right")
}

fn aliases() -> Aliases {
    let mut aliases = Aliases::default();
    aliases.add("path", "file_path");
    aliases.add("path", "filename");
    aliases.add("old_string", "old_str");
    aliases.drop_member("description");
    aliases
}

/// What `more` becomes beside the arguments that are required.
fn meant(more: &Value) -> Result<Value, String> {
    let mut sent = json!({ "path": "a", "content": "" });
    for (key, value) in more.as_object().expect("arguments") {
        sent[key] = value.clone();
    }
    let mended = schema().mend(sent, &aliases());
    let mut mended = mended.map_err(|mismatches| mismatches.to_string())?;
    for (key, value) in [("path", json!("a")), ("content", json!(""))] {
        let members = mended.as_object_mut().expect("arguments");
        assert_eq!(members.remove(key), Some(value), "{more}");
    }
    Ok(mended)
}

#[test]
fn nothing_is_absent_where_it_is_optional_and_refused() {
    for (sent, expected) in [
        (
            json!({ "cursor": null, "limit": null, "deep": null }),
            json!({}),
        ),
        (
            json!({ "cursor": "", "limit": "", "mode": "", "argv": [] }),
            json!({}),
        ),
        (json!({ "edits": "", "env": "", "edit": {} }), json!({})),
        (json!({ "env": [], "limit": {} }), json!({})),
        (json!({ "limit": 0 }), json!({})),
        (json!({ "limit": "0" }), json!({})),
        (
            json!({ "id": "0", "stdin": "0" }),
            json!({ "id": "0", "stdin": "0" }),
        ),
        (json!({ "limit": 0.0, "ratio": 0 }), json!({ "ratio": 0 })),
        // The schema gives these a meaning.
        (
            json!({ "stdin": "", "env": {}, "edits": [] }),
            json!({ "stdin": "", "env": {}, "edits": [] }),
        ),
        (
            json!({ "ratio": null, "mode": null }),
            json!({ "ratio": null, "mode": null }),
        ),
        (
            json!({ "edits": [{ "old_string": "", "path": "", "count": null }, { "old_string": "x", "path": null }] }),
            json!({ "edits": [{ "old_string": "", "count": null }, { "old_string": "x" }] }),
        ),
        (
            json!({ "edit": { "old_string": "x", "path": "" } }),
            json!({ "edit": { "old_string": "x" } }),
        ),
    ] {
        // Something else is wrong, so that what fits is looked at, too.
        let mut sent = sent;
        sent["description"] = json!("why");
        assert_eq!(meant(&sent), Ok(expected), "{sent}");
    }
}

#[test]
fn a_zero_is_no_text_and_a_negative_number_is_no_zero() {
    for sent in [
        json!({ "cursor": 0 }),
        json!({ "argv": 0 }),
        json!({ "limit": -1 }),
        json!({ "mode": 0 }),
    ] {
        assert!(meant(&sent).is_err(), "{sent}");
    }
}

#[test]
fn what_a_text_says_is_taken_where_it_fits() {
    for (sent, expected) in [
        (json!({ "limit": "10" }), json!({ "limit": 10 })),
        (json!({ "limit": " 10\n" }), json!({ "limit": 10 })),
        (json!({ "ratio": "0.5" }), json!({ "ratio": 0.5 })),
        (json!({ "deep": "true" }), json!({ "deep": true })),
        (json!({ "deep": "False" }), json!({ "deep": false })),
        (
            json!({ "argv": r#"["ls", "-l"]"# }),
            json!({ "argv": ["ls", "-l"] }),
        ),
        (
            json!({ "env": r#"{"A": "1"}"# }),
            json!({ "env": { "A": "1" } }),
        ),
        (
            json!({ "edits": r#"[{"old_str": "x", "count": "2", "path": ""}]"# }),
            json!({ "edits": [{ "old_string": "x", "count": 2 }] }),
        ),
        (
            json!({ "edits": [r#"{"old_string": "x"}"#] }),
            json!({ "edits": [{ "old_string": "x" }] }),
        ),
        (json!({ "argv": "ls" }), json!({ "argv": ["ls"] })),
        (
            json!({ "edits": { "old_str": "x" } }),
            json!({ "edits": [{ "old_string": "x" }] }),
        ),
        // A text is what it is where a text is wanted.
        (
            json!({ "stdin": "10", "id": "7" }),
            json!({ "stdin": "10", "id": "7" }),
        ),
    ] {
        assert_eq!(meant(&sent), Ok(expected), "{sent}");
    }
    for (sent, part) in [
        (
            json!({ "limit": "ten" }),
            "`/limit`: expected integer, got string \"ten\"",
        ),
        (json!({ "limit": "-1" }), "`/limit`"),
        (json!({ "limit": "1.5" }), "`/limit`: expected integer"),
        (json!({ "deep": "yes" }), "`/deep`: expected boolean"),
        (json!({ "deep": 1 }), "`/deep`: expected boolean"),
        (json!({ "argv": 5 }), "`/argv`: expected array"),
        (json!({ "stdin": 5 }), "`/stdin`: expected string"),
        (
            json!({ "edits": [null] }),
            "`/edits/0`: expected object, got null",
        ),
    ] {
        let words = meant(&sent).unwrap_err();
        assert!(words.contains(part), "{sent}: {words}");
    }
}

#[test]
fn other_names_are_taken_and_never_instead_of_the_right_one() {
    let mend = |sent: Value| {
        schema()
            .mend(sent, &aliases())
            .map_err(|wrong| wrong.to_string())
    };
    let right = json!({ "path": "a", "content": "x" });
    for sent in [
        json!({ "file_path": "a", "content": "x" }),
        json!({ "filePath": "a", "Content": "x" }),
        json!({ "filename": "a", "content": "x", "description": "why" }),
        json!({ "path": "a", "file_path": "a", "content": "x" }),
        json!({ "path": "a", "file_path": "a", "content": "x", "cursor": null }),
    ] {
        assert_eq!(mend(sent.clone()), Ok(right.clone()), "{sent}");
    }
    let twice = mend(json!({ "path": "a", "file_path": "b", "content": "x" })).unwrap_err();
    let words = "`/file_path` and `path` mean the same, and their values differ; drop `file_path`";
    assert_eq!(twice, words);
    let others = mend(json!({ "file_path": "a", "filename": "b", "content": "x" })).unwrap_err();
    let words =
        "`/filename` and `file_path` mean the same, and their values differ; drop `filename`";
    assert_eq!(others, words);
    let unknown = mend(json!({ "path": "a", "content": "x", "contnt": "y" })).unwrap_err();
    assert!(unknown.contains("`/contnt` is not known"), "{unknown}");
    let absent = mend(json!({ "path": null, "content": "x" })).unwrap_err();
    assert_eq!(absent, "`/path`: expected string, got null");
}

#[test]
fn a_name_with_null_says_nothing_beside_another_for_the_same() {
    let mend = |sent: Value| {
        schema()
            .mend(sent, &aliases())
            .map_err(|wrong| wrong.to_string())
    };
    let right = json!({ "path": "a", "content": "x" });
    for sent in [
        json!({ "path": null, "file_path": "a", "content": "x" }),
        json!({ "path": "a", "file_path": null, "content": "x" }),
        json!({ "file_path": null, "filename": "a", "content": "x" }),
        json!({ "file_path": "a", "filename": null, "content": "x" }),
        json!({ "path": "a", "content": "x", "Cursor": null }),
    ] {
        assert_eq!(mend(sent.clone()), Ok(right.clone()), "{sent}");
    }
    let nothing = mend(json!({ "path": null, "file_path": null, "content": "x" })).unwrap_err();
    assert_eq!(nothing, "`/path`: expected string, got null");
}

#[test]
fn an_empty_value_under_another_name_says_nothing_beside_the_right_one() {
    let mend = |sent: Value| {
        schema()
            .mend(sent, &aliases())
            .map_err(|wrong| wrong.to_string())
    };
    let right = json!({ "path": "a", "content": "x" });
    for sent in [
        json!({ "path": "a", "file_path": "", "content": "x" }),
        json!({ "path": "a", "file_path": [], "filename": {}, "content": "x" }),
        json!({ "file_path": "a", "filename": "", "content": "x" }),
        json!({ "filename": "", "file_path": "a", "content": "x" }),
        json!({ "path": null, "filename": "", "file_path": "a", "content": "x" }),
    ] {
        assert_eq!(mend(sent.clone()), Ok(right.clone()), "{sent}");
    }
    // Alone it is what was said, and under the right name it may be meant.
    let empty = json!({ "path": "", "content": "x" });
    for sent in [
        json!({ "file_path": "", "content": "x" }),
        json!({ "path": null, "file_path": "", "content": "x" }),
        json!({ "file_path": "", "filename": null, "content": "x" }),
    ] {
        assert_eq!(mend(sent.clone()), Ok(empty.clone()), "{sent}");
    }
    let twice = mend(json!({ "path": "", "file_path": "a", "content": "x" })).unwrap_err();
    let words = "`/file_path` and `path` mean the same, and their values differ; drop `file_path`";
    assert_eq!(twice, words);
}

#[test]
fn an_alias_of_an_open_schema_is_taken_where_the_schema_refuses_it() {
    let schema = Schema::compile_input(&json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "file_path": false },
    }))
    .unwrap();
    let mended = schema.mend(json!({ "file_path": "a", "other": 1 }), &aliases());
    assert_eq!(mended, Ok(json!({ "path": "a", "other": 1 })));
}

#[test]
fn the_work_is_bounded() {
    let tree = json!({
        "type": "object",
        "properties": { "kid": { "$ref": "#/$defs/Tree" }, "n": { "type": "integer" } },
        "$defs": { "Tree": { "anyOf": [
            { "type": "object", "properties": { "kid": { "$ref": "#/$defs/Tree" }, "n": { "type": "integer" } }, "additionalProperties": false },
            { "type": "object", "properties": { "kid": { "$ref": "#/$defs/Tree" }, "m": { "type": "integer" } }, "additionalProperties": false },
        ]}},
    });
    let schema = Schema::compile_input(&tree).unwrap();
    let mut value = json!({ "wrong": true });
    for _ in 0..100 {
        value = json!({ "kid": value });
    }
    assert!(schema.mend(value, &Aliases::default()).is_err());
    let large = json!({ "n": format!("[{}]", "[1],".repeat(1 << 20)) });
    assert!(schema.mend(large, &Aliases::default()).is_err());
}
