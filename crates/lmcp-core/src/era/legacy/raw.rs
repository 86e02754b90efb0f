//! Results that are passed on, in the form that each revision knows. The rules are those of `downgrade`, but they work on JSON
//! as it came: everything that no rule changes stays as it is, in its order.

use std::{borrow::Cow, fmt};

use lmcp_wire::{
    Content, Meta, ProtocolVersion, RpcError, jsonrpc, members::Members, meta, method::request,
    scan,
};
use serde::{
    Deserializer as _,
    de::{SeqAccess, Visitor},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::downgrade::{HEADER_ANNOTATION, is_first, lacks_icons, lacks_titles};
use crate::{
    era::members::{CACHED, read, read_meta},
    request::string,
};

/// Writes the result of a tool as it came, if no rule changes it, and leaves out the members that later revisions add to every
/// result. Returns `false` and writes nothing if a rule does change it.
pub(super) fn write_plain(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    method: &str,
    result: &RawValue,
) -> bool {
    let text = result.get();
    if method != request::TOOLS_CALL || lacks_icons(version) || !text.starts_with('{') {
        return false;
    }
    let start = out.len();
    let mut told = None;
    for member in scan::members(text) {
        match (&*member.name(), member.value) {
            ("resultType", "\"complete\"") => {}
            ("_meta", value) if told.is_none() => told = Some(value),
            ("structuredContent", value) if value.starts_with('{') => member.write(out),
            ("resultType" | "_meta" | "structuredContent", _) => {
                out.truncate(start);
                return false;
            }
            _ => member.write(out),
        }
    }
    let before = out.len();
    out.extend_from_slice(b",\"_meta\":");
    let inside = out.len();
    let told = scan::members(told.unwrap_or_default());
    let told = told.filter(|member| member.name() != meta::SERVER_INFO);
    told.for_each(|member| member.write(out));
    match out.get_mut(inside) {
        Some(first) => {
            *first = b'{';
            out.push(b'}');
        }
        None => out.truncate(before),
    }
    true
}

/// Returns the members of a result, shaped for the revision.
///
/// # Errors
/// The text is no result, has too many members, or the revision cannot express it.
pub(super) fn shaped<'a>(
    version: ProtocolVersion,
    method: &str,
    text: &'a str,
    info: Option<&str>,
    more: Option<Meta>,
) -> Result<Members<'a>, RpcError> {
    let mut result = read(text)?;
    if let Some(kind) = result.take("resultType")
        && kind.get() != "\"complete\""
    {
        return Err(cannot_be_said());
    }
    if CACHED.contains(&method) {
        result.take("ttlMs");
        result.take("cacheScope");
    }
    let told = result.take("_meta");
    let mut told = read_meta(told.as_deref())?;
    let server = told.take(meta::SERVER_INFO);
    match method {
        request::TOOLS_CALL => tool_result(version, &mut result),
        request::PROMPTS_GET if lacks_icons(version) => each(&mut result, "messages", |message| {
            within(message, "content", |block| content(version, block));
        }),
        request::RESOURCES_READ if lacks_titles(version) => {
            each(&mut result, "contents", |contents| {
                contents.take("_meta");
            });
        }
        request::TOOLS_LIST => each(&mut result, "tools", |one| tool(version, one)),
        request::PROMPTS_LIST => each(&mut result, "prompts", |one| prompt(version, one)),
        request::RESOURCES_LIST => each(&mut result, "resources", |one| resource(version, one)),
        request::RESOURCE_TEMPLATES_LIST => {
            each(&mut result, "resourceTemplates", |one| {
                resource(version, one)
            });
        }
        request::INITIALIZE => initialized(version, &mut result, server.as_deref(), info),
        _ => {}
    }
    for (name, value) in more.into_iter().flatten() {
        told.set(name, &value);
    }
    if !told.is_empty() {
        result.set("_meta", &told);
    }
    Ok(result)
}

/// The error for questions and tasks as answers: these revisions ask in another way, and have no tasks.
pub(super) fn cannot_be_said() -> RpcError {
    RpcError::internal("the server answered in a way that this revision does not have")
}

/// Makes the answer to a handshake from the result of `server/discover`.
fn initialized(
    version: ProtocolVersion,
    result: &mut Members<'_>,
    server: Option<&RawValue>,
    info: Option<&str>,
) {
    result.take("supportedVersions");
    result.set("protocolVersion", version.as_str());
    within(result, "capabilities", |offered| {
        offered.take("extensions");
        if is_first(version) {
            offered.take("completions");
        }
    });
    if result.get("serverInfo").is_none() {
        let info = info.and_then(|info| serde_json::from_str::<&RawValue>(info).ok());
        result.set("serverInfo", &server.or(info));
    }
    within(result, "serverInfo", |named| {
        if lacks_titles(version) {
            named.take("title");
        }
        if lacks_icons(version) {
            for later in ["icons", "description", "websiteUrl"] {
                named.take(later);
            }
        }
    });
}

