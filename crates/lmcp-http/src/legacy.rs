//! What older revisions do over HTTP: sessions, streams that outlive a connection, batches.
//!
//! Here a client that goes away has not cancelled anything: it may come back for the rest. So a call that is not done
//! at once runs on its own, and what it says stands on a [`Stream`](crate::stream::Stream) that the answer only reads.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use lmcp_core::{
    Account, Caller, Message, MessageKind, Messages, Request, Session, admit, handshake, is_long,
    session::SessionId,
};
use lmcp_wire::{
    Incoming, RequestId, RpcError, jsonrpc,
    legacy::CancelledParams,
    method::{notification, request},
    params::Params,
};
use serde_json::value::RawValue;

use crate::{
    answer::{Answer, Body, Refusal, SESSION_ID, empty, events, first_turn, json, whole_json},
    headers::Accept,
    post::{Taken, refused},
    service::Shared,
    session::{Member, Started, Stranger},
    stream::{Opening, Reader},
};

/// One request message, as it was read.
pub(crate) struct Received<'a> {
    pub(crate) bytes: &'a Bytes,
    pub(crate) id: RequestId,
    pub(crate) method: &'a str,
    pub(crate) params: Params<'a>,
}

/// Who sent a request, or the answer to one whose sender is not known. `None`: it claims to stand alone.
pub(crate) fn member(shared: &Shared, caller: &Caller) -> Result<Option<Member>, Refusal> {
    shared
        .sessions
        .member(caller)
        .map_err(|stranger| match stranger {
            // Clients take this status, and no other, as the word to begin anew.
            Stranger::Unknown => (
                StatusCode::NOT_FOUND,
                RpcError::invalid_request(
                    "this session is not known or has ended; send `initialize`",
                ),
            ),
            Stranger::Version(error) => (StatusCode::BAD_REQUEST, error),
            Stranger::Malformed => (
                StatusCode::BAD_REQUEST,
                RpcError::invalid_request("`Mcp-Session-Id` must be sent once, as visible ASCII"),
            ),
        })
}

