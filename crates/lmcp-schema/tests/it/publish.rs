//! What clients are shown of a derived schema.

use std::collections::BTreeMap;

use lmcp_schema::{publish_input, publish_output};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One of everything that somebody refuses.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to look
    /// for.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// How old.
    #[serde(default)]
    age: Age,
    port: Option<u16>,
    #[schemars(range(max = 20))]
    context: Option<usize>,
    /// Most results.
    #[serde(default = "eight")]
    limit: u8,
    #[serde(default)]
    deep: bool,
    env: Option<BTreeMap<String, String>>,
    place: Option<Place>,
    /// How large.
    size: Option<Size>,
    #[schemars(extend("format" = "uri"))]
    url: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    since: Option<String>,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Age {
    #[default]
    #[serde(rename = "")]
    Any,
    Day,
    Year,
}

#[derive(Deserialize, Serialize, JsonSchema)]
enum Size {
    /// Fits into a pocket.
    Small,
    Medium,
    /// Does not.
    Large,
}

/// One of two.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", deny_unknown_fields)]
enum Place {
    City { name: String },
    Point { x: f64, y: f64 },
}

fn eight() -> u8 {
    8
}

fn derived() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings
        .into_generator()
        .into_root_schema_for::<Args>()
        .to_value()
}

#[test]
fn nothing_is_shown_that_a_provider_refuses() {
    let shown = publish_input(derived());
    let properties = json!({
        "query": { "type": "string", "description": "What to look for." },
        "age": { "type": "string", "enum": ["day", "year"], "description": "How old." },
        "port": { "type": "integer" },
        "context": { "type": "integer", "maximum": 20 },
        "limit": { "type": "integer", "description": "Most results. Default: 8." },
        "deep": { "type": "boolean" },
        "env": { "type": "object", "additionalProperties": { "type": "string" } },
        "place": { "description": "One of two.", "anyOf": [
            { "type": "object", "properties": { "kind": { "type": "string", "enum": ["City"] }, "name": { "type": "string" } }, "required": ["kind", "name"] },
            { "type": "object", "properties": { "kind": { "type": "string", "enum": ["Point"] }, "x": { "type": "number" }, "y": { "type": "number" } }, "required": ["kind", "x", "y"] },
        ]},
        "size": { "type": "string", "enum": ["Medium", "Small", "Large"], "description": "How large. `Small`: Fits into a pocket. `Large`: Does not." },
        "url": { "type": "string" },
        "since": { "type": "string", "format": "date-time" },
    });
    assert_eq!(shown["properties"], properties);
    assert_eq!(shown["required"], json!(["query"]));
    assert!(shown.get("additionalProperties").is_none(), "{shown}");
    assert_eq!(publish_input(shown.clone()), shown, "twice is not once");
}

#[test]
fn the_schema_of_a_result_is_its_shape_without_words() {
    let text = publish_output(derived()).to_string();
    for absent in [
        "description",
        "default",
        "additionalProperties\":false",
        "uint",
        "65535",
    ] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    for present in ["query", "City", "\"required\"", "\"maximum\":20"] {
        assert!(text.contains(present), "{present}: {text}");
    }
}
