//! What `schemars` makes of Rust types, after normalising: acceptable to every client (row A1 of the demand).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lmcp_schema::{Schema, normalise_input, normalise_output};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a tool's arguments usually look like, with anything inside.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Args<T> {
    /// Has to be given.
    needed: T,
    /// May be left out.
    optional: Option<T>,
    #[serde(default)]
    defaulted: Option<T>,
    list: Vec<T>,
    map: BTreeMap<String, T>,
    holes: Vec<Option<T>>,
    pair: (T, Option<T>),
}

/// Wraps its content.
#[derive(Deserialize, JsonSchema)]
struct Wrapped<T>(T);

/// A plain structure.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Inner {
    /// With a comment.
    some_text: String,
    flag: Option<bool>,
    #[serde(default = "five")]
    count: u8,
    #[serde(default)]
    plain: Plain,
}

fn five() -> u8 {
    5
}

#[derive(Clone, Default, Deserialize, Serialize, JsonSchema)]
enum Plain {
    #[default]
    First,
    Second,
}

#[derive(Deserialize, JsonSchema)]
enum Documented {
    /// The first.
    First,
    /// The second.
    Second,
    Third,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
enum External {
    Unit,
    New(u8),
    Pair(u8, String),
    Fields { x: i32, y: Option<Inner> },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Internal {
    Fields { x: Option<u64> },
    New(Inner),
    Unit,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Adjacent {
    Fields { x: u8 },
    New(Inner),
    Unit,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Untagged {
    Text(String),
    Number(i64),
    Object { a: Option<u8> },
    Nothing,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Flattened {
    own: u16,
    #[serde(flatten)]
    inner: Inner,
    #[serde(flatten)]
    kind: Internal,
    #[serde(flatten)]
    rest: HashMap<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Tree {
    /// Below this one.
    kids: Vec<Self>,
    up: Option<Box<Self>>,
    label: Option<Inner>,
}

#[test]
fn schemas_of_two_hundred_types_suit_every_client() {
    let mut seen = 0;
    macro_rules! each {
        ($($type:ty),* $(,)?) => { $(
            seen += suits_clients::<Args<$type>>(Recursive::No);
            seen += suits_clients::<Args<Option<$type>>>(Recursive::No);
            seen += suits_clients::<Args<Wrapped<$type>>>(Recursive::No);
            seen += suits_clients::<Args<Vec<$type>>>(Recursive::No);
            seen += suits_clients::<Args<BTreeMap<String, $type>>>(Recursive::No);
            seen += suits_clients::<Args<Box<[$type]>>>(Recursive::No);
        )* };
    }
    each![
        String, char, bool, (), u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64,
        std::num::NonZeroU32, std::num::NonZeroI64, std::time::Duration, std::path::PathBuf, std::net::IpAddr,
        [u8; 3], (u8, String), BTreeSet<u8>, Value, Inner, Plain, Documented, External, Internal, Adjacent, Untagged,
        Flattened, Result<u8, String>, std::ops::Range<u8>,
    ];
    seen += suits_clients::<Inner>(Recursive::No) + suits_clients::<Flattened>(Recursive::No);
    seen += suits_clients::<BTreeMap<String, u8>>(Recursive::No)
        + suits_clients::<Value>(Recursive::No);
    seen += suits_clients::<Wrapped<Inner>>(Recursive::No)
        + suits_clients::<Option<Inner>>(Recursive::No);
    seen += suits_clients::<Tree>(Recursive::Yes) + suits_clients::<Args<Tree>>(Recursive::Yes);
    assert!(seen >= 200, "only {seen} types");
}

#[test]
fn an_optional_argument_may_be_left_out_and_null_still_deserialises() {
    let shown = normalise_input(derive::<Inner>(Nested::Inline));
    let schema = Schema::compile_input(&shown).unwrap();
    let expected = json!({
        "description": "A plain structure.",
        "type": "object",
        "properties": {
            "someText": { "type": "string", "description": "With a comment." },
            "flag": { "type": "boolean" },
            "count": { "type": "integer", "minimum": 0, "maximum": 255, "default": 5 },
            "plain": { "type": "string", "enum": ["First", "Second"], "default": "First" },
        },
        "required": ["someText"],
        "additionalProperties": false,
    });
    assert_eq!(shown, expected);
    for arguments in [
        json!({ "someText": "x" }),
        json!({ "someText": "x", "flag": true }),
    ] {
        assert!(schema.is_valid(&arguments));
        assert!(serde_json::from_value::<Inner>(arguments).is_ok());
    }
    assert!(serde_json::from_value::<Inner>(json!({ "someText": "x", "flag": null })).is_ok());
}

#[test]
fn output_that_serde_writes_is_valid() {
    let schema = Schema::compile(&normalise_output(derive::<Inner>(Nested::Inline))).unwrap();
    let output = serde_json::to_value(Inner::default()).unwrap();
    assert!(
        output["flag"].is_null() && schema.is_valid(&output),
        "{:?}",
        schema.validate(&output)
    );
}

#[test]
fn described_variants_keep_their_descriptions() {
    let schema = normalise_input(derive::<Args<Documented>>(Nested::Inline));
    let optional = &schema["properties"]["optional"];
    assert_eq!(optional["description"], "May be left out.");
    let described = optional["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|variant| variant["description"].is_string());
    assert_eq!(described.count(), 2);
}

#[derive(Clone, Copy, PartialEq)]
enum Recursive {
    Yes,
    No,
}

#[derive(Clone, Copy)]
enum Nested {
    Inline,
    Referenced,
}

fn derive<T: JsonSchema>(nested: Nested) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = matches!(nested, Nested::Inline);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

fn suits_clients<T: JsonSchema>(recursive: Recursive) -> usize {
    for nested in [Nested::Inline, Nested::Referenced] {
        let derived = derive::<T>(nested);
        let (input, output) = (
            normalise_input(derived.clone()),
            normalise_output(derived.clone()),
        );
        assert_eq!(
            normalise_input(input.clone()),
            input,
            "twice is not once: {derived}"
        );
        assert_eq!(
            normalise_output(output.clone()),
            output,
            "twice is not once: {derived}"
        );
        for schema in [&input, &output] {
            assert!(
                schema.get("$schema").is_none() && schema.get("title").is_none(),
                "{schema}"
            );
            assert_plain(schema, recursive);
        }
        assert!(input["properties"].is_object(), "{input}");
        Schema::compile_input(&input).unwrap_or_else(|err| panic!("{err}: {input}"));
        Schema::compile(&output).unwrap_or_else(|err| panic!("{err}: {output}"));
    }
    1
}

/// No type lists, no formats of other people, no references.
fn assert_plain(value: &Value, recursive: Recursive) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| assert_plain(item, recursive)),
        Value::Object(object) => {
            assert!(!object.get("type").is_some_and(Value::is_array), "{value}");
            let format = object.get("format").and_then(Value::as_str);
            assert!(
                format.is_none_or(|format| KNOWN_FORMATS.contains(&format)),
                "{value}"
            );
            let has_reference = object.contains_key("$ref") || object.contains_key("$defs");
            assert!(recursive == Recursive::Yes || !has_reference, "{value}");
            object
                .values()
                .for_each(|value| assert_plain(value, recursive));
        }
        _ => {}
    }
}

const KNOWN_FORMATS: [&str; 6] = ["date-time", "uri", "uuid", "ipv4", "ipv6", "email"];
