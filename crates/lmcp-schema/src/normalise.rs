//! Rewrites the schemas that `schemars` derives into schemas that every client accepts.
//!
//! Use it only for schemas of this program: schemas of other servers are passed on as they are. The meaning stays the same,
//! with one intended exception: an optional argument is left out, and not sent as `null`.

use serde_json::{Value, json};

use crate::{compile::Dialect, inline, node::Types, nullable, read::Object};

/// Rewrites the schema of a tool's arguments. Doing it twice changes nothing more.
///
/// Removes lists of types and the `null` of optional properties, references, formats that JSON Schema does not know, `$schema`
/// and the title of the root.
///
/// ```
/// use serde_json::json;
///
/// let derived = json!({ "title": "Args", "type": "object", "properties": { "limit": { "type": ["integer", "null"], "format": "uint32" } } });
/// let expected = json!({ "type": "object", "properties": { "limit": { "type": "integer" } } });
/// assert_eq!(lmcp_schema::normalise_input(derived), expected);
/// ```
pub fn normalise_input(schema: Value) -> Value {
    let mut schema = rewrite(schema, Nulls::MeanAbsent);
    if let Value::Object(root) = &mut schema {
        if root.keys().all(|keyword| is_annotation(keyword)) {
            root.insert("type".to_owned(), json!("object"));
        }
        if root.get("type").is_some_and(|name| name == "object") {
            root.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

/// Rewrites the schema of a tool's structured output, as [`normalise_input`] does. Properties that may be `null` stay so.
pub fn normalise_output(schema: Value) -> Value {
    rewrite(schema, Nulls::MayBeSent)
}

/// The meaning of `null` for an optional property.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    MeanAbsent,
    MayBeSent,
}

fn rewrite(schema: Value, nulls: Nulls) -> Value {
    // Without `$schema`, the schema would be read as 2020-12.
    let dialect = schema.get("$schema").map(Dialect::declared);
    if dialect.is_some_and(|dialect| dialect != Some(Dialect::Draft2020)) {
        return schema;
    }
    let mut schema = if schema == true { json!({}) } else { schema };
    if let Value::Object(root) = &mut schema {
        root.remove("$schema");
        root.remove("title");
    }
    if !inline::has_references(&schema) {
        // Without references, no removed part can have held on to another, so one pass is enough.
        if nulls == Nulls::MeanAbsent {
            nullable::forbid_null(&mut schema);
        }
        tidy(&mut schema, nulls);
        return schema;
    }
    // A removed part may have held the last reference to another, so several passes may be needed. Schemas of `schemars` are
    // stable after one.
    for _ in 0..MAX_PASSES {
        let before = schema.clone();
        schema = inline::inline(schema);
        if nulls == Nulls::MeanAbsent {
            nullable::forbid_null(&mut schema);
        }
        tidy(&mut schema, nulls);
        inline::drop_unused(&mut schema);
        if schema == before {
            break;
        }
    }
    schema
}

fn tidy(schema: &mut Value, nulls: Nulls) {
    let Value::Object(object) = schema else {
        return;
    };
    let format = object.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| FORMATS.split(' ').all(|known| known != format)) {
        object.remove("format");
    }
    if nulls == Nulls::MeanAbsent {
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        optional_properties(object).for_each(nullable::forbid_null);
    }
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Object::values_mut) {
        // One published client accepts only objects as the schema of a property.
        match property {
            Value::Bool(true) => *property = json!({}),
            Value::Bool(false) => *property = json!({ "not": {} }),
            _ => {}
        }
    }
    join_constants(object);
    split_types(object);
    subschemas(object, &mut |schema| tidy(schema, nulls));
}

fn optional_properties(schema: &mut Object) -> impl Iterator<Item = &mut Value> {
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let optional = move |name: &String| !required.iter().any(|required| required == name);
    properties
        .into_iter()
        .flatten()
        .filter(move |(name, _)| optional(name))
        .map(|(_, property)| property)
}

