//! HTTP in older revisions: sessions, streams that outlive a connection, batches.
//!
//! In these revisions, a client that goes away has not cancelled its calls: it may come back for the rest. So a call that is
//! not done at once runs on its own, and its messages go onto a [`Stream`](crate::stream::Stream), which the answer only reads.

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::ControlFlow,
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
    answer::{Answer, Body, empty, events, first_turn, json, json_pieces, refused, whole_json},
    headers::{Accept, Refusal, SESSION_ID},
    session::{Member, Started, Stranger},
    shared::Shared,
    stream::{Opening, Reader},
};

/// One request message, in parts.
pub(crate) struct Received<'a> {
    pub(crate) bytes: &'a Bytes,
    pub(crate) id: RequestId,
    pub(crate) method: &'a str,
    pub(crate) params: Params<'a>,
}

/// Returns the sender of a request, or the refusal if the session is not known. `None`: the request claims a revision without
/// sessions.
pub(crate) fn member(shared: &Shared, caller: &Caller) -> Result<Option<Member>, Refusal> {
    shared
        .sessions
        .member(caller)
        .map_err(|stranger| match stranger {
            // Only this status makes clients start a new session.
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

/// Answers a handshake. The answer carries the id of the session.
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

/// A request that was started, of a session or of a client without one.
pub(crate) struct Called {
    member: Member,
    id: RequestId,
    replies: Messages,
    /// Whether its stream begins with an event that has only a name.
    priming: bool,
}

/// Starts such a request. If the response is there at once, it is the answer.
pub(crate) fn begin(
    shared: &Shared,
    member: Member,
    message: Received<'_>,
    caller: &Caller,
    accept: Accept,
) -> ControlFlow<Answer, Called> {
    let session = session(shared, &member, accept);
    let id = message.id.clone();
    let request = match request_of(message, caller.clone(), &session) {
        Ok(request) => request,
        Err(error) => return ControlFlow::Break(refuse(&id, &error)),
    };
    let mut replies = shared.endpoint.start(request);
    if let Some(reply) = replies.take_ready() {
        return ControlFlow::Break(Answer::Now(json(StatusCode::OK, reply)));
    }
    ControlFlow::Continue(Called {
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

/// Answers such a request after its first turn.
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
        // No client could come back for this call or cancel it, so the call ends with its connection.
        let answer = first_turn(replies, accept, shared.limits.keep_alive, cx);
        return answer.with_status(StatusCode::OK);
    };
    let find_place = || shared.sessions.find_place(&held.id, &id, caller, 0);
    // A refusal is the whole truth: a call that may change something is refused before it begins, or not at all.
    let found = if replies.is_harmless() {
        shared.sessions.expect_free(&held.id, &id).map(|()| None)
    } else {
        find_place().map(Some)
    };
    let room = match found {
        Ok(room) => room,
        Err(error) => return refused(&error),
    };
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
    match shared
        .sessions
        .run(held.id, caller, priming, accept.events, calls)
    {
        Ok(reader) => {
            let answer = answer(Arc::clone(shared), held.id, reader, accept, Form::One);
            Answer::Later(Box::pin(answer))
        }
        Err(error) => refused(&error),
    }
}

/// Answers several messages in one body (2025-03-26).
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
    let account = shared.endpoint.budget().account(&caller.payer());
    let Batch {
        calls,
        mut answers,
        others,
    } = batch;
    let runs = match &member {
        Member::Of(held) if !calls.is_empty() => Some((held, calls)),
        Member::Of(_) => None,
        Member::Alone(_) => {
            // Such calls end with their connection, as single calls do.
            answers.extend(all(calls).await);
            None
        }
    };
    let reader = runs.map(|(held, calls)| {
        let reader = shared
            .sessions
            .run(held.id, caller, false, accept.events, calls);
        reader.map(|reader| (held, reader))
    });
    // The calls run now, so these messages can cancel and answer them.
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
            Ok(json_pieces(array(&account, &answers)))
        }
    }
}

/// Starts the requests of a batch.
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

/// Handles a notification or an answer of a batch.
async fn tell_one(shared: &Arc<Shared>, member: &Member, message: Bytes) {
    let (hears, member) = (Arc::clone(shared), member.clone());
    let long = is_long(&message);
    let telling = move || {
        if let Ok(message) = Incoming::parse(&message) {
            tell(&hears, &member, &message);
        }
    };
    if long {
        // If the server closes meanwhile, the message is lost.
        let _ = shared.endpoint.read_long(telling).await;
    } else {
        telling();
    }
}

/// Returns the responses to all calls, which run side by side.
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

/// The messages of a batch.
#[derive(Default)]
struct Batch {
    calls: Vec<Started>,
    /// Responses that are there already.
    answers: Vec<Message>,
    /// Messages that get no answer.
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
        let account = shared.endpoint.budget().account(&caller.payer());
        let answer_room = Some(account.try_reserve(ANSWER_BYTES)?);
        let request = request_of(message, caller.clone(), session)?;
        let mut replies = shared.endpoint.start(request);
        let ready = replies.take_ready();
        let mut room = None;
        if let Member::Of(held) = member {
            let (sessions, others) = (&shared.sessions, self.calls.len());
            match ready {
                // A call that is answered already needs no place.
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

/// Handles a notification or an answer, to which there is no reply.
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

/// Makes the session for the engine. Without events, the client cannot be asked.
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

/// The memory for a short answer, which is not counted elsewhere.
const ANSWER_BYTES: usize = 4096 + 256;

/// One answer, or an array of answers that counts as memory of this caller.
enum Form {
    One,
    Many(Account),
}

/// Joins answers into one message (2025-03-26), whose memory is counted until it is written. Long answers are not copied.
fn array(account: &Account, answers: &[Bytes]) -> VecDeque<Bytes> {
    let mut pieces = VecDeque::new();
    let mut short = Vec::new();
    for answer in answers {
        short.push(if short.is_empty() && pieces.is_empty() {
            b'['
        } else {
            b','
        });
        if answer.len() > ANSWER_BYTES {
            pieces.push_back(held(account, &mut short));
            pieces.push_back(answer.clone());
        } else {
            short.extend_from_slice(answer);
        }
    }
    short.push(b']');
    pieces.push_back(held(account, &mut short));
    pieces
}

/// Counts the bytes, and leaves none.
fn held(account: &Account, bytes: &mut Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    account.take(bytes.len()).hold(std::mem::take(bytes))
}

/// Answers with plain JSON if there are only responses, else with a stream of events, to which a client can come back.
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
    match (form, &*answers) {
        // The call was cancelled, so it gets no answer.
        (_, []) => empty(StatusCode::ACCEPTED),
        (Form::One, [answer, ..]) => whole_json(answer.clone()),
        (Form::Many(account), answers) => json_pieces(array(&account, answers)),
    }
}