/// The handshake: its answer carries the session.
pub(crate) fn open(shared: &Shared, message: Received<'_>, caller: &Caller) -> Answer {
    let Received {
        bytes, id, params, ..
    } = message;
    let agreement = match handshake(bytes) {
        Ok(agreement) => agreement,
        Err(error) => {
            let error = Message::error(Some(&id), &error);
            return Answer::Now(json(StatusCode::BAD_REQUEST, error));
        }
    };
    let (held, text) = shared.sessions.open(agreement, caller);
    let session = shared.sessions.session(&held, false);
    let (name, caller) = (request::INITIALIZE, caller.clone());
    let mut replies = match admit(bytes, id.clone(), name, params, caller, Some(&session)) {
        Ok(request) => shared.endpoint.start(request),
        Err(error) => Messages::ready(Message::error(Some(&id), &error)),
    };
    if let Some(reply) = replies.take_ready() {
        return Answer::Now(opened(reply, &text));
    }
    Answer::Later(Box::pin(async move {
        match replies.response().await {
            Some(reply) => opened(reply, &text),
            None => empty(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }))
}

fn opened(reply: Message, session: &str) -> Response<Body> {
    let opened = reply.kind() == MessageKind::Result;
    let mut response = json(StatusCode::OK, reply);
    if let Some(session) = HeaderValue::from_str(session).ok().filter(|_| opened) {
        response.headers_mut().insert(SESSION_ID, session);
    }
    response
}

/// A request of a session, or of a client that has none, that has begun.
pub(crate) struct Called {
    member: Member,
    id: RequestId,
    replies: Messages,
    /// Its stream begins with a name.
    priming: bool,
}

/// Begins such a request. What needs no waiting is answered.
pub(crate) fn begin(
    shared: &Shared,
    member: Member,
    message: Received<'_>,
    caller: &Caller,
    accept: Accept,
) -> Taken {
    let session = session(shared, &member, accept);
    let id = message.id.clone();
    let request = match request_of(message, caller.clone(), &session) {
        Ok(request) => request,
        Err(error) => return Taken::Answered(refuse(&id, &error)),
    };
    let mut replies = shared.endpoint.start(request);
    if let Some(reply) = replies.take_ready() {
        return Taken::Answered(Answer::Now(json(StatusCode::OK, reply)));
    }
    Taken::Called(Called {
        member,
        id,
        replies,
        priming: session.has_priming(),
    })
}

fn refuse(id: &RequestId, error: &RpcError) -> Answer {
    let error = Message::error(Some(id), error);
    Answer::Now(json(StatusCode::OK, error))
}

/// The answer to such a request, after its first turn.
pub(crate) fn call(
    shared: &Arc<Shared>,
    called: Called,
    caller: &Caller,
    accept: Accept,
    cx: &mut Context<'_>,
) -> Answer {
    let Called {
        member,
        id,
        mut replies,
        priming,
    } = called;
    let refused = |error: &RpcError| refuse(&id, error);
    let Member::Of(held) = member else {
        // Nobody could ever come back for it, nor cancel it: it ends with its connection.
        let answer = first_turn(replies, accept, shared.limits.keep_alive, cx);
        return answer.with_status(StatusCode::OK);
    };
    if let Err(error) = shared.sessions.expect_free(&held.id, &id) {
        return refused(&error);
    }
    let find_place = || shared.sessions.find_place(&held.id, &id, caller, 0);
    // A refusal is the whole truth: a call that may change something is refused before it begins, or not at all.
    let mut room = None;
    if !replies.is_harmless() {
        match find_place() {
            Ok(found) => room = Some(found),
            Err(error) => return refused(&error),
        }
    }
    match replies.poll_next(cx) {
        Poll::Ready(Some(reply)) if reply.is_response() => {
            return Answer::Now(json(StatusCode::OK, reply));
        }
        Poll::Ready(Some(reply)) => replies.put_back(reply),
        Poll::Ready(None) => return Answer::Now(empty(StatusCode::ACCEPTED)),
        Poll::Pending => {}
    }
    let room = match room.map_or_else(find_place, Ok) {
        Ok(room) => Some(room),
        Err(error) => return refused(&error),
    };
    let started = Started {
        id: id.clone(),
        replies,
        room,
        answer_room: None,
    };
    let calls = vec![started];
    match shared.sessions.run(held.id, priming, accept.events, calls) {
        Ok(reader) => {
            let answer = answer(Arc::clone(shared), held.id, reader, accept, Form::One);
            Answer::Later(Box::pin(answer))
        }
        Err(error) => refused(&error),
    }
}

/// Several messages in one body (2025-03-26).
pub(crate) async fn batch(
    shared: Arc<Shared>,
    bytes: Bytes,
    caller: Caller,
    accept: Accept,
) -> Response<Body> {
    let answered = try_batch(&shared, &bytes, &caller, accept).await;
    answered.unwrap_or_else(|refusal| refused(&refusal))
}

async fn try_batch(
    shared: &Arc<Shared>,
    bytes: &Bytes,
    caller: &Caller,
    accept: Accept,
) -> Result<Response<Body>, Refusal> {
    let begun = if is_long(bytes) {
        let (reader, bytes, caller) = (Arc::clone(shared), bytes.clone(), caller.clone());
        let reading = shared
            .endpoint
            .read_long(move || begin_batch(&reader, &bytes, &caller, accept));
        let read = reading.await;
        read.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error)))
    } else {
        begin_batch(shared, bytes, caller, accept)
    };
    let (member, batch) = begun?;
    let account = shared.endpoint.budget().account(&caller.owner());
    let Batch {
        calls,
        mut answers,
        others,
    } = batch;
    let runs = match &member {
        Member::Of(held) if !calls.is_empty() => Some((held, calls)),
        Member::Of(_) => None,
        Member::Alone(_) => {
            // As for single calls: they end with their connection.
            answers.extend(all(calls).await);
            None
        }
    };
    let reader = runs.map(|(held, calls)| {
        let reader = shared.sessions.run(held.id, false, accept.events, calls);
        reader.map(|reader| (held, reader))
    });
    // Now that they run, these can stop and answer them.
    for other in others {
        tell_one(shared, &member, other).await;
    }
    match reader {
        Some(Ok((held, reader))) => {
            answers
                .into_iter()
                .for_each(|reply| reader.stream().push_now(reply));
            let shared = Arc::clone(shared);
            let form = Form::Many(account);
            Ok(answer(shared, held.id, reader, accept, form).await)
        }
        Some(Err(error)) => Err((StatusCode::OK, error)),
        None if answers.is_empty() => Ok(empty(StatusCode::ACCEPTED)),
        None => {
            let answers: Vec<_> = answers.into_iter().map(Message::into_json).collect();
            Ok(whole_json(array(&account, &answers)))
        }
    }
}

