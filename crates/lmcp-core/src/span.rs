//! One `tracing` span for every request: its method, its target, who calls, and how it ended.

use std::task::{Context, Poll};

use tracing::{Span, field};

use crate::{
    ended::Ended,
    logged::{Failed, Known},
    reply::Reply,
    request::Request,
    service::{Replies, Service, Source},
};

/// Calls a service within the span of the request. Without a subscriber for `DEBUG` spans it only calls the service.
pub(crate) fn call(service: &dyn Service, request: Request) -> Replies {
    if !tracing::span_enabled!(tracing::Level::DEBUG) {
        return service.call(request);
    }
    let target = request.target().unwrap_or_default();
    let span = tracing::debug_span!(
        "request",
        id = %request.id(),
        method = request.method(),
        target = &*target,
        caller = %Known(request.caller()),
        outcome = field::Empty,
    );
    drop(target);
    let told = span.clone();
    let replies = span
        .in_scope(|| service.call(request))
        .on_end(move |ended| {
            let _ = match ended {
                Ended::Done(outcome) => told.record("outcome", field::display(outcome)),
                Ended::Failed(error) => told.record("outcome", field::display(Failed(error))),
                Ended::Dropped => told.record("outcome", "cancelled"),
            };
        });
    Replies::from_source(Spanned { replies, span })
}

/// Replies whose work is done within a span.
struct Spanned {
    replies: Replies,
    span: Span,
}

impl Source for Spanned {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let _entered = self.span.enter();
        self.replies.poll_next(cx)
    }

    fn is_harmless(&self) -> bool {
        self.replies.is_harmless()
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _entered = self.span.enter();
        self.replies.poll_deadline(cx)
    }
}
