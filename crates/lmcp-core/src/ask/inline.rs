//! Asking a client while a call goes on, for services that are no handlers of the engine.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use lmcp_wire::{
    self as wire, ClientCapabilities, RpcError, elicit::ElicitMode, input::InputRequest,
    method::notification, progress::CancelledParams,
};
use serde_json::value::RawValue;

use crate::{
    budget::{Reservation, try_later},
    premises::Premises,
    reply::Reply,
    request::Request,
    session::{NoAnswer, Question, SessionState, Waits},
};

/// The way in which the client of a request can be asked a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asks {
    /// While the call goes on: [`Request::ask`] puts a question, and the service waits for the answer. Revisions with a handshake.
    Inline,
    /// By ending the request with [`Payload::InputRequired`](crate::Payload::InputRequired): the client sends the request again, with the
    /// answers. 2026-07-28.
    ByRetry,
    /// Not at all: the client made no handshake, or reads nothing but the answer.
    Never,
}

impl Request {
    /// How the client can be asked a question. [`Request::capabilities`] tells which kinds of questions.
    pub fn asks(&self) -> Asks {
        match self.session() {
            None => Asks::ByRetry,
            Some(session) if session.can_ask() => Asks::Inline,
            Some(_) => Asks::Never,
        }
    }

    /// Puts a question to the client while the call goes on: send the reply, and await the answer.
    ///
    /// The time that people take has no bound here: put one around it, and where it is over send
    /// [`PendingAnswer::take_back`], so that the client need not think about it any longer.
    ///
    /// # Errors
    /// The client is not [asked so](Request::asks) or lacks the capability, or too many questions wait.
    pub fn ask(&self, question: InputRequest) -> Result<(Reply, PendingAnswer), RpcError> {
        self.put(question, None)
    }

    /// Puts a question of a remote server to the client, as [`Request::ask`] does. Every member of the question reaches the client, in the
    /// words of its revision.
    ///
    /// # Errors
    /// As [`Request::ask`]; and it is no question that is known here.
    pub fn pass_on(
        &self,
        method: &str,
        params: &RawValue,
    ) -> Result<(Reply, PendingAnswer), RpcError> {
        let Some(question) = InputRequest::read(method, params) else {
            let words = format!("the client cannot be asked for `{method}`");
            return Err(RpcError::invalid_request(words));
        };
        self.put(question, Some(params.to_owned()))
    }

    fn put(
        &self,
        question: InputRequest,
        written: Option<Box<RawValue>>,
    ) -> Result<(Reply, PendingAnswer), RpcError> {
        let session = self.session().filter(|session| session.can_ask());
        let Some(session) = session else {
            let words = "the client of this request cannot be asked while it goes on";
            return Err(RpcError::invalid_request(words));
        };
        let lacking = lacking([&question], &self.capabilities());
        if lacking != ClientCapabilities::default() {
            return Err(RpcError::missing_capability(&lacking));
        }
        let live = session.live()?;
        let place = self.premises.as_ref();
        let place = place.map(|premises| expect_questions(premises, self, 1, &live));
        let asked = live.question(self.id());
        let reply = Reply::Ask(asked.ask(question, written));
        let answer = PendingAnswer {
            asked,
            _place: place.transpose()?,
            _waits: live.wait(),
        };
        Ok((reply, answer))
    }
}

/// A future of the answer to a question of [`Request::ask`]. Dropping it forgets the question.
#[derive(Debug)]
#[must_use = "a question waits for its answer"]
pub struct PendingAnswer {
    asked: Question,
    _place: Option<Reservation>,
    _waits: Waits,
}

impl PendingAnswer {
    /// Stops waiting. The reply tells the client that it need not answer.
    pub fn take_back(self) -> Reply {
        taken_back(&self.asked)
    }
}

impl Future for PendingAnswer {
    type Output = Result<Box<RawValue>, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.asked.poll_answer(cx).map_err(|none| match none {
            NoAnswer::Error(error) => error,
            NoAnswer::Unaskable(words) => RpcError::invalid_request(words),
        })
    }
}

/// Makes the notice that a question need not be answered.
pub(super) fn taken_back(question: &Question) -> Reply {
    let params = CancelledParams::new(question.id());
    Reply::notify(notification::CANCELLED, &params)
}

/// Reserves places for `more` questions that wait: each caller has a share, and no session waits for more than
/// `requests_in_flight` allows.
pub(super) fn expect_questions(
    premises: &Premises,
    request: &Request,
    more: usize,
    live: &SessionState,
) -> Result<Reservation, RpcError> {
    let limits = &premises.limits;
    let refused = |limit: &str, most: usize| {
        let words = format!("the limit `{limit}` of {most} is reached; try again later");
        try_later(words, limit, most)
    };
    if live.waiting() >= limits.requests_in_flight {
        return Err(refused("requests_in_flight", limits.requests_in_flight));
    }
    let places = premises.questions.account(&request.caller().payer());
    let reserved = places.try_reserve(more);
    reserved.map_err(|_| refused("questions", limits.questions))
}

/// Returns the capabilities that these questions need and that the client did not declare.
pub(super) fn lacking<'a>(
    questions: impl IntoIterator<Item = &'a InputRequest>,
    declared: &ClientCapabilities,
) -> ClientCapabilities {
    let mut lacking = ClientCapabilities::default();
    let sampling = declared.sampling.as_ref();
    for request in questions {
        match request {
            InputRequest::Elicit(params) => {
                let needed = match params.mode {
                    Some(ElicitMode::Url) if !declared.has_url() => {
                        &mut lacking.elicitation.get_or_insert_default().url
                    }
                    None | Some(ElicitMode::Form) if !declared.has_form() => {
                        &mut lacking.elicitation.get_or_insert_default().form
                    }
                    _ => continue,
                };
                *needed = Some(wire::Object::new());
            }
            InputRequest::Sample(params) => {
                let tools = sampling.and_then(|sampling| sampling.tools.as_ref());
                if params.tools.is_some() && tools.is_none() {
                    lacking.sampling.get_or_insert_default().tools = Some(wire::Object::new());
                } else if sampling.is_none() {
                    lacking.sampling.get_or_insert_default();
                }
            }
            InputRequest::Roots(_) if declared.roots.is_none() => {
                lacking.roots.get_or_insert_default();
            }
            _ => {}
        }
    }
    lacking
}
