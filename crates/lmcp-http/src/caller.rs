//! Who sends a request: the program is asked, before anything of the body is read.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use http::{Extensions, HeaderMap, HeaderValue, Response, StatusCode, header};
use lmcp_core::{Authenticator, Caller, Challenge};
use tokio::time::timeout;

use crate::{
    answer::{Body, close, refuse},
    bearer::bearer,
    carried::Carried,
    headers::Fields,
    service::HttpService,
    who::{Asked, Known, Who},
};

impl HttpService {
    /// Who sent these headers, as far as that can be said at once.
    pub(crate) fn caller(&self, headers: HeaderMap, extensions: Extensions) -> Asked {
        match &self.shared.gate.who {
            Who::NotAsked => Asked::Now(Ok(self.stranger(headers, extensions))),
            Who::Token(tokens) => {
                let holder = bearer(&headers).and_then(|token| tokens.holder(token));
                let holder = holder.map(str::to_owned);
                let caller = self.stranger(headers, extensions);
                Asked::Now(match holder {
                    Some(name) => self.claimed(caller.known_as(&name)),
                    None => Err(Box::new(refusal(&Challenge::new(NO_TOKEN), &caller))),
                })
            }
            Who::Identify(identify) => {
                let found = identify(&headers);
                let caller = self.stranger(headers, extensions);
                Asked::Now(match found {
                    Ok(None) => Ok(caller),
                    Ok(Some(name)) => self.claimed(caller.known_as(&name)),
                    Err(words) => Err(Box::new(refusal(&Challenge::new(words), &caller))),
                })
            }
            Who::Authenticate(authenticator) => {
                let caller = self.stranger(headers, extensions);
                self.ask(authenticator, caller)
            }
        }
    }

    fn ask(&self, authenticator: &Authenticator, caller: Caller) -> Asked {
        let mut asking = authenticator.ask(caller.clone());
        // Nobody waits for this turn: if it is not the last one, the next has a waker of its own.
        let now = asking
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(found) = now {
            return Asked::Now(self.settle(found, &caller));
        }
        let service = self.clone();
        Asked::Later(Box::pin(async move {
            let wait = service.shared.limits.auth_wait;
            let found = timeout(wait, asking).await.unwrap_or_else(|_| {
                let seconds = wait.as_secs();
                let words = format!("within {seconds} s nobody could tell who calls");
                Err(Challenge::not_now(words))
            });
            service.settle(found, &caller)
        }))
    }

    fn settle(&self, found: Result<Caller, Challenge>, caller: &Caller) -> Known {
        match found {
            Ok(known) => self.claimed(known),
            Err(challenge) => Err(Box::new(refusal(&challenge, caller))),
        }
    }

    /// Somebody who sent this. On a port of our own no middleware has added anything.
    fn stranger(&self, headers: HeaderMap, extensions: Extensions) -> Caller {
        let is_mounted = self.connection.is_none();
        let carried = is_mounted.then(|| {
            Box::new(Carried {
                extensions,
                carries: Arc::clone(&self.shared.gate.carries),
            })
        });
        Caller::http(Fields { headers, carried })
    }

    /// A caller that is told from others has its share of the connections, and no more.
    fn claimed(&self, caller: Caller) -> Known {
        let connection = self.connection.as_deref();
        if let Some(connection) = connection.filter(|_| !caller.is_stranger())
            && let Err(error) = connection.claim(&caller.payer())
        {
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &error);
            close(&mut response);
            return Err(Box::new(response));
        }
        Ok(caller)
    }
}

/// The answer to somebody who is not let in.
fn refusal(challenge: &Challenge, caller: &Caller) -> Response<Body> {
    let status = StatusCode::from_u16(challenge.http_status()).ok();
    let status = status.filter(|status| status.is_client_error() || status.is_server_error());
    let status = status.unwrap_or(StatusCode::UNAUTHORIZED);
    let mut response = refuse(status, challenge.error());
    let headers = response.headers_mut();
    if let Some(asks) = challenge.asks(caller) {
        let value = HeaderValue::try_from(asks).unwrap_or_else(|_| {
            tracing::warn!("a challenge cannot be written as a header, and the usual one is sent");
            HeaderValue::from_static(r#"Bearer realm="lmcp""#)
        });
        headers.insert(header::WWW_AUTHENTICATE, value);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The words for a request without a token that is known.
const NO_TOKEN: &str = "a token is needed: send it as `Authorization: Bearer TOKEN`";