fn tool_result(version: ProtocolVersion, result: &mut Members<'_>) {
    let structured = result.get("structuredContent");
    let known = |value: &RawValue| !lacks_titles(version) && value.get().starts_with('{');
    let unknown = structured.is_some_and(|value| !known(value));
    // Newer revisions know nothing of a block that this one does not know.
    if lacks_icons(version) {
        each(result, "content", |block| content(version, block));
    }
    if !unknown {
        return;
    }
    // The value is kept as text, so that it is not lost.
    let Some(value) = result.take("structuredContent") else {
        return;
    };
    // The value is kept as the text that came. Parsed values would take a hundred times its length.
    let blocks = result.get("content").map_or("[]", RawValue::get);
    if let Some(blocks) = with_words(blocks, value.get()) {
        result.put("content", blocks);
    }
}

/// Adds a block with these words to a list of blocks. `None`: one of the blocks has these words already.
fn with_words(blocks: &str, words: &str) -> Option<Box<RawValue>> {
    let mut is_said = false;
    let read = each_item(blocks, |block| {
        let block = Members::read(block).ok();
        let text = block.as_ref().and_then(|block| block.get("text"));
        is_said |= text.and_then(|text| string(text.get().as_bytes())) == Some(words.into());
    });
    if is_said {
        return None;
    }
    let before = blocks.strip_suffix(']').filter(|_| read.is_ok());
    let before = before.unwrap_or("[");
    let mut out = Vec::with_capacity(blocks.len() + words.len() + words.len() / 2);
    out.extend_from_slice(before.as_bytes());
    if before.trim_end() != "[" {
        out.push(b',');
    }
    out.extend_from_slice(br#"{"type":"text","text":"#);
    jsonrpc::append(&mut out, words);
    out.extend_from_slice(b"}]");
    raw_value(out)
}

pub(super) fn content(version: ProtocolVersion, block: &mut Members<'_>) {
    let kind = text(block, "type").unwrap_or_default();
    match &*kind {
        "audio" if is_first(version) => {
            let kind = text(block, "mimeType").unwrap_or_default();
            say(
                block,
                format!("(a sound of type {kind}, which this client cannot take)"),
            );
        }
        "resource_link" if lacks_titles(version) => {
            let words = ["description", "title", "name"];
            let words = words.iter().find_map(|name| text(block, name));
            let uri = text(block, "uri").unwrap_or_default();
            say(block, format!("{}: {uri}", words.unwrap_or_default()));
        }
        "resource_link" => resource(version, block),
        "text" | "image" | "audio" if lacks_titles(version) => {
            block.take("_meta");
            annotations(block);
        }
        "resource" if lacks_titles(version) => {
            block.take("_meta");
            within(block, "resource", |resource| {
                resource.take("_meta");
            });
            annotations(block);
        }
        _ => {}
    }
}

/// Replaces a block of a later type by words.
fn say(block: &mut Members<'_>, words: String) {
    *block = Members::default();
    let said = Content::text(words);
    if let Ok(Value::Object(said)) = serde_json::to_value(&said) {
        said.iter()
            .for_each(|(name, value)| block.set(name.clone(), value));
    }
}

fn annotations(block: &mut Members<'_>) {
    within(block, "annotations", |annotations| {
        annotations.take("lastModified");
    });
}

fn tool(version: ProtocolVersion, tool: &mut Members<'_>) {
    if is_first(version) {
        tool.take("annotations");
    }
    if lacks_titles(version) {
        let title = tool.take("title");
        within(tool, "annotations", |annotations| {
            if let (None, Some(title)) = (annotations.get("title"), &title) {
                annotations.set("title", &**title);
            }
        });
        tool.take("outputSchema");
        tool.take("_meta");
    }
    if lacks_icons(version) {
        tool.take("icons");
    }
    let output = tool.get("outputSchema").map(RawValue::get);
    let output = output.and_then(|schema| Members::read(schema).ok());
    let output = output.and_then(|schema| text(&schema, "type"));
    if output.as_deref() != Some("object") {
        tool.take("outputSchema");
    }
    for schema in ["inputSchema", "outputSchema"] {
        within(tool, schema, |schema| {
            within(schema, "properties", |properties| {
                properties.change(|property| match property.get() {
                    "true" => to_raw_value(&json!({})).ok(),
                    "false" => to_raw_value(&json!({ "not": {} })).ok(),
                    _ => None,
                });
            });
        });
    }
    let schema = tool.get("inputSchema").and_then(without_headers);
    if let Some(schema) = schema {
        tool.set("inputSchema", &schema);
    }
}

/// Returns the schema without `x-mcp-header`, which clients of these revisions do not send. `None`: the schema has none.
fn without_headers(schema: &RawValue) -> Option<Box<RawValue>> {
    let text = schema.get();
    if !text.contains(HEADER_ANNOTATION) {
        return None;
    }
    if let Ok(mut members) = Members::read(text) {
        members.take(HEADER_ANNOTATION);
        members.change(without_headers);
        return to_raw_value(&members).ok();
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    let items = items.into_iter().map(|item| match without_headers(item) {
        Some(item) => Cow::Owned(item),
        None => Cow::Borrowed(item),
    });
    to_raw_value(&items.collect::<Vec<_>>()).ok()
}

/// Shapes a resource or a template.
fn resource(version: ProtocolVersion, resource: &mut Members<'_>) {
    if lacks_titles(version) {
        resource.take("title");
        resource.take("_meta");
        annotations(resource);
    }
    if lacks_icons(version) {
        resource.take("icons");
    }
}

fn prompt(version: ProtocolVersion, prompt: &mut Members<'_>) {
    if lacks_titles(version) {
        prompt.take("title");
        prompt.take("_meta");
        each(prompt, "arguments", |argument| {
            argument.take("title");
        });
    }
    if lacks_icons(version) {
        prompt.take("icons");
    }
}

/// Changes every object in the list of this name.
fn each(all: &mut Members<'_>, name: &'static str, change: impl Fn(&mut Members<'_>)) {
    let Some(list) = all.get(name).map(ToOwned::to_owned) else {
        return;
    };
    let mut out = Vec::with_capacity(list.get().len());
    let read = each_item(list.get(), |item| {
        out.push(if out.is_empty() { b'[' } else { b',' });
        match Members::read(item) {
            Ok(mut members) => {
                change(&mut members);
                jsonrpc::append(&mut out, &members);
            }
            Err(_) => out.extend_from_slice(item.as_bytes()),
        }
    });
    if out.is_empty() || read.is_err() {
        return;
    }
    out.push(b']');
    if let Some(changed) = raw_value(out) {
        all.put(name, changed);
    }
}

/// Hands over the text of every item of a list, one after the other. A list of all items could take many times its length.
///
/// # Errors
/// The text is no list.
fn each_item(list: &str, see: impl FnMut(&str)) -> serde_json::Result<()> {
    struct Items<F>(F);
    impl<'de, F: FnMut(&str)> Visitor<'de> for Items<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
            while let Some(item) = items.next_element::<&RawValue>()? {
                (self.0)(item.get());
            }
            Ok(())
        }
    }
    serde_json::Deserializer::from_str(list).deserialize_seq(Items(see))
}

fn raw_value(json: Vec<u8>) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(json).ok()?).ok()
}