/// Begins what is in a batch.
fn begin_batch(
    shared: &Shared,
    bytes: &Bytes,
    caller: &Caller,
    accept: Accept,
) -> Result<(Member, Batch), Refusal> {
    let refusal = |error: RpcError| (StatusCode::BAD_REQUEST, error);
    let invalid = |words: String| refusal(RpcError::invalid_request(words));
    let of = |member: Member| (session(shared, &member, accept), member);
    let member = member(shared, caller)?.map(of);
    let Some((session, member)) = member.filter(|(session, _)| session.has_batches()) else {
        let words = "a message is one object; only 2025-03-26 has batches";
        return Err(invalid(words.into()));
    };
    let most = shared.limits.requests_in_flight;
    let messages = jsonrpc::batch(bytes, most)
        .unwrap_or(Ok(Vec::new()))
        .map_err(refusal)?;
    if messages.is_empty() || messages.len() > most {
        return Err(invalid(format!("a batch has 1 to {most} messages")));
    }
    let mut batch = Batch::default();
    for message in messages {
        let frame = bytes.slice_ref(message.get().as_bytes());
        batch.add(shared, frame, caller, &session, &member);
    }
    Ok((member, batch))
}

/// A notification or an answer of a batch.
async fn tell_one(shared: &Arc<Shared>, member: &Member, message: Bytes) {
    let (hears, member) = (Arc::clone(shared), member.clone());
    let long = is_long(&message);
    let telling = move || {
        if let Ok(message) = Incoming::parse(&message) {
            tell(&hears, &member, &message);
        }
    };
    if long {
        // Whatever it said is lost with a server that closes.
        let _ = shared.endpoint.read_long(telling).await;
    } else {
        telling();
    }
}

