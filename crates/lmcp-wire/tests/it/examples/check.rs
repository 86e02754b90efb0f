//! How an example is held against a type: decoded, encoded again and compared as JSON.
//!
//! 50 and 50.0 are one number, and `isError: false`, which is the default, is the same as none.

use lmcp_wire as wire;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use wire::{
    jsonrpc,
    method::{notification as told, request as asked},
};

/// An error says how the example and we differ.
pub(super) type Outcome = Result<(), String>;

/// A type that holds all there is in the example.
pub(super) fn data<T: Serialize + DeserializeOwned>(text: &str) -> Outcome {
    same(decode(text)?, encode(&decode::<T>(text)?))
}

/// Parameters: `_meta` is read apart from them, before the method is known.
pub(super) fn params<T: Serialize + DeserializeOwned>(text: &str) -> Outcome {
    data::<T>(&without(&["_meta"], text)?.to_string())
}

/// A result: what the engine writes around every result is in none of our result types.
pub(super) fn result<T: Serialize + DeserializeOwned>(text: &str) -> Outcome {
    let mut expected = without(
        &["resultType", "_meta", "ttlMs", "cacheScope", "nextCursor"],
        text,
    )?;
    if expected.get("isError") == Some(&Value::Bool(false)) {
        expected = without(&["isError"], &expected.to_string())?;
    }
    data::<T>(&expected.to_string())?;
    let whole: Value = decode(text)?;
    match (whole.get("ttlMs"), whole.get("cacheScope")) {
        (Some(ttl), Some(scope)) => data::<wire::discover::CacheHint>(
            &json!({ "ttlMs": ttl, "cacheScope": scope }).to_string(),
        ),
        _ => Ok(()),
    }
}

/// A whole response with a result.
pub(super) fn response<T: Serialize + DeserializeOwned>(text: &str) -> Outcome {
    let Ok(wire::Incoming::Response {
        id: Some(id),
        outcome: Ok(raw),
    }) = wire::Incoming::parse(text.as_bytes())
    else {
        return Err("not read as a result response".into());
    };
    result::<T>(raw.get())?;
    same(decode(text)?, message(&jsonrpc::result(&id, &raw)))
}

/// A whole response with an error of one code.
pub(super) fn error_response<const CODE: i64>(text: &str) -> Outcome {
    let Ok(wire::Incoming::Response {
        id,
        outcome: Err(error),
    }) = wire::Incoming::parse(text.as_bytes())
    else {
        return Err("not read as an error response".into());
    };
    same(json!(CODE), json!(error.code))?;
    same(decode(text)?, message(&jsonrpc::error(id.as_ref(), &error)))
}

/// The `error` member alone, of one code.
pub(super) fn bare_error<const CODE: i64>(text: &str) -> Outcome {
    same(json!(CODE), json!(decode::<wire::RpcError>(text)?.code))?;
    data::<wire::RpcError>(text)
}

/// A whole request, and then its parameters by its method.
pub(super) fn request(text: &str) -> Outcome {
    let Ok(wire::Incoming::Request { id, method, .. }) = wire::Incoming::parse(text.as_bytes())
    else {
        return Err("not read as a request".into());
    };
    let raw: &RawValue = jsonrpc::params(text).map_err(|err| err.to_string())?;
    same(decode::<Value>(text)?["id"].clone(), encode(&id))?;
    request_meta(raw.get())?;
    match &*method {
        asked::DISCOVER => params::<Nothing>(raw.get()),
        asked::TOOLS_LIST
        | asked::PROMPTS_LIST
        | asked::RESOURCES_LIST
        | asked::RESOURCE_TEMPLATES_LIST => params::<wire::discover::PaginatedParams>(raw.get()),
        asked::TOOLS_CALL | asked::PROMPTS_GET | asked::RESOURCES_READ => cut_params(raw.get()),
        asked::COMPLETE => complete(raw.get()),
        asked::LISTEN => params::<wire::subscribe::ListenParams>(raw.get()),
        unknown => Err(format!("no parameters are known for `{unknown}`")),
    }
}

/// A whole notification, and then its parameters by its method.
pub(super) fn notification(text: &str) -> Outcome {
    let Ok(wire::Incoming::Notification {
        method,
        params: Some(raw),
    }) = wire::Incoming::parse(text.as_bytes())
    else {
        return Err("not read as a notification with parameters".into());
    };
    match &*method {
        told::CANCELLED => params::<wire::progress::CancelledParams>(raw.get())?,
        told::PROGRESS => params::<wire::progress::ProgressParams>(raw.get())?,
        told::MESSAGE => params::<wire::logging::LoggingMessageParams>(raw.get())?,
        told::RESOURCE_UPDATED => data::<wire::resource::ResourceUpdatedParams>(raw.get())?,
        told::LISTEN_ACKNOWLEDGED => params::<wire::subscribe::ListenParams>(raw.get())?,
        told::TOOLS_CHANGED | told::PROMPTS_CHANGED | told::RESOURCES_CHANGED => {
            params::<Nothing>(raw.get())?;
            subscription_id(raw.get())?;
        }
        unknown => return Err(format!("no parameters are known for `{unknown}`")),
    }
    same(
        decode(text)?,
        message(&jsonrpc::notification(&method, &raw)),
    )
}