/// Changes an object inside another one.
pub(super) fn within(
    outer: &mut Members<'_>,
    name: &'static str,
    change: impl FnOnce(&mut Members<'_>),
) {
    let inner = outer.get(name).map(ToOwned::to_owned);
    let Some(inner) = inner else { return };
    if let Ok(mut members) = Members::read(inner.get()) {
        change(&mut members);
        outer.set(name, &members);
    }
}

fn text(members: &Members<'_>, name: &str) -> Option<String> {
    let text = string(members.get(name)?.get().as_bytes());
    text.map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::versions::LEGACY;

    #[test]
    fn a_result_of_very_many_members_is_refused_where_members_must_be_looked_at() {
        let many = vec![r#""":0"#; 5000].join(",");
        for result in [
            format!(r#"{{"content":[],{many}}}"#),
            format!(r#"{{"content":[],"_meta":{{{many}}}}}"#),
        ] {
            for version in LEGACY.into_iter().filter(|version| lacks_icons(*version)) {
                let refused = shaped(version, request::TOOLS_CALL, &result, None, None);
                let words = refused.unwrap_err().message;
                assert!(words.contains("more than 4096 members"), "{words}");
            }
        }
    }

    #[test]
    fn what_is_copied_as_it_came_is_what_the_rules_make_of_it() {
        for result in [
            r#"{"content":[]}"#,
            r#"{"resultType":"complete","content":[{"type":"text","text":"}\"{"}],"isError":true}"#,
            r#"{ "_meta" : { "io.modelcontextprotocol/serverInfo" : {"name":"x"} , "a" : 1 } , "content" : [ ] }"#,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}},"b":1.10}"#,
            r#"{"content":[],"_meta":null,"structuredContent":{"a":[1]}}"#,
            r#"{"content":[],"structuredContent":[1]}"#,
            r#"{"resultType":"task","taskId":"1"}"#,
        ] {
            let raw = RawValue::from_string(result.to_owned()).unwrap();
            for version in LEGACY {
                let mut copied = b"{".to_vec();
                if !write_plain(&mut copied, version, request::TOOLS_CALL, &raw) {
                    assert_eq!(copied, b"{", "{result}");
                    continue;
                }
                let mut shaped = b"{".to_vec();
                let members = super::shaped(version, request::TOOLS_CALL, result, None, None);
                members.unwrap().write(&mut shaped);
                let read = |mut text: Vec<u8>| -> Value {
                    text.push(b'}');
                    if text.len() > 2 {
                        text.remove(1);
                    }
                    serde_json::from_slice(&text).unwrap()
                };
                assert_eq!(read(copied), read(shaped), "{result} in {version}");
            }
        }
    }
}
