//! One POST of an admitted caller: reads its body, starts its message, and answers its first turn.
//!
//! A body has limits of size and time, and counts as memory of its caller as it grows.

use std::{
    future::poll_fn,
    ops::ControlFlow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use lmcp_core::{Caller, Message, Messages, NoRoom, Reservation, is_handshake, is_long};
use lmcp_wire::{Incoming, RpcError, method};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    answer::{
        Answer, Body, after, as_events, close, empty, first_turn, json, refuse, refused, status,
    },
    headers::{Accept, Form, Refusal},
    legacy::{self, Called, Received},
    session::Member,
    shared::Shared,
};

/// A POST of an admitted caller.
pub(crate) struct Post<B> {
    pub(crate) form: Form,
    pub(crate) caller: Caller,
    pub(crate) body: B,
}

impl<B> Post<B>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    /// Answers the POST. Rare futures are in boxes, because a connection keeps room for everything that its requests may wait
    /// for.
    pub(crate) async fn answer(&mut self, shared: &Arc<Shared>) -> Response<Body> {
        let accept = match &self.form {
            Ok(accept) => *accept,
            Err(refusal) => return refused(refusal),
        };
        if shared.endpoint.budget().is_tight()
            && let Err(no_room) = Box::pin(expect_share(shared, &self.caller)).await
        {
            let refusal = refuse(StatusCode::SERVICE_UNAVAILABLE, &no_room.into());
            return Box::pin(turn_away(refusal, &mut self.body, shared)).await;
        }
        let bytes = match read(&mut self.body, shared, &self.caller).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refused(&refusal),
        };
        let taken = if is_long(&bytes) {
            Box::pin(take_long(shared, bytes, &self.caller, accept)).await
        } else {
            take(shared, &bytes, &self.caller, accept)
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(refusal) => return refused(&refusal),
        };
        let mut taken = Some(taken);
        let first_turn = poll_fn(|cx| {
            let taken = taken.take().expect("it is polled once");
            Poll::Ready(taken.turn(shared, &self.caller, accept, cx))
        });
        let answered = match first_turn.await {
            Answer::Now(answered) => answered,
            Answer::Later(later) => later.await,
        };
        if accept.json || answered.status() != StatusCode::OK {
            answered
        } else {
            as_events(answered)
        }
    }
}

/// A caller that has more than its share of the memory, in answers that it does not read, gets no more of them.
async fn expect_share(shared: &Shared, caller: &Caller) -> Result<(), NoRoom> {
    let account = shared.endpoint.budget().account(&caller.payer());
    account.expect_share(shared.limits.admission_wait).await
}

/// Reads the whole body. A large body holds the memory that was reserved for it.
pub(crate) async fn read<B>(
    body: &mut B,
    shared: &Shared,
    caller: &Caller,
) -> Result<Bytes, Refusal>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    let most = shared.limits.body_bytes;
    let size = body.size_hint();
    if size.lower() > most as u64 {
        return Err(too_large(most));
    }
    let most = size
        .exact()
        .map_or(most, |size| usize::try_from(size).unwrap_or(most));
    // Nearly every body arrives with its head, so the clock is started only if it does not.
    let at_once = poll_fn(|cx| Poll::Ready(poll_data(body, cx))).await;
    let deadline = || after(shared.limits.body_wait);
    let first = match at_once {
        Poll::Ready(first) => first,
        Poll::Pending => {
            let first = timeout_at(deadline(), poll_fn(|cx| poll_data(body, cx))).await;
            first.map_err(|_| late(shared))?
        }
    };
    match first {
        None => Ok(Bytes::new()),
        Some(Err(_)) => Err(broken()),
        // Nearly every body is one small piece, which is not copied.
        Some(Ok(first)) if first.len() <= SMALL && body.is_end_stream() => Ok(first),
        Some(Ok(first)) => {
            let reading = Reading {
                shared,
                caller,
                most,
                room: None,
                buffers: None,
            };
            Box::pin(reading.rest(body, first, deadline())).await
        }
    }
}

/// Returns the next piece of a body.
fn poll_data<B>(body: &mut B, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, B::Error>>>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    loop {
        let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(err)) => return Poll::Ready(Some(Err(err))),
            None => return Poll::Ready(None),
        };
        if let Ok(mut data) = frame.into_data() {
            return Poll::Ready(Some(Ok(data.copy_to_bytes(data.remaining()))));
        }
    }
}