/// `params` of the methods that do work, which are borrowed and never written: together, the members that were read are
/// all there are.
pub(super) fn cut_params(text: &str) -> Outcome {
    let params: wire::params::Params<'_> = decode(text)?;
    let members = [
        ("name", params.name),
        ("uri", params.uri),
        ("arguments", params.arguments),
        ("inputResponses", params.input_responses),
        ("requestState", params.request_state),
    ];
    let mut read = json!({});
    for (name, raw) in members {
        if let Some(raw) = raw {
            read[name] = decode(raw.get())?;
        }
    }
    same(without(&["_meta"], text)?, read)
}

/// `params` of `completion/complete`, which are borrowed.
pub(super) fn complete(text: &str) -> Outcome {
    let rest = without(&["_meta"], text)?;
    same(
        rest,
        encode(&decode::<wire::completion::CompleteParams<'_>>(text)?),
    )
}

/// `roots/list` as an input request: the example has a stray `id` and leaves the empty `params` out.
pub(super) fn list_roots(text: &str) -> Outcome {
    let request: wire::input::InputRequest = decode(text)?;
    let mut expected = without(&["id"], text)?;
    expected["params"] = json!({});
    same(expected, encode(&request))
}

/// The schema of a field that the user fills in. Servers write it and clients read it, so that it is plain JSON to
/// this crate, and all there is to promise is that a form carries it as it is.
pub(super) fn field_of_a_form(text: &str) -> Outcome {
    let field: Value = decode(text)?;
    let form = json!({ "type": "object", "properties": { "field": field } });
    let params = wire::elicit::ElicitParams::form("?", form);
    same(
        field,
        encode(&params)["requestedSchema"]["properties"]["field"].clone(),
    )
}

/// A page of `tools/list`. The engine writes pages item by item, so that the crate has no type for them.
#[derive(Serialize, Deserialize)]
pub(super) struct Tools {
    tools: Vec<wire::Tool>,
}

/// A page of `prompts/list`.
#[derive(Serialize, Deserialize)]
pub(super) struct Prompts {
    prompts: Vec<wire::Prompt>,
}

/// A page of `resources/list`.
#[derive(Serialize, Deserialize)]
pub(super) struct Resources {
    resources: Vec<wire::Resource>,
}

/// A page of `resources/templates/list`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceTemplates {
    resource_templates: Vec<wire::ResourceTemplate>,
}

/// Parameters or a result of which nothing is left once the common members are read.
#[derive(Serialize, Deserialize)]
pub(super) struct Nothing {}

/// `_meta` of a request: who asks, with which revision and capabilities.
fn request_meta(params: &str) -> Outcome {
    let params: wire::params::Params<'_> = decode(params)?;
    let meta = params.meta.ok_or("no `_meta`")?;
    let version: String = decode(meta.protocol_version.ok_or("no version")?.get())?;
    same(
        json!(wire::ProtocolVersion::V2026_07_28.as_str()),
        json!(version),
    )?;
    data::<wire::Implementation>(meta.client_info.ok_or("no client info")?.get())?;
    data::<wire::ClientCapabilities>(meta.client_capabilities.ok_or("no capabilities")?.get())
}

/// `_meta` of a notification on a subscription.
fn subscription_id(params: &str) -> Outcome {
    let id = decode::<Value>(params)?["_meta"][wire::meta::SUBSCRIPTION_ID].take();
    data::<wire::RequestId>(&id.to_string())
}

fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|err| format!("cannot decode {}: {err}", std::any::type_name::<T>()))
}

fn encode(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("wire types serialise")
}

fn message(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("what we write is JSON")
}

fn without(members: &[&str], text: &str) -> Result<Value, String> {
    let mut object: wire::Object = decode(text)?;
    object.retain(|name, _| !members.contains(&name.as_str()));
    Ok(object.into())
}

fn same(expected: Value, ours: Value) -> Outcome {
    let (expected, ours) = (plain(expected), plain(ours));
    if expected == ours {
        Ok(())
    } else {
        Err(format!("official: {expected}\n    ours:     {ours}"))
    }
}

/// The same value with whole numbers written as such.
fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => number.into(),
        },
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, plain(member)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}