/// Turns alternatives that are only strings into an `enum`. Alternatives with descriptions stay, because an `enum` has no place
/// for them.
fn join_constants(schema: &mut Object) {
    for keyword in ["oneOf", "anyOf"] {
        if schema.contains_key("type") || schema.contains_key("enum") {
            return;
        }
        let alternatives = schema.get(keyword).and_then(Value::as_array);
        let values =
            alternatives.and_then(|list| list.iter().map(constants).collect::<Option<Vec<_>>>());
        let Some(values) = values.map(|values| values.concat()) else {
            continue;
        };
        let differ = values
            .iter()
            .enumerate()
            .all(|(index, value)| !values[..index].contains(value));
        if differ && !values.is_empty() {
            schema.remove(keyword);
            schema.insert("type".to_owned(), json!("string"));
            schema.insert("enum".to_owned(), Value::Array(values));
        }
    }
}

/// Returns the strings that a schema stands for, if it asserts nothing else.
fn constants(schema: &Value) -> Option<Vec<Value>> {
    let schema = schema.as_object().filter(|schema| schema.len() == 2)?;
    let values = match (schema.get("const"), schema.get("enum")) {
        (Some(value), None) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return None,
    };
    let strings = schema.get("type")? == "string" && values.iter().all(Value::is_string);
    strings.then_some(values)
}

/// Turns a list of types into `anyOf`. Each alternative gets the keywords that concern its type.
fn split_types(schema: &mut Object) {
    let Some(Value::Array(names)) = schema.get("type").cloned() else {
        return;
    };
    let mut asserted = std::mem::take(schema);
    for (keyword, value) in asserted.clone() {
        if is_annotation(&keyword) {
            asserted.remove(&keyword);
            schema.insert(keyword, value);
        }
    }
    let alternatives = names
        .iter()
        .filter_map(|name| alternative(&asserted, name.as_str()?));
    let mut alternatives: Vec<_> = alternatives.collect();
    match alternatives.len() {
        0 => drop(schema.insert("not".to_owned(), json!({}))),
        1 => inline::absorb(schema, alternatives.swap_remove(0)),
        _ => drop(schema.insert("anyOf".to_owned(), Value::Array(alternatives))),
    }
}

/// Returns the alternative for one type. `None` if no value of this type is allowed.
fn alternative(asserted: &Object, name: &str) -> Option<Value> {
    let mut schema = asserted.clone();
    schema.retain(|keyword, _| concerns(keyword, name));
    schema.insert("type".to_owned(), json!(name));
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let types = Types::named(name)?;
        values.retain(|value| types.accepts(value));
        if values.is_empty() {
            return None;
        }
        if name == "null" {
            schema.remove("enum");
        }
    }
    Some(Value::Object(schema))
}

/// Whether a keyword can assert something about values of this type.
fn concerns(keyword: &str, name: &str) -> bool {
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            matches!(name, "integer" | "number")
        }
        "minLength" | "maxLength" | "pattern" | "format" => name == "string",
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" | "contains" => {
            name == "array"
        }
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames" => name == "object",
        _ => true,
    }
}

/// Calls `visit` with every schema directly inside a schema.
pub(crate) fn subschemas(schema: &mut Object, visit: &mut dyn FnMut(&mut Value)) {
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            (
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions",
                Value::Object(map),
            ) => {
                map.values_mut().for_each(&mut *visit);
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().for_each(&mut *visit)
            }
            (
                "items" | "contains" | "unevaluatedItems" | "not" | "if" | "then" | "else",
                schema,
            ) => visit(schema),
            ("additionalProperties" | "unevaluatedProperties" | "propertyNames", schema) => {
                visit(schema)
            }
            _ => {}
        }
    }
}

/// Whether a keyword leaves the set of valid values as it is.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    keyword.starts_with("x-") || ANNOTATIONS.split(' ').any(|known| known == keyword)
}

const ANNOTATIONS: &str = "$schema $id $anchor $comment $defs definitions title description default examples \
    deprecated readOnly writeOnly";
/// The most passes. Only strange schemas need more.
const MAX_PASSES: usize = 8;
/// The formats of JSON Schema 2020-12, validation, section 7.3.
const FORMATS: &str = "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri \
    uri-reference iri iri-reference uuid uri-template json-pointer relative-json-pointer regex";
