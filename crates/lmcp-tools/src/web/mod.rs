//! Tools on the web: only `http` and `https`, only the public internet unless the operator says otherwise.

mod address;
pub(crate) mod allow;
pub(crate) mod fetch;
pub(crate) mod html;
mod http;
pub(crate) mod search;
pub(crate) mod settings;

use lmcp_core::ToolError;
use lmcp_outbound::{Flaw, Outbound};

use fetch::Cache;

/// The state that these tools keep between calls.
#[derive(Debug)]
pub(crate) struct State {
    outbound: Outbound,
    cache: Cache,
}

impl State {
    pub(crate) fn new(settings: &settings::Web) -> Self {
        Self {
            outbound: Outbound::new(settings.outbound.clone()),
            cache: Cache::new(settings.cache_bytes, settings.cache_time),
        }
    }
}

/// Returns the error about a wrong address, for the model, with the text that it wrote.
fn no_url(flaw: &Flaw, text: &str) -> ToolError {
    let what = match flaw {
        // The text holds a secret.
        Flaw::Userinfo => "the address".to_owned(),
        _ => format!("`{}`", text.chars().take(200).collect::<String>()),
    };
    ToolError::new(format!("{what} {flaw}")).hint(flaw.hint())
}