/// The responses to all, which run side by side.
async fn all(calls: Vec<Started>) -> Vec<Message> {
    let mut running = calls;
    let mut answers = Vec::with_capacity(running.len());
    poll_fn(|cx| {
        running.retain_mut(|call| {
            loop {
                match call.replies.poll_next(cx) {
                    Poll::Pending => return true,
                    Poll::Ready(None) => return false,
                    Poll::Ready(Some(reply)) if reply.is_response() => {
                        answers.push(match call.answer_room.take() {
                            Some(counted) => reply.held(counted),
                            None => reply,
                        });
                        return false;
                    }
                    Poll::Ready(Some(_)) => {}
                }
            }
        });
        if running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers
}

/// What is in a batch.
#[derive(Default)]
struct Batch {
    calls: Vec<Started>,
    /// What is answered already.
    answers: Vec<Message>,
    /// What wants no answer.
    others: Vec<Bytes>,
}

impl Batch {
    fn add(
        &mut self,
        shared: &Shared,
        frame: Bytes,
        caller: &Caller,
        session: &Session,
        member: &Member,
    ) {
        let (id, method, params) = match Incoming::parse(&frame) {
            Ok(Incoming::Request { id, method, params }) => (id, method, params),
            Ok(_) => return self.others.push(frame),
            Err(rejected) => {
                let reply = Message::error(rejected.id.as_ref(), &rejected.error);
                return self.answers.push(reply);
            }
        };
        let message = Received {
            bytes: &frame,
            id: id.clone(),
            method: &method,
            params,
        };
        match self.start(shared, message, caller, session, member) {
            Ok(started) => self.calls.push(started),
            Err(error) => self.answers.push(Message::error(Some(&id), &error)),
        }
    }

    fn start(
        &self,
        shared: &Shared,
        message: Received<'_>,
        caller: &Caller,
        session: &Session,
        member: &Member,
    ) -> Result<Started, RpcError> {
        let id = message.id.clone();
        if message.method == request::INITIALIZE {
            return Err(RpcError::invalid_request("`initialize` stands in no batch"));
        }
        if self.calls.iter().any(|call| call.id == id) {
            let words = format!("the id `{id}` belongs to another request of this batch");
            return Err(RpcError::invalid_request(words));
        }
        // Its answer waits for the others: it is counted however short it is, and none is added to more than the caller's share.
        let account = shared.endpoint.budget().account(&caller.owner());
        let answer_room = Some(account.try_reserve(ANSWER_BYTES)?);
        let request = request_of(message, caller.clone(), session)?;
        let mut replies = shared.endpoint.start(request);
        let ready = replies.take_ready();
        let mut room = None;
        if let Member::Of(held) = member {
            let (sessions, others) = (&shared.sessions, self.calls.len());
            match ready {
                // What is answered already needs no place.
                Some(_) => sessions.expect_free(&held.id, &id)?,
                None => room = Some(sessions.find_place(&held.id, &id, caller, others)?),
            }
        }
        if let Some(reply) = ready {
            replies = Messages::ready(reply);
        }
        Ok(Started {
            id,
            replies,
            room,
            answer_room,
        })
    }
}

/// A notification or an answer: nothing is said to it.
pub(crate) fn tell(shared: &Shared, member: &Member, message: &Incoming<'_>) {
    let Member::Of(held) = member else {
        return;
    };
    match message {
        Incoming::Notification { method, params } if method == notification::CANCELLED => {
            let params = params.map_or("{}", RawValue::get);
            if let Ok(CancelledParams {
                request_id: Some(id),
                ..
            }) = serde_json::from_str(params)
            {
                shared.sessions.cancel(&held.id, &id);
            }
        }
        Incoming::Notification { method, .. } if method == notification::ROOTS_CHANGED => {
            shared.sessions.forget_folders(&held.id);
        }
        Incoming::Response { id, outcome } => {
            shared
                .sessions
                .answer(&held.id, id.as_ref(), outcome.clone());
        }
        _ => {}
    }
}

/// The session as the engine sees it. Without events there is no way to ask anything back.
fn session(shared: &Shared, member: &Member, accept: Accept) -> Session {
    match member {
        Member::Of(held) => shared.sessions.session(held, accept.events),
        Member::Alone(session) => session.clone(),
    }
}

fn request_of(
    message: Received<'_>,
    caller: Caller,
    session: &Session,
) -> Result<Request, RpcError> {
    let Received {
        bytes,
        id,
        method,
        params,
    } = message;
    admit(bytes, id, method, params, caller, Some(session))
}

/// The memory for an answer that nobody else counts, because it is short.
const ANSWER_BYTES: usize = 4096 + 256;

/// One answer, or an array of them, which is memory of this caller.
enum Form {
    One,
    Many(Account),
}

/// Answers as one message (2025-03-26), counted until it is written.
fn array(account: &Account, answers: &[Bytes]) -> Bytes {
    let length = answers.iter().map(|answer| answer.len() + 1).sum::<usize>() + 1;
    let counted = account.take(length);
    let mut array = Vec::with_capacity(length);
    for answer in answers {
        array.push(if array.is_empty() { b'[' } else { b',' });
        array.extend_from_slice(answer);
    }
    array.push(b']');
    counted.hold(array)
}

/// Plain JSON if there is nothing but responses; else a stream of events, which a client can come back to.
async fn answer(
    shared: Arc<Shared>,
    session: SessionId,
    reader: Reader,
    accept: Accept,
    form: Form,
) -> Response<Body> {
    let limits = &shared.limits;
    let patience = match (accept.events, reader.stream().priming) {
        (true, true) => limits.stream_after,
        (true, false) => limits.keep_alive,
        (false, _) => Duration::MAX,
    };
    let opening = poll_fn(|cx| reader.poll_opening(cx));
    let answers = match shared.sessions.patience.within(patience, opening).await {
        Some(Opening::Answered(answers)) => answers,
        Some(Opening::Events) | None => {
            return events(Body::log(reader, limits.keep_alive));
        }
    };
    shared.sessions.forget(&session, reader.stream().number);
    let whole = match (form, &*answers) {
        // Cancelled: it gets no answer.
        (_, []) => return empty(StatusCode::ACCEPTED),
        (Form::One, [answer, ..]) => answer.clone(),
        (Form::Many(account), answers) => array(&account, answers),
    };
    whole_json(whole)
}
