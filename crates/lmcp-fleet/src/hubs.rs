//! Hosts that are hubs themselves: a call of `OUTER/INNER` goes on to the hub `OUTER` as a call of its host `INNER`.
//!
//! The other hub reads the part after the `/`: a name, a glob, a group, or again a hub and its host. A call carries the list
//! of hubs that it came through, so that hubs that name each other cannot pass it around for ever.

use std::time::Duration;

use lmcp_core::{Outcome, Payload, Request, Service, own_request};
use lmcp_wire::{RpcError, members::Members, method::request};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{call::own_argument, limits::HUBS, tools::PREFIX};

/// The member of `_meta` with the hubs that a call came through.
const CHAIN: &str = "lmcp/hubs";

/// Refuses a call that came through this hub before, or through too many.
pub(crate) fn expect_new(params: &str, own: &str) -> Result<(), String> {
    let params = Members::read(params).unwrap_or_default();
    let told = params.get("_meta").map(|told| Members::read(told.get()));
    let Some(Ok(told)) = told else {
        return Ok(());
    };
    let Value::Array(chain) = own_argument(CHAIN, told.get(CHAIN))? else {
        return Ok(());
    };
    if chain.iter().any(|hub| hub == own) {
        return Err(
            "this call came through this hub before: a hub among its hosts leads back to it"
                .to_owned(),
        );
    }
    match chain.len() >= HUBS {
        true => Err(format!(
            "this call came through {HUBS} hubs, and goes no further"
        )),
        false => Ok(()),
    }
}

/// Turns a call of a local tool into a call for another hub and its hosts.
pub(crate) fn onward(
    request: &Request,
    inner: &str,
    wait: Duration,
    own: &str,
) -> Result<Request, RpcError> {
    let no_object = |_| RpcError::invalid_params("`params` must be an object");
    let whole: &RawValue = request.params()?;
    let mut params = Members::read(whole.get()).map_err(no_object)?;
    let name = format!("{PREFIX}{}", request.target()?);
    params.set("name", &name);
    let arguments = params.take("arguments");
    let arguments = arguments.as_ref().map_or("{}", |arguments| arguments.get());
    let mut arguments = Members::read(arguments).map_err(no_object)?;
    arguments.set("host", inner);
    if !wait.is_zero() {
        arguments.set("host_wait", &wait.as_secs_f64());
    }
    params.set("arguments", &arguments);
    let told = params.take("_meta");
    let told = told.as_ref().map_or("{}", |told| told.get());
    let mut told = Members::read(told).unwrap_or_default();
    let chain = own_argument(CHAIN, told.take(CHAIN).as_deref());
    let mut chain = match chain.map_err(RpcError::invalid_params)? {
        Value::Array(chain) => chain,
        _ => Vec::new(),
    };
    chain.push(own.into());
    told.set(CHAIN, &chain);
    params.set("_meta", &told);
    request.clone().with_params(&params)
}

/// Refuses a server that is not a hub with hosts. The server is asked for its tools, because the tools say which headers a
/// call needs.
pub(crate) async fn expect_hub(service: &dyn Service) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Tools {
        tools: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let tools: Option<Tools> = asked(service, request::TOOLS_LIST).await?;
    let has_hosts = |tool: &Named| tool.name.starts_with(PREFIX);
    match tools.is_some_and(|listed| listed.tools.iter().any(has_hosts)) {
        true => Ok(()),
        false => Err(RpcError::internal("it is no hub, or a hub without hosts")),
    }
}

/// A request of the fleet's own, without arguments.
pub(crate) fn own(method: &str) -> Result<Request, RpcError> {
    own_request("lmcp-hub", env!("CARGO_PKG_VERSION"), method, json!({}))
}

/// Asks a service something of our own. `None`: the answer cannot be read.
pub(crate) async fn asked<T: for<'a> Deserialize<'a>>(
    service: &dyn Service,
    method: &str,
) -> Result<Option<T>, RpcError> {
    let answer = service.call(own(method)?).response().await;
    let outcome = answer.unwrap_or_else(|| Err(RpcError::internal("it gave no answer")))?;
    Ok(match outcome {
        Outcome {
            payload: Payload::Raw(text),
            ..
        } => serde_json::from_str(text.get()).ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_on_to_the_next_hub_and_never_twice_through_one() {
        let mut request = own("tools/call").unwrap();
        for hub in ["a", "b"] {
            let params = json!({ "name": "shell", "arguments": { "command": "true" }, "_meta": meta_of(&request) });
            request = request.with_params(&params).unwrap();
            request = onward(&request, "far", Duration::from_secs(2), hub).unwrap();
        }
        let params: &RawValue = request.params().unwrap();
        let sent: Value = serde_json::from_str(params.get()).unwrap();
        assert_eq!(sent["name"], "remote_shell");
        let arguments = json!({ "command": "true", "host": "far", "host_wait": 2.0 });
        assert_eq!(sent["arguments"], arguments);
        assert_eq!(sent["_meta"][CHAIN], json!(["a", "b"]));
        assert!(expect_new(params.get(), "c").is_ok());
        for own in ["a", "b"] {
            let words = expect_new(params.get(), own).unwrap_err();
            assert!(words.contains("leads back"), "{words}");
        }
        let long = json!({ "_meta": { CHAIN: vec!["x"; HUBS] } }).to_string();
        assert!(expect_new(&long, "c").is_err());
        assert!(expect_new("{}", "c").is_ok());
    }

    fn meta_of(request: &Request) -> Value {
        let params: &RawValue = request.params().unwrap();
        let params: Value = serde_json::from_str(params.get()).unwrap();
        params["_meta"].clone()
    }
}