/// A body that is not one small piece.
struct Reading<'a> {
    shared: &'a Shared,
    caller: &'a Caller,
    /// The most bytes that the body can have.
    most: usize,
    /// The memory that is reserved for the body.
    room: Option<Reservation>,
    /// The memory of the connection's buffers. If it cannot be reserved, the body is refused at once: many connections may wait
    /// for more.
    buffers: Option<Reservation>,
}

impl Reading<'_> {
    async fn rest<B>(
        mut self,
        body: &mut B,
        first: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, Refusal>
    where
        B: http_body::Body + Unpin,
        B::Data: Buf,
    {
        match timeout_at(deadline, self.collect(body, first)).await {
            Ok(Ok(whole)) => Ok(match self.room {
                Some(mut reserved) => {
                    reserved.shrink_to(whole.len());
                    reserved.hold(whole)
                }
                None => whole,
            }),
            Ok(Err(Unread::TooLarge)) => Err(too_large(self.shared.limits.body_bytes)),
            Ok(Err(Unread::Broken)) => Err(broken()),
            Ok(Err(Unread::NoRoom(no_room))) => {
                // The rest is read and dropped, so that the connection can go on.
                let skipped = skip(body, self.shared).await;
                let status = if no_room.retriable && skipped {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::PAYLOAD_TOO_LARGE
                };
                Err((status, no_room.into()))
            }
            Err(_) => Err(late(self.shared)),
        }
    }

    async fn collect<B>(&mut self, body: &mut B, first: Bytes) -> Result<Bytes, Unread>
    where
        B: http_body::Body + Unpin,
        B::Data: Buf,
    {
        self.make_room(first.len()).await?;
        let mut whole = first;
        let mut rest = BytesMut::new();
        while let Some(data) = poll_fn(|cx| poll_data(body, cx)).await {
            let data = data.map_err(|_| Unread::Broken)?;
            self.make_room(whole.len() + rest.len() + data.len())
                .await?;
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut whole));
            }
            rest.extend_from_slice(&data);
        }
        Ok(if rest.is_empty() {
            whole
        } else {
            rest.freeze()
        })
    }

    /// Reserves memory for this length of the body, and ahead of it: twice as much each time, but never more than the body can
    /// have. So a client that announces much and sends little holds little.
    async fn make_room(&mut self, length: usize) -> Result<(), Unread> {
        if length > self.most {
            return Err(Unread::TooLarge);
        }
        if length <= SMALL {
            return Ok(());
        }
        let wait = self.shared.limits.admission_wait;
        let wanted = length.next_power_of_two().max(FIRST).min(self.most);
        let account = || self.shared.endpoint.budget().account(&self.caller.payer());
        if self.buffers.is_none() {
            let buffers = account().try_reserve(BUFFERS);
            self.buffers = Some(buffers.map_err(Unread::NoRoom)?);
        }
        let room = self.room.get_or_insert_with(|| account().take(0));
        if room.bytes() >= length {
            return Ok(());
        }
        let grown = room.grow_within(wanted - room.bytes(), wait).await;
        grown.map_err(Unread::NoRoom)
    }
}

enum Unread {
    TooLarge,
    Broken,
    NoRoom(NoRoom),
}

/// Answers a caller that is refused. The body is read to its end, because a client that is still writing may not see an answer,
/// but nothing of it is kept.
pub(crate) async fn turn_away<B>(
    mut response: Response<Body>,
    body: &mut B,
    shared: &Shared,
) -> Response<Body>
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    if !skip(body, shared).await {
        close(&mut response);
    }
    response
}

/// Reads a body to its end and keeps nothing. `false`: the body is too long, or takes too long.
async fn skip<B>(body: &mut B, shared: &Shared) -> bool
where
    B: http_body::Body + Unpin,
    B::Data: Buf,
{
    let skipping = async {
        let mut left = shared.limits.body_bytes;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Buf::remaining);
            left = left.checked_sub(length)?;
        }
        Some(())
    };
    let skipped = timeout(shared.limits.body_wait, skipping).await;
    matches!(skipped, Ok(Some(())))
}

/// A message that was taken in.
enum Taken {
    Answered(Answer),
    /// A request that stands alone.
    Begun(Messages),
    /// A request of an older revision.
    Called(Called),
}

impl Taken {
    /// Returns the answer, as far as the first turn of the work brings it.
    fn turn(
        self,
        shared: &Arc<Shared>,
        caller: &Caller,
        accept: Accept,
        cx: &mut Context<'_>,
    ) -> Answer {
        match self {
            Self::Answered(answer) => answer,
            Self::Begun(messages) => first_turn(messages, accept, shared.limits.keep_alive, cx),
            Self::Called(called) => legacy::call(shared, called, caller, accept, cx),
        }
    }
}

