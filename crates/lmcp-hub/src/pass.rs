//! Passes a request through a server and the replies back, within the time of the server, and with the names that clients
//! know.

use std::{
    mem::take,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use lmcp_core::{Deadline, Replies, Reply, Request, service::Source, session::Session};
use lmcp_upstream::AtStart;
use lmcp_wire::{RequestId, RpcError};
use serde_json::json;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};

use crate::{
    config::Isolate,
    member::{Lease, Member, Purpose},
    rewrite,
    room::Room,
    start::Start,
};

/// Has a server answer a request.
pub(crate) fn pass(member: &Arc<Member>, mut request: Request) -> Replies {
    let lease = match member.lease(Purpose::Call) {
        Ok(lease) => lease,
        Err(error) => return Replies::error(error),
    };
    if let Some(start) = request.extension::<Start>().copied() {
        if start.generation != lease.live.start().generation {
            return Replies::error(member.gone());
        }
        // Copies of a server for single callers count their starts separately.
        if member.config().isolate == Isolate::None {
            request.extend(AtStart::new(start.times_opened));
        }
    }
    if member.is_current(&lease.live) {
        return Replies::from_source(Passing::new(lease, request));
    }
    Replies::later(async move {
        match lease.member.open(&lease.live).await {
            Ok(()) => Replies::from_source(Passing::new(lease, request)),
            Err(error) => Replies::error(error),
        }
    })
}

struct Passing {
    replies: Replies,
    /// Starts again with each message of the server, and after each question: the time that people take does not count.
    patience: Deadline,
    /// The client was asked something, and had not answered at the last look.
    is_thinking: bool,
    /// The session in which questions are asked, and the request that they belong to.
    asked_in: Option<(Session, RequestId)>,
    began: Instant,
    /// The memory for the answer.
    room: Room,
    /// The task that leads back the URIs of a long answer, which counts as memory until the answer is taken.
    leading_back: Option<JoinHandle<(Reply, Room)>>,
    is_over: bool,
    lease: Lease,
}

impl Passing {
    fn new(lease: Lease, request: Request) -> Self {
        let session = request.session().cloned();
        Self {
            asked_in: session.map(|session| (session, request.id().clone())),
            is_thinking: false,
            room: Room::of(&request),
            replies: lease.live.service.call(request),
            patience: lease.member.patience(),
            began: Instant::now(),
            leading_back: None,
            is_over: false,
            lease,
        }
    }

    /// Takes a reply. The reply is ready at once, unless it is a long answer.
    fn poll_on(&mut self, reply: Reply, cx: &mut Context<'_>) -> Poll<Reply> {
        let member = &self.lease.member;
        let reply = match reply {
            Reply::Done(result) => {
                self.is_over = true;
                let time = self.began.elapsed();
                member.ended(&self.lease.live, time, result.as_ref().err());
                Reply::Done(result.map_err(|error| member.told(error)))
            }
            reply => {
                self.is_thinking |= matches!(reply, Reply::Ask(_));
                self.patience = member.patience();
                reply
            }
        };
        // Only the answer needs room. It is freed with the answer: then the code that writes the answer counts it.
        let mut room = match self.is_over {
            true => take(&mut self.room),
            false => Room::default(),
        };
        if let Some(bytes) = rewrite::long(&reply) {
            let member = Arc::clone(member);
            room.hold(bytes);
            let work = spawn_blocking(move || {
                let reply = rewrite::back(reply, &member.slug, &mut room);
                (reply, room)
            });
            return self.poll_led_back(work, cx);
        }
        Poll::Ready(rewrite::back(reply, &member.slug, &mut room))
    }

    fn poll_led_back(
        &mut self,
        mut work: JoinHandle<(Reply, Room)>,
        cx: &mut Context<'_>,
    ) -> Poll<Reply> {
        match Pin::new(&mut work).poll(cx) {
            Poll::Pending => {
                self.leading_back = Some(work);
                Poll::Pending
            }
            Poll::Ready(Ok((reply, _))) => Poll::Ready(reply),
            // The task can only fail while the process ends.
            Poll::Ready(Err(_)) => Poll::Ready(Reply::Done(Err(self.lease.member.gone()))),
        }
    }

    /// Ready when the server was silent for too long while no question was waiting for the client.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_thinking && !self.is_asked() {
                self.is_thinking = false;
                self.patience = self.lease.member.patience();
            }
            ready!(Pin::new(&mut self.patience).poll(cx));
            if !self.is_thinking {
                return Poll::Ready(());
            }
            self.patience = self.lease.member.patience();
        }
    }

    /// Returns whether a question of this request waits for the client's answer.
    fn is_asked(&self) -> bool {
        let asked_in = self.asked_in.as_ref();
        asked_in.is_some_and(|(session, request)| session.is_asked(request))
    }

    fn late(&self) -> RpcError {
        let member = &self.lease.member;
        let (name, most) = (&member.name, member.config().timeout.as_secs_f32());
        // Nobody knows how far the call got, so a second call may do harm.
        RpcError::internal(format!("server `{name}` said nothing for {most} s"))
            .with_data(json!({ "retriable": false, "server": &**name, "timeout": most }))
    }
}

impl Source for Passing {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        if let Some(work) = self.leading_back.take() {
            return self.poll_led_back(work, cx).map(Some);
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(reply) = self.replies.poll_next(cx) {
            return match reply {
                Some(reply) => self.poll_on(reply, cx).map(Some),
                None => Poll::Ready(None),
            };
        }
        match self.poll_patience(cx) {
            Poll::Ready(()) => {
                let late = self.late();
                // Dropping the replies cancels the call.
                self.replies = Replies::error(late.clone());
                self.lease.member.doubted.notify_one();
                self.poll_on(Reply::Done(Err(late)), cx).map(Some)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.replies.poll_deadline(cx)
    }
}
