//! Turns the schema of a Rust type into the one that clients are shown, without the parts that a model's provider, or its SDK,
//! refuses.
//!
//! A provider that refuses one tool refuses the whole request, so the user loses every tool. All rules are here:
//!
//! | rule | reason |
//! |---|---|
//! | no list of types, no `null`, no references (`normalise`) | Gemini, and converters to OpenAPI 3.0 |
//! | no `additionalProperties: false` | google-genai for Python ≥ 2.0 fails at the boolean |
//! | an `enum` of strings only, without `""` | Gemini refuses the request with 400 |
//! | no `format` but `date-time` | Gemini knows `enum` and `date-time`; OpenAI's strict mode refuses `uri` |
//! | `anyOf` for `oneOf`, `enum` for `const` and for variants that are only names | OpenAI's strict mode and Gemini have neither |
//! | no `default`; its value goes into the description | OpenAI's strict mode refuses it |
//! | no lengths, of texts and of lists | the strict modes of OpenAI and Anthropic refuse them |
//! | no bound that is only the range of a Rust type, no `minimum` of 0 or 1 | allowed, but every request pays for the words |
//!
//! The check of arguments does not change: it uses the schema of the type.

use serde_json::{Value, json};

use crate::{
    normalise::{normalise_input, normalise_output, subschemas},
    read::Object,
    text,
};

/// Turns a derived schema of arguments into the one that clients are shown. Doing it twice changes nothing more.
///
/// ```
/// use serde_json::json;
///
/// let derived = json!({
///     "type": "object",
///     "properties": { "limit": { "type": "integer", "format": "uint32", "minimum": 0, "default": 8, "description": "At most." } },
///     "additionalProperties": false,
/// });
/// let shown = json!({
///     "type": "object",
///     "properties": { "limit": { "type": "integer", "description": "At most. Default: 8." } },
/// });
/// assert_eq!(lmcp_schema::publish_input(derived), shown);
/// ```
pub fn publish_input(mut schema: Value) -> Value {
    each(&mut schema, &mut forget_range);
    let mut schema = normalise_input(schema);
    each(&mut schema, &mut suit_providers);
    schema
}

/// Turns a derived schema of a structured result into the one that clients are shown: only its shape, which a program needs,
/// without descriptions.
pub fn publish_output(mut schema: Value) -> Value {
    each(&mut schema, &mut forget_range);
    let mut schema = normalise_output(schema);
    each(&mut schema, &mut |schema| {
        for keyword in ["description", "title", "default", "examples", "minLength"] {
            schema.remove(keyword);
        }
        forget_openness(schema);
    });
    schema
}

/// Calls `change` with every schema in a schema, the outer ones last.
fn each(schema: &mut Value, change: &mut dyn FnMut(&mut Object)) {
    let Value::Object(schema) = schema else {
        return;
    };
    subschemas(schema, &mut |schema| each(schema, change));
    change(schema);
}

/// Removes the bounds that `schemars` gives every integer of a type, and keeps the bounds that the author chose.
fn forget_range(schema: &mut Object) {
    let (least, most): (i64, Option<i64>) = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (0, Some(u8::MAX.into())),
        Some("uint16") => (0, Some(u16::MAX.into())),
        Some("uint32" | "uint64" | "uint") => (0, None),
        Some("int8") => (i8::MIN.into(), Some(i8::MAX.into())),
        Some("int16") => (i16::MIN.into(), Some(i16::MAX.into())),
        _ => return,
    };
    let is = |keyword: &str, bound: i64| schema.get(keyword).and_then(Value::as_i64) == Some(bound);
    let (has_least, has_most) = (
        is("minimum", least),
        most.is_some_and(|most| is("maximum", most)),
    );
    if has_least {
        schema.remove("minimum");
    }
    if has_most {
        schema.remove("maximum");
    }
}

fn suit_providers(schema: &mut Object) {
    forget_openness(schema);
    for keyword in ["minLength", "maxLength", "minItems", "maxItems"] {
        schema.remove(keyword);
    }
    let least = schema.get("minimum").and_then(Value::as_i64);
    if least.is_some_and(|least| (0..=1).contains(&least)) {
        schema.remove("minimum");
    }
    if schema
        .get("format")
        .is_some_and(|format| format != "date-time")
    {
        schema.remove("format");
    }
    if !schema.contains_key("anyOf")
        && let Some(alternatives) = schema.remove("oneOf")
    {
        schema.insert("anyOf".to_owned(), alternatives);
    }
    if schema.get("const").is_some_and(Value::is_string)
        && let Some(value) = schema.remove("const")
    {
        schema.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| value != "");
        if values.is_empty() || !values.iter().all(Value::is_string) {
            schema.remove("enum");
        }
    }
    name_variants(schema);
    say_default(schema);
    join_lines(schema);
}

/// Turns variants that are only names into one `enum`. Their descriptions go into that of the `enum`.
fn name_variants(schema: &mut Object) {
    let is_name = |variant: &Value| {
        let keywords = variant
            .as_object()
            .map(|variant| variant.keys().map(String::as_str));
        let plain = keywords.is_some_and(|mut keywords| {
            keywords.all(|word| matches!(word, "type" | "enum" | "description"))
        });
        plain && variant["type"] == "string" && variant["enum"].is_array()
    };
    let Some(Value::Array(variants)) = schema.get("anyOf") else {
        return;
    };
    if schema.contains_key("type") || !variants.iter().all(is_name) {
        return;
    }
    let (mut names, mut words) = (Vec::new(), Vec::new());
    words.extend(
        schema
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned),
    );
    for variant in variants {
        let own = variant["enum"].as_array().cloned().unwrap_or_default();
        if let (Some(said), [name]) = (variant["description"].as_str(), &own[..]) {
            words.push(format!("`{}`: {said}", name.as_str().unwrap_or_default()));
        }
        names.extend(own);
    }
    schema.remove("anyOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(names));
    if !words.is_empty() {
        schema.insert("description".to_owned(), words.join(" ").into());
    }
}

/// Removes whether the schema accepts unknown members: clients need not know that.
fn forget_openness(schema: &mut Object) {
    for keyword in ["additionalProperties", "unevaluatedProperties"] {
        if schema.get(keyword).is_some_and(Value::is_boolean) {
            schema.remove(keyword);
        }
    }
}

/// Moves a default into the description, if a reader needs to know it.
fn say_default(schema: &mut Object) {
    let Some(default) = schema.remove("default") else {
        return;
    };
    let value = match &default {
        Value::Number(number) if number.as_i64() == Some(0) => return,
        Value::Bool(true) | Value::Number(_) => default.to_string(),
        Value::String(text) if !text.is_empty() => {
            format!("`{}`", text::shorten(text, text::MAX_SHOWN))
        }
        // A reader expects these values anyway, or they are too long for a sentence.
        Value::Null | Value::Bool(false) | Value::String(_) => return,
        Value::Array(_) | Value::Object(_) => return,
    };
    let words = schema.get("description").and_then(Value::as_str);
    let words = words.unwrap_or_default();
    let space = if words.is_empty() { "" } else { " " };
    let words = format!("{words}{space}Default: {value}.");
    schema.insert("description".to_owned(), words.into());
}

/// Joins the lines of descriptions. Comments in source code are wrapped, and a model would pay for the line ends.
fn join_lines(schema: &mut Object) {
    if let Some(Value::String(words)) = schema.get_mut("description")
        && words.contains('\n')
    {
        let paragraphs: Vec<_> = words
            .split("\n\n")
            .map(|lines| lines.replace('\n', " "))
            .collect();
        *words = paragraphs.join("\n\n");
    }
}
