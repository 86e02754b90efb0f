//! Connections that go on in another protocol: the program decides by the headers, and gets the connection.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use lmcp_wire::RpcError;

use crate::{
    answer::{Answer, Body, close, empty, refuse},
    bind::Http,
};

impl Http {
    /// Hands connections at this path over to the program, if they ask for this protocol (`Connection: upgrade`). The function gets
    /// the headers of the request, and checks the caller itself: [`Http::identify`] and [`Http::authenticate`] hold for the other
    /// paths. The function agrees with a [`HandOver`], or refuses with a status and words. A connection that was handed over belongs
    /// to the program, and no longer counts as a connection of the server.
    #[must_use]
    pub fn hand_over(
        mut self,
        path: &str,
        protocol: &'static str,
        decide: impl Fn(&HeaderMap) -> Deciding + Send + Sync + 'static,
    ) -> Self {
        self.settings.upgrade = Some(Upgrade {
            path: path.to_owned(),
            protocol,
            decide: Box::new(decide),
        });
        self
    }
}

/// A decision about a connection that asks for another protocol.
pub type Deciding = Pin<Box<dyn Future<Output = Result<HandOver, (StatusCode, String)>> + Send>>;

/// A connection that goes on in another protocol.
pub type HandedOver = TokioIo<Upgraded>;

/// The consent to hand a connection over: see [`Http::hand_over`].
#[non_exhaustive]
pub struct HandOver {
    /// More headers of the answer.
    pub headers: HeaderMap,
    take: Take,
}

type Take = Box<dyn FnOnce(HandedOver) + Send>;

impl HandOver {
    /// Gives the connection to this function once the answer is written. If the connection breaks before, the function is
    /// dropped.
    pub fn to(take: impl FnOnce(HandedOver) + Send + 'static) -> Self {
        Self {
            headers: HeaderMap::new(),
            take: Box::new(take),
        }
    }
}

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOver").finish_non_exhaustive()
    }
}

/// The path where connections are handed over, and the function that decides.
pub(crate) struct Upgrade {
    path: String,
    protocol: &'static str,
    decide: Box<dyn Fn(&HeaderMap) -> Deciding + Send + Sync>,
}

/// The connection that will be handed over, if the program has agreed.
#[derive(Clone, Default)]
pub(crate) struct Handing(Arc<Mutex<Option<(OnUpgrade, Take)>>>);

impl Handing {
    /// Hands the connection over, if the program has agreed.
    pub(crate) async fn finish(self) {
        let agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((upgrading, take)) = agreed
            && let Ok(stream) = upgrading.await
        {
            take(TokioIo::new(stream));
        }
    }

    fn agree(&self, upgrading: OnUpgrade, take: Take) {
        let mut agreed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *agreed = Some((upgrading, take));
    }
}

impl Upgrade {
    /// Whether connections are handed over at this path.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }

    /// Hands the connection of a request over, if the request asks for that and the program agrees.
    pub(crate) fn take_in(&self, mut request: Request<Incoming>, handing: &Handing) -> Answer {
        if request.method() != Method::GET || !asks_for(request.headers(), self.protocol) {
            return Answer::Now(other_protocol(self.protocol));
        }
        let (deciding, protocol) = ((self.decide)(request.headers()), self.protocol);
        let (upgrading, handing) = (hyper::upgrade::on(&mut request), handing.clone());
        Answer::Later(Box::pin(async move {
            match deciding.await {
                Ok(HandOver { headers, take }) => {
                    handing.agree(upgrading, take);
                    agreed(headers, protocol)
                }
                Err((status, words)) => declined(status, words),
            }
        }))
    }
}

/// Whether a request asks to go on in this protocol.
fn asks_for(headers: &HeaderMap, protocol: &str) -> bool {
    let says = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name);
        let values = values.iter().filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(','));
        words.any(|said| said.trim().eq_ignore_ascii_case(word))
    };
    says(header::CONNECTION, "upgrade") && says(header::UPGRADE, protocol)
}

fn agreed(headers: HeaderMap, protocol: &'static str) -> Response<Body> {
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    let all = response.headers_mut();
    *all = headers;
    all.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    all.insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Answers a request that does not ask for the protocol of this path.
fn other_protocol(protocol: &'static str) -> Response<Body> {
    let words = format!("only `{protocol}` is spoken here: `Connection: upgrade`");
    let error = RpcError::invalid_request(words);
    let mut response = refuse(StatusCode::UPGRADE_REQUIRED, &error);
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static(protocol));
    close(&mut response);
    response
}

fn declined(status: StatusCode, words: String) -> Response<Body> {
    let mut response = refuse(status, &RpcError::invalid_request(words));
    if status == StatusCode::UNAUTHORIZED {
        let asks = HeaderValue::from_static(r#"Bearer realm="lmcp""#);
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, asks);
    }
    close(&mut response);
    response
}
