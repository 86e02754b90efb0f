//! Requests that the hub sends to servers for itself: a server says what it is, lists its items, and is told to report
//! changes.

use lmcp_core::{Endpoint, Request, own_request};
use lmcp_wire::{RpcError, method::request};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};
use tokio::task::spawn_blocking;

use crate::{
    items::{Taking, text},
    limits::{ITEM_BYTES, LIST_PAGES, LONG_ANSWER},
    listing::Listing,
};

/// Makes a request that comes from the hub itself.
pub(crate) fn request(method: &str, params: Value) -> Result<Request, RpcError> {
    own_request("lmcp-hub", env!("CARGO_PKG_VERSION"), method, params)
}

/// Asks, waits for the result, and reads the result in place: the result may be long, and the hub may need little of it.
pub(crate) async fn ask<T: Send + 'static>(
    server: &Endpoint,
    method: &'static str,
    params: Value,
    read: impl FnOnce(&RawValue) -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let message = server.start(request(method, params)?).response().await;
    let message = message.ok_or_else(|| unanswered(method))?;
    let is_long = message.json().len() > LONG_ANSWER;
    let read = move || read_answer(method, message.json(), read);
    // A long result is read beside the thread that all callers share.
    match is_long {
        true => spawn_blocking(read).await.map_err(|_| unanswered(method))?,
        false => read(),
    }
}

fn read_answer<T>(
    method: &str,
    message: &[u8],
    read: impl FnOnce(&RawValue) -> Result<T, RpcError>,
) -> Result<T, RpcError> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        error: Option<RpcError>,
    }
    let text = std::str::from_utf8(message).unwrap_or_default();
    let answer: Answer<'_> = serde_json::from_str(text)
        .map_err(|err| RpcError::internal(format!("the answer cannot be read: {err}")))?;
    match (answer.result, answer.error) {
        (Some(result), _) => read(result),
        (None, error) => Err(error.unwrap_or_else(|| unanswered(method))),
    }
}

fn unanswered(method: &str) -> RpcError {
    RpcError::internal(format!("no answer to `{method}`"))
}

/// The answer of a server to `server/discover`: which lists it has, and its instructions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) instructions: Option<String>,
}

pub(crate) async fn discover(server: &Endpoint) -> Result<Offer, RpcError> {
    #[derive(Deserialize)]
    struct Said<'a> {
        #[serde(default)]
        capabilities: Capabilities,
        #[serde(borrow)]
        instructions: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Capabilities {
        tools: Option<IgnoredAny>,
        prompts: Option<IgnoredAny>,
        resources: Option<IgnoredAny>,
    }
    let unfit = |_| RpcError::internal("what the server says of itself cannot be read");
    ask(server, request::DISCOVER, json!({}), move |result| {
        let said: Said<'_> = serde_json::from_str(result.get()).map_err(unfit)?;
        let offered = said.capabilities;
        let cut = |text: String| text.chars().take(ITEM_BYTES).collect();
        Ok(Offer {
            tools: offered.tools.is_some(),
            prompts: offered.prompts.is_some(),
            resources: offered.resources.is_some(),
            instructions: text(said.instructions).map(cut),
        })
    })
    .await
}

/// Asks for all items that a server offers.
pub(crate) async fn lists(server: &Endpoint, offer: &Offer) -> Result<Listing, RpcError> {
    let mut listing = Listing {
        instructions: offer.instructions.clone(),
        ..Listing::default()
    };
    let mut taking = Taking::default();
    if offer.tools {
        (listing.tools, taking) = list(server, request::TOOLS_LIST, "tools", taking).await?;
    }
    if offer.prompts {
        (listing.prompts, taking) = list(server, request::PROMPTS_LIST, "prompts", taking).await?;
    }
    if offer.resources {
        let method = request::RESOURCES_LIST;
        (listing.resources, taking) = list(server, method, "resources", taking).await?;
        let method = request::RESOURCE_TEMPLATES_LIST;
        let templates = list(server, method, "resourceTemplates", taking.clone());
        // Some servers have resources and do not know templates.
        match templates.await {
            Err(error) if error.code == lmcp_wire::error::METHOD_NOT_FOUND => {}
            templates => (listing.templates, taking) = templates?,
        }
    }
    listing.left_out = taking.left_out;
    Ok(listing)
}

/// One page of any list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_templates: Option<&'a RawValue>,
    #[serde(borrow)]
    next_cursor: Option<&'a RawValue>,
}

impl Page<'_> {
    fn items(&self, member: &str) -> &str {
        let items = match member {
            "tools" => self.tools,
            "prompts" => self.prompts,
            "resources" => self.resources,
            _ => self.resource_templates,
        };
        items.map_or("[]", RawValue::get)
    }
}

async fn list(
    server: &Endpoint,
    method: &'static str,
    member: &'static str,
    mut taking: Taking,
) -> Result<(Vec<Box<RawValue>>, Taking), RpcError> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    taking.begin(member);
    for _ in 0..LIST_PAGES {
        let unfit = move |_| RpcError::internal(format!("the answer to `{method}` is no list"));
        let next;
        (all, taking, next) = ask(server, method, params, move |result| {
            let page: Page<'_> = serde_json::from_str(result.get()).map_err(unfit)?;
            taking.page(page.items(member), &mut all).map_err(unfit)?;
            Ok((all, taking, text(page.next_cursor)))
        })
        .await?;
        let Some(cursor) = next.filter(|_| !taking.is_full()) else {
            break;
        };
        params = json!({ "cursor": cursor });
    }
    Ok((all, taking))
}
