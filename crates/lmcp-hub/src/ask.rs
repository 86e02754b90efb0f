//! What the hub asks servers for itself: what they are, what they offer, and to tell of changes.

use bytes::Bytes;
use lmcp_core::{Caller, CallerTransport, Endpoint, Request, admit};
use lmcp_wire::{Incoming, ProtocolVersion, RpcError, members::Members, meta, method::request};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    catalog::{Listing, text},
    items::sifted,
    limits::{LIST_BYTES, LIST_ITEMS, LIST_PAGES},
};

/// A request of the hub's own.
pub(crate) fn request(method: &str, mut params: Value) -> Result<Request, RpcError> {
    params["_meta"] = json!({
        meta::PROTOCOL_VERSION: ProtocolVersion::NEWEST.as_str(),
        meta::CLIENT_INFO: { "name": "lmcp-hub", "version": env!("CARGO_PKG_VERSION") },
        meta::CLIENT_CAPABILITIES: {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params });
    let message = Bytes::from(message.to_string());
    match Incoming::parse(&message) {
        Ok(Incoming::Request { id, method, params }) => {
            let caller = Caller::new(CallerTransport::Memory);
            admit(&message, id, &method, params, caller, None)
        }
        Ok(_) => Err(RpcError::internal("a request of the hub is none")),
        Err(rejected) => Err(rejected.error),
    }
}

/// Asks, and waits for the result.
pub(crate) async fn ask(
    server: &Endpoint,
    method: &str,
    params: Value,
) -> Result<Box<RawValue>, RpcError> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Box<RawValue>>,
        error: Option<RpcError>,
    }
    let none = || RpcError::internal(format!("no answer to `{method}`"));
    let message = server.start(request(method, params)?).response().await;
    let message = message.ok_or_else(none)?;
    let text = std::str::from_utf8(message.json()).unwrap_or_default();
    let answer: Answer = serde_json::from_str(text)
        .map_err(|err| RpcError::internal(format!("the answer cannot be read: {err}")))?;
    match (answer.result, answer.error) {
        (Some(result), _) => Ok(result),
        (None, error) => Err(error.unwrap_or_else(none)),
    }
}

/// What a server is: what it offers at all, and how it is to be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) instructions: Option<String>,
}

pub(crate) async fn discover(server: &Endpoint) -> Result<Offer, RpcError> {
    let result = ask(server, request::DISCOVER, json!({})).await?;
    let unfit = |_| RpcError::internal("what the server says of itself cannot be read");
    let members = Members::read(result.get()).map_err(unfit)?;
    let offered = members.get("capabilities").map_or("{}", RawValue::get);
    let offered = Members::read(offered).map_err(unfit)?;
    let has = |name| offered.get(name).is_some_and(|list| list.get() != "null");
    Ok(Offer {
        tools: has("tools"),
        prompts: has("prompts"),
        resources: has("resources"),
        instructions: text(members.get("instructions")),
    })
}

/// All that a server offers.
pub(crate) async fn lists(server: &Endpoint, offer: &Offer) -> Result<Listing, RpcError> {
    let mut listing = Listing {
        instructions: offer.instructions.clone(),
        ..Listing::default()
    };
    if offer.tools {
        let said = list(server, request::TOOLS_LIST, "tools").await?;
        listing.tools = sifted(said, &mut listing.left_out);
    }
    if offer.prompts {
        let said = list(server, request::PROMPTS_LIST, "prompts").await?;
        listing.prompts = sifted(said, &mut listing.left_out);
    }
    if offer.resources {
        let said = list(server, request::RESOURCES_LIST, "resources").await?;
        listing.resources = sifted(said, &mut listing.left_out);
        let templates = list(
            server,
            request::RESOURCE_TEMPLATES_LIST,
            "resourceTemplates",
        );
        // Some have resources and know nothing of templates.
        let said = match templates.await {
            Err(error) if error.code == lmcp_wire::error::METHOD_NOT_FOUND => Vec::new(),
            templates => templates?,
        };
        listing.templates = sifted(said, &mut listing.left_out);
    }
    Ok(listing)
}

async fn list(
    server: &Endpoint,
    method: &str,
    member: &str,
) -> Result<Vec<Box<RawValue>>, RpcError> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    let mut room = LIST_BYTES;
    for _ in 0..LIST_PAGES {
        let page = ask(server, method, params).await?;
        let unfit = |_| RpcError::internal(format!("the answer to `{method}` is no list"));
        let members = Members::read(page.get()).map_err(unfit)?;
        let items = members.get(member).map_or("[]", RawValue::get);
        let items: Vec<Box<RawValue>> = serde_json::from_str(items).map_err(unfit)?;
        for item in items {
            let Some(less) = room.checked_sub(item.get().len()) else {
                return Ok(all);
            };
            room = less;
            all.push(item);
            if all.len() == LIST_ITEMS {
                return Ok(all);
            }
        }
        let next = text(members.get("nextCursor"));
        let Some(cursor) = next else {
            break;
        };
        params = json!({ "cursor": cursor });
    }
    Ok(all)
}
