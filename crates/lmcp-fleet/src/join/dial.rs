//! The host's side: connects to the hub, serves the hub on that connection, and connects again when the connection is lost.

use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    pin::{Pin, pin},
    time::Duration,
};

use lmcp_client::{
    Endpoint as Hub, Error, Settings,
    outbound::{Stream, Url},
};
use lmcp_core::{Caller, CallerTransport, Endpoint, streams};
use lmcp_upstream::Route;
use tokio::time::{Instant, sleep};

use super::{NAME, PATH, PROTOCOL, pulse::Pulse};
use crate::limits::{JOIN_LASTING, JOIN_PAUSE, JOIN_WAIT, LONGEST_JOIN_PAUSE};

/// The hub that a server joins, and a function that reports how that goes.
pub struct Joining {
    settings: MakeSettings,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

type MakeSettings = Box<dyn Fn() -> Result<Settings, String> + Send + Sync>;

impl Joining {
    /// The settings are read again at every try, because the token may have changed. A URL without a path gets [`PATH`].
    ///
    /// # Errors
    /// The settings cannot be used: the URL is not valid, or the token would be sent without protection.
    pub fn new(
        settings: impl Fn() -> Result<Settings, String> + Send + Sync + 'static,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let joining = Self {
            settings: Box::new(settings),
            tell: Box::new(tell),
        };
        joining.hub()?;
        Ok(joining)
    }

    fn hub(&self) -> Result<Hub, String> {
        let mut settings = (self.settings)()?;
        settings.connect_wait = JOIN_WAIT;
        let whole = Url::parse(&settings.url).ok();
        if whole.as_ref().is_some_and(|url| &*url.target() == "/") {
            settings.url = format!("{}{PATH}", settings.url.trim_end_matches('/'));
        }
        Hub::new(settings).map_err(|err| err.to_string())
    }
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").finish_non_exhaustive()
    }
}

/// Keeps one connection to the hub open, over which the hub calls this server. If the hub is away, tries again. Ends when
/// `stop` ends.
pub async fn join(joining: &Joining, server: &Endpoint, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let (mut failures, mut said) = (0, String::new());
    loop {
        let tried = tokio::select! {
            biased;
            () = stop.as_mut() => return,
            tried = connect(joining) => tried,
        };
        match tried {
            Ok((hub, stream)) => {
                (joining.tell)(&format!("joined {hub}"));
                said.clear();
                let began = Instant::now();
                if serve(server, stream, stop.as_mut()).await == Ended::Stopped {
                    return;
                }
                (joining.tell)(&format!("the connection to {hub} is lost; joining again"));
                if began.elapsed() >= JOIN_LASTING {
                    failures = 0;
                }
            }
            // The same message is written only once.
            Err(why) if why == said => {}
            Err(why) => {
                (joining.tell)(&format!("cannot join: {why}; trying again"));
                said = why;
            }
        }
        tokio::select! {
            biased;
            () = stop.as_mut() => return,
            () = sleep(pause(failures)) => failures += 1,
        }
    }
}

/// The reason why a connection ended.
#[derive(PartialEq)]
enum Ended {
    Lost,
    Stopped,
}

/// Connects. Returns the stream, and a text with the hub and the name that the hub has for this host.
async fn connect(joining: &Joining) -> Result<(String, Stream), String> {
    let hub = joining.hub()?;
    let agreed = hub.upgrade(PROTOCOL).await;
    let (headers, stream) = agreed.map_err(|err| match err {
        Error::Unreachable(words) | Error::Refused(words) => words,
        err => err.to_string(),
    })?;
    let name = headers.get(NAME).and_then(|name| name.to_str().ok());
    let name = name.map_or(String::new(), |name| format!(" as `{name}`"));
    Ok((format!("{}{name}", Route::Url(hub)), stream))
}

/// Serves the hub until the connection is lost, or until `stop` ends.
async fn serve(
    server: &Endpoint,
    stream: Stream,
    stop: Pin<&mut impl Future<Output = ()>>,
) -> Ended {
    let (pulse, cut) = Pulse::new(stream, ());
    let (reader, writer) = tokio::io::split(pulse);
    let caller = Caller::new(CallerTransport::Stdio);
    let mut serving = pin!(server.serve(streams(reader, writer, caller)));
    tokio::select! {
        _ = serving.as_mut() => Ended::Lost,
        () = stop => {
            // Answers that are almost ready are still sent.
            let _ = cut.send("this server stops");
            let _ = serving.await;
            Ended::Stopped
        }
    }
}

/// Returns the pause after so many failures in a row: between half of it and all of it, so that hosts that lost a hub
/// together do not come back together.
fn pause(failures: u32) -> Duration {
    let whole = JOIN_PAUSE * 2_u32.saturating_pow(failures.min(16));
    let random = RandomState::new().build_hasher().finish() % 512;
    whole.min(LONGEST_JOIN_PAUSE) * (512 + random as u32) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        for (failures, longest) in [(0, 1), (1, 2), (5, 32), (6, 60), (u32::MAX, 60)] {
            let longest = Duration::from_secs(longest);
            for _ in 0..100 {
                let pause = pause(failures);
                assert!(
                    longest / 2 <= pause && pause < longest,
                    "{failures}: {pause:?}"
                );
            }
        }
    }

    #[test]
    fn a_url_without_a_path_leads_to_the_place_where_hosts_join() {
        for (url, hub) in [
            ("https://hub.example", "https://hub.example/join"),
            ("https://hub.example/", "https://hub.example/join"),
            (
                "https://hub.example/far/join",
                "https://hub.example/far/join",
            ),
        ] {
            let joining = Joining::new(move || Ok(Settings::new(url)), |_| {}).unwrap();
            let found = Route::Url(joining.hub().unwrap()).to_string();
            assert_eq!(found, hub);
        }
        let none = Joining::new(|| Ok(Settings::new("hub.example")), |_| {});
        assert!(none.is_err());
    }
}