/// Reads and starts a long message on another thread than the one that all callers share.
async fn take_long(
    shared: &Arc<Shared>,
    bytes: Bytes,
    caller: &Caller,
    accept: Accept,
) -> Result<Taken, Refusal> {
    let (reader, caller) = (Arc::clone(shared), caller.clone());
    let taking = shared
        .endpoint
        .read_long(move || take(&reader, &bytes, &caller, accept));
    let taken = taking.await;
    taken.unwrap_or_else(|error| Err((StatusCode::INTERNAL_SERVER_ERROR, error)))
}

/// Reads one message, or several, and starts their work.
fn take(
    shared: &Arc<Shared>,
    bytes: &Bytes,
    caller: &Caller,
    accept: Accept,
) -> Result<Taken, Refusal> {
    let answered = |answer: Answer| Ok(Taken::Answered(answer));
    let now = |status: StatusCode, message: Message| {
        Ok(Taken::Answered(Answer::Now(json(status, message))))
    };
    let (id, method, params) = match Incoming::parse(bytes) {
        Ok(Incoming::Request { id, method, params }) => (id, method, params),
        Ok(other) => return answered(Answer::Now(told(shared, &other, caller)?)),
        Err(rejected) => {
            if bytes.trim_ascii_start().starts_with(b"[") {
                let (shared, bytes, caller) = (Arc::clone(shared), bytes.clone(), caller.clone());
                let batch = legacy::batch(shared, bytes, caller, accept);
                return answered(Answer::Later(Box::pin(batch)));
            }
            let error = Message::error(rejected.id.as_ref(), &rejected.error);
            return now(StatusCode::BAD_REQUEST, error);
        }
    };
    if !params.meta.is_some_and(|meta| meta.is_modern()) {
        let message = Received {
            bytes,
            id: id.clone(),
            method: &method,
            params,
        };
        if is_handshake(&method, &params) {
            return answered(legacy::open(shared, message, caller));
        }
        match legacy::member(shared, caller) {
            Ok(None) => {}
            Ok(Some(member)) => {
                let begun = legacy::begin(shared, member, message, caller, accept);
                return Ok(match begun {
                    ControlFlow::Continue(called) => Taken::Called(called),
                    ControlFlow::Break(answer) => Taken::Answered(answer),
                });
            }
            Err((status, error)) => return now(status, Message::error(Some(&id), &error)),
        }
    }
    if method == method::request::LISTEN && !accept.events {
        let error = RpcError::invalid_request(format!(
            "`{method}` is answered with `text/event-stream` only"
        ));
        return now(
            StatusCode::NOT_ACCEPTABLE,
            Message::error(Some(&id), &error),
        );
    }
    match lmcp_core::admit(bytes, id.clone(), &method, params, caller.clone(), None) {
        Ok(request) => Ok(Taken::Begun(shared.endpoint.start(request))),
        Err(error) => now(status(error.code), Message::error(Some(&id), &error)),
    }
}

/// Handles a message that gets no answer. Only a session can use such a message.
fn told(
    shared: &Shared,
    message: &Incoming<'_>,
    caller: &Caller,
) -> Result<Response<Body>, Refusal> {
    let member = legacy::member(shared, caller)?;
    let answers = matches!(message, Incoming::Response { .. });
    match member {
        Some(member @ Member::Of(_)) => legacy::tell(shared, &member, message),
        _ if answers => {
            let error = RpcError::invalid_request("no request of this server waits for a response");
            return Err((StatusCode::BAD_REQUEST, error));
        }
        _ => {}
    }
    Ok(empty(StatusCode::ACCEPTED))
}

fn too_large(most: usize) -> Refusal {
    let error = RpcError::invalid_request(format!("a body has at most {most} bytes"))
        .with_data(json!({ "limit": "body_bytes", "value": most }));
    (StatusCode::PAYLOAD_TOO_LARGE, error)
}

fn broken() -> Refusal {
    let error = RpcError::parse("the body broke off");
    (StatusCode::BAD_REQUEST, error)
}

fn late(shared: &Shared) -> Refusal {
    let seconds = shared.limits.body_wait.as_secs();
    let error = RpcError::parse(format!("the body did not arrive within {seconds} s"));
    (StatusCode::REQUEST_TIMEOUT, error)
}

/// A body up to this size is not counted: there is only one for each connection.
const SMALL: usize = 4096;

/// The memory of a connection while it reads a body that is not small: the last piece, and room for the next.
const BUFFERS: usize = 32 << 10;

/// The memory that is reserved first for a body that is not small.
const FIRST: usize = 64 << 10;
