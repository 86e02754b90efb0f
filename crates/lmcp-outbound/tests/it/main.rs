//! What a user of `lmcp-outbound` can rely on: proxies, certificates and the guard, against servers on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod certificates;
mod guard;
mod proxy;
mod proxy_server;
mod server;

use std::time::Duration;

use bytes::Bytes;
use lmcp_outbound::{Anywhere, Guard, Outbound, Proxies, Settings, Url, http, whole};
use tokio::time::Instant;

/// What comes back for a URL, or why nothing does.
async fn get(settings: Settings, url: &str) -> Result<String, String> {
    get_guarded(settings, url, &Anywhere).await
}

async fn get_guarded(settings: Settings, url: &str, guard: &dyn Guard) -> Result<String, String> {
    let outbound = Outbound::new(settings);
    let url = Url::parse(url).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let connected = outbound.connect(&url, guard, until).await;
    let mut connection = connected.map_err(|err| format!("{err:?}"))?;
    let request = http::Request::get(&*url.target()).header("host", url.authority());
    let request = request.body(Bytes::new()).unwrap();
    let sent = connection.send(request, std::future::pending()).await;
    let answer = sent.map_err(|err| format!("{err:?}"))?;
    let body = whole(answer.into_body(), 1 << 16).await.unwrap();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

/// Settings with one proxy for everything.
fn through(proxy: impl std::fmt::Display) -> Settings {
    let mut settings = Settings::default();
    let proxy = proxy.to_string();
    settings.proxies = Proxies::from_env(|name| (name == "ALL_PROXY").then(|| proxy.clone()));
    settings
}
