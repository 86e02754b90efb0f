//! Puts an entry into a configuration, beside its existing content.

use lmcp_wire::jsonc;
use serde_json::{Map, Value};

use super::{
    Entry,
    json::json,
    preset::{Format, Shape},
    template, toml_text,
};
use crate::error::Error;

/// Returns the text of a configuration with the entry in it, in place of an entry of the same name. `own` is the user's
/// configuration, and `place` its name for an error.
pub(crate) fn into(
    own: Option<&str>,
    shape: &Shape,
    entry: &Entry,
    place: &str,
) -> Result<String, Error> {
    let filled = template::table(&shape.entry, entry);
    let own = own.unwrap_or_default();
    let bad = |words: &str| Error::misuse(format!("`{place}` cannot be added to: {words}"));
    match shape.format {
        Format::Json => {
            let mut document = read_json(own).map_err(|words| bad(&words))?;
            let mut table = &mut document;
            for key in &shape.merge_key {
                let below = table.entry(key).or_insert_with(|| Map::new().into());
                table = below
                    .as_object_mut()
                    .ok_or_else(|| bad(&format!("`{key}` is no object")))?;
            }
            table.insert(entry.name.clone(), json(filled));
            Ok(Value::Object(document).to_string())
        }
        Format::Toml => {
            let mut document = own
                .parse::<toml::Table>()
                .map_err(|err| bad(err.message()))?;
            let mut table = &mut document;
            for key in &shape.merge_key {
                let below = table
                    .entry(key)
                    .or_insert_with(|| toml::Table::new().into());
                table = below
                    .as_table_mut()
                    .ok_or_else(|| bad(&format!("`{key}` is no table")))?;
            }
            table.insert(entry.name.clone(), filled.into());
            Ok(toml_text::document(&document))
        }
    }
}

/// Returns whether there is an entry of this name.
pub(crate) fn has(text: &str, format: Format, merge_key: &[String], name: &str) -> bool {
    let mut keys = merge_key.iter().map(String::as_str).chain([name]);
    match format {
        Format::Json => {
            let document = read_json(text).map(Value::Object).unwrap_or_default();
            keys.try_fold(&document, |value, key| value.get(key))
                .is_some()
        }
        Format::Toml => {
            let document = text.parse().map(toml::Value::Table);
            let document = document.unwrap_or(toml::Value::Boolean(false));
            keys.try_fold(&document, |value, key| value.get(key))
                .is_some()
        }
    }
}

/// The object in a text; an empty one in an empty text.
fn read_json(text: &str) -> Result<Map<String, Value>, String> {
    let plain = jsonc::plain(text);
    if plain.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(&plain).map_err(|err| err.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::entry;

    fn shape(format: Format, merge_key: &str) -> Shape {
        let entry = toml::toml! { command = "{command}" args = "{args}" };
        Shape {
            format,
            merge_key: merge_key.split('.').map(str::to_owned).collect(),
            entry,
        }
    }

    #[test]
    fn what_is_there_stays_and_an_entry_of_the_same_name_goes() {
        let own = r#"{ // mine
            "theme": "dark", "mcpServers": { "a": { "command": "a" }, "lmcp": { "url": "http://x" }, }, }"#;
        let text = into(Some(own), &shape(Format::Json, "mcpServers"), &entry(), "x").unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        let ours = serde_json::json!({ "command": "/opt/lm cp/lmcp", "args": ["proxy"] });
        assert_eq!(
            read,
            serde_json::json!({ "theme": "dark", "mcpServers": { "a": { "command": "a" }, "lmcp": ours } })
        );
    }

    #[test]
    fn in_toml_too() {
        let own = "# mine\nmodel = 'o3'\nsince = 2026-01-01\n[mcp_servers.a]\ncommand = 'a'\n[mcp_servers.lmcp]\nurl = 'x'\n";
        let text = into(
            Some(own),
            &shape(Format::Toml, "mcp_servers"),
            &entry(),
            "x",
        )
        .unwrap();
        let expected = toml::toml! {
            model = "o3"
            since = 2026-01-01
            [mcp_servers]
            a = { command = "a" }
            lmcp = { command = "/opt/lm cp/lmcp", args = ["proxy"] }
        };
        assert_eq!(text.parse::<toml::Table>().unwrap(), expected);
    }

    #[test]
    fn a_deeper_place_is_made() {
        let text = into(None, &shape(Format::Json, "tools.mcp"), &entry(), "x").unwrap();
        assert!(text.starts_with(r#"{"tools":{"mcp":{"lmcp":{"#), "{text}");
    }

    #[test]
    fn what_cannot_be_added_to_is_named() {
        for (format, own, words) in [
            (Format::Json, "[]", "invalid type"),
            (Format::Json, r#"{"a": 1}"#, "`a` is no object"),
            (Format::Json, r#"{"a": "#, "EOF"),
            (Format::Toml, "a = 1", "`a` is no table"),
            (Format::Toml, "a = ", ""),
        ] {
            let said = into(Some(own), &shape(format, "a"), &entry(), "/x/y").unwrap_err();
            let said = said.to_string();
            assert!(
                said.starts_with("`/x/y` cannot be added to: ") && said.contains(words),
                "{said}"
            );
        }
    }

    #[test]
    fn a_name_that_is_taken_is_seen() {
        let keys = ["m".to_owned()];
        assert!(has("[m.lmcp]\nurl = 'x'", Format::Toml, &keys, "lmcp"));
        assert!(has(
            r#"{"m": {"lmcp": {}}} // x"#,
            Format::Json,
            &keys,
            "lmcp"
        ));
        for text in ["[m.other]", "m = 1", "", "not toml"] {
            assert!(!has(text, Format::Toml, &keys, "lmcp"), "{text}");
        }
    }
}
