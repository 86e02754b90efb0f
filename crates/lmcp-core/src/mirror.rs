//! Header fields that repeat parts of the body, so that proxies between client and server need not read the body.

use lmcp_schema::HeaderParam;
use lmcp_wire::{RpcError, header, name::Beginning};
use serde_json::Value;

use crate::headers::{HeaderValue, Headers};

/// Checks that `Mcp-Name` repeats the tool, prompt, resource or task of the body.
pub(crate) fn check_name(headers: &dyn Headers, name: &str) -> Result<(), RpcError> {
    let mirrored = expect_header(headers, header::NAME)?;
    let Some(decoded) = header::decode(mirrored) else {
        return Err(undecodable(header::NAME, mirrored));
    };
    if decoded == name {
        Ok(())
    } else {
        Err(differs(header::NAME, &decoded, "the body", name))
    }
}

/// Checks that `Mcp-Param-*` repeats the arguments whose schema asks for it.
pub(crate) fn check_params(
    headers: &dyn Headers,
    mirrored: &[HeaderParam],
    arguments: &Value,
) -> Result<(), RpcError> {
    for param in mirrored {
        let name = header::param(&param.name);
        let value = param.value_in(arguments);
        // Lists and structures cannot be mirrored. The schema refuses them later, in words that a model can act on.
        if value.is_some_and(|value| value.is_array() || value.is_object()) {
            continue;
        }
        match (headers.get(&name), value) {
            (HeaderValue::Absent, None) => {}
            (HeaderValue::Absent, Some(_)) => return Err(absent(&name)),
            (HeaderValue::Malformed, _) => return Err(malformed(&name)),
            (HeaderValue::Text(text), value) => {
                let Some(decoded) = header::decode(text) else {
                    return Err(undecodable(&name, text));
                };
                if !value.is_some_and(|value| mirrors(&decoded, value)) {
                    let value = value.map_or_else(|| "nothing".into(), Value::to_string);
                    return Err(differs(&name, &decoded, "the body", &value));
                }
            }
        }
    }
    Ok(())
}

/// Whether a header repeats a value: integers are compared as numbers, everything else as text.
fn mirrors(text: &str, value: &Value) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Bool(flag) => text == if *flag { "true" } else { "false" },
        // Only integers that a double holds exactly may be mirrored, so that all programs compare alike.
        Value::Number(number) => {
            let number = number
                .as_f64()
                .filter(|number| number.abs() < 9_007_199_254_740_992.0);
            number.is_some() && text.parse().ok() == number
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

pub(crate) fn expect_header<'a>(headers: &'a dyn Headers, name: &str) -> Result<&'a str, RpcError> {
    match headers.get(name) {
        HeaderValue::Text(text) => Ok(text.trim_matches([' ', '\t'])),
        HeaderValue::Absent => Err(absent(name)),
        HeaderValue::Malformed => Err(malformed(name)),
    }
}

fn absent(name: &str) -> RpcError {
    RpcError::header_mismatch(format!("header `{name}` is missing"))
}

fn malformed(name: &str) -> RpcError {
    RpcError::header_mismatch(format!(
        "header `{name}` must be sent once, as visible ASCII"
    ))
}

fn undecodable(name: &str, value: &str) -> RpcError {
    let value = Beginning(value);
    RpcError::header_mismatch(format!("header `{name}` is not a valid value: `{value}`"))
}

pub(crate) fn differs(name: &str, mirrored: &str, place: &str, value: &str) -> RpcError {
    let (mirrored, value) = (Beginning(mirrored), Beginning(value));
    RpcError::header_mismatch(format!(
        "header `{name}` says `{mirrored}` where {place} has `{value}`"
    ))
}
