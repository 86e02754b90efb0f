//! Tools on the web: only `http` and `https`, only the public internet unless the operator says otherwise.

mod address;
pub(crate) mod allow;
pub(crate) mod fetch;
mod html;
mod http;
pub(crate) mod search;
pub(crate) mod settings;
mod url;

use fetch::Cache;
use http::Tls;

/// What these tools keep between calls.
#[derive(Debug)]
pub(crate) struct State {
    tls: Tls,
    cache: Cache,
}

impl State {
    pub(crate) fn new(settings: &settings::Web) -> Self {
        Self {
            tls: Tls::new(settings.ca_file.clone()),
            cache: Cache::new(settings.cache_bytes, settings.cache_time),
        }
    }
}
