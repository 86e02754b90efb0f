//! The stream of one subscription, which sends the pending changes of its listener.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use lmcp_wire::method::notification;
use serde_json::json;

use super::{Listener, is_folder, is_result};
use crate::{
    budget::Reservation,
    caller::Caller,
    outcome::{Outcome, Payload},
    reply::Reply,
    request::Request,
    server::{Engine, catalog::ChangedFor},
    service::{Replies, Source},
};

/// An open subscription.
pub(super) struct Listening {
    engine: Arc<Engine>,
    listener: Arc<Listener>,
    /// The number of this stream of the listener.
    stream: u64,
    _place: Reservation,
    /// The request with its caller in the present role. Its message has been dropped.
    request: Request,
    /// The caller when the subscription began.
    origin: Caller,
    /// A changed resource below a watched one, while lmcp checks whether the caller may read it.
    checking: Option<(String, Replies)>,
    stage: Stage,
}

/// A change to announce.
enum News {
    Reply(Reply),
    /// A list has changed: for everybody, or only in items that not everybody sees.
    List(List, ChangedFor),
    /// A resource that the caller may not be allowed to read.
    Unsure(String),
}

#[derive(Clone, Copy)]
enum List {
    Tools,
    Prompts,
    Resources,
}

#[derive(Clone, Copy)]
enum Stage {
    Opening,
    Open,
    Closed,
}

impl Listening {
    pub(super) fn new(
        engine: &Arc<Engine>,
        listener: Arc<Listener>,
        place: Reservation,
        mut request: Request,
    ) -> Self {
        request.forget_message();
        Self {
            origin: request.caller().clone(),
            engine: Arc::clone(engine),
            listener,
            stream: 0,
            _place: place,
            request,
            checking: None,
            stage: Stage::Opening,
        }
    }

    /// Does the same for a session, as this stream of its listener. The client did not ask for the stream, so it begins without
    /// an acknowledgement.
    pub(super) fn of_session(mut self, stream: u64) -> Self {
        self.stream = stream;
        self.stage = Stage::Open;
        self
    }

    /// Takes one change that the listener has not been told.
    fn news(&mut self, cx: &mut Context<'_>) -> Option<Reply> {
        self.request.caller = self.origin.now();
        loop {
            if let Some(uri) = self.poll_check(cx) {
                return Some(updated(&uri));
            }
            match self.pending(cx) {
                Some(News::Reply(reply)) => return Some(reply),
                Some(News::List(list, change)) => {
                    if self.sees_others(list) || change == ChangedFor::All {
                        return Some(Reply::notify(list.notification(), &json!({})));
                    }
                }
                Some(News::Unsure(uri)) => {
                    let check = self.engine.try_read(&uri, &self.request);
                    self.checking = Some((uri, check));
                }
                None => return None,
            }
        }
    }

    /// Whether the caller now sees other items in this list than when it was last told, of those that not everybody sees. The
    /// program's own rule may run here, so nothing is locked meanwhile.
    fn sees_others(&self, list: List) -> bool {
        let views = self.engine.views(&self.request);
        let mut pending = self.listener.lock();
        let (known, view) = match list {
            List::Tools => (&mut pending.views.tools, views.tools),
            List::Prompts => (&mut pending.views.prompts, views.prompts),
            List::Resources => (&mut pending.views.resources, views.resources),
        };
        std::mem::replace(known, view) != view
    }

    /// Returns the changed resource that was checked, if the caller may read it.
    fn poll_check(&mut self, cx: &mut Context<'_>) -> Option<String> {
        loop {
            let (_, check) = self.checking.as_mut()?;
            let end = match check.poll_next(cx) {
                Poll::Pending => return None,
                Poll::Ready(Some(Reply::Done(result))) => Some(result),
                Poll::Ready(Some(_)) => continue,
                Poll::Ready(None) => None,
            };
            let (uri, _) = self.checking.take()?;
            return is_result(&end).then_some(uri);
        }
    }

    /// Takes one pending change.
    fn pending(&self, cx: &Context<'_>) -> Option<News> {
        let pending = &mut *self.listener.lock();
        if pending.streams != self.stream {
            return None;
        }
        let lists = [
            (&mut pending.lists.tools, List::Tools),
            (&mut pending.lists.prompts, List::Prompts),
            (&mut pending.lists.resources, List::Resources),
        ];
        for (changed, list) in lists {
            let change = std::mem::take(changed);
            if change.is_any() {
                return Some(News::List(list, change));
            }
        }
        if let Some((method, params)) = pending.notices.pop_front() {
            return Some(News::Reply(Reply::notify(method, &params)));
        }
        // Only one resource is checked at a time.
        if self.checking.is_none()
            && let Some(uri) = pending.updated.pop_first()
        {
            return Some(if self.may_tell(&uri) {
                News::Reply(updated(&uri))
            } else {
                News::Unsure(uri)
            });
        }
        while let Some(id) = pending.tasks.pop_first() {
            if let Ok(task) = self.engine.tasks.get(&id, &self.request.caller().owner()) {
                return Some(News::Reply(Reply::notify(notification::TASKS, &task)));
            }
        }
        pending.waker = Some(cx.waker().clone());
        None
    }

    /// Whether lmcp knows without a check that the caller may hear of this resource. The caller could read the resources that
    /// it watches. A resource below a watched one may belong to another caller; a URI without a resource has nothing to hide.
    fn may_tell(&self, uri: &str) -> bool {
        // In another role, the caller may not be allowed to read what it could read when it began to watch.
        if self.request.caller().role() != self.origin.role() {
            return false;
        }
        let filter = self.listener.filter();
        let watched = filter.resource_subscriptions.iter().flatten();
        let mut read = watched.filter(|watched| !is_folder(watched));
        let is_resource = || self.engine.catalog().find_resource(uri).is_some();
        read.clone().any(|watched| watched == uri)
            || read.any(|watched| lmcp_wire::resource::covers(watched, uri)) && !is_resource()
    }

    /// Whether the server has closed, or another stream has taken over.
    fn is_over(&self) -> bool {
        let pending = self.listener.lock();
        pending.closed || pending.streams != self.stream
    }

    fn end(&self) -> Reply {
        let info = Arc::clone(&self.engine.server_info);
        Reply::Done(Ok(Outcome::new(Payload::Acknowledged).from_server(info)))
    }
}

fn updated(uri: &str) -> Reply {
    Reply::notify(notification::RESOURCE_UPDATED, &json!({ "uri": uri }))
}

impl List {
    fn notification(self) -> &'static str {
        match self {
            Self::Tools => notification::TOOLS_CHANGED,
            Self::Prompts => notification::PROMPTS_CHANGED,
            Self::Resources => notification::RESOURCES_CHANGED,
        }
    }
}

impl Source for Listening {
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        match self.stage {
            Stage::Opening => {
                self.stage = Stage::Open;
                let notifications = json!({ "notifications": *self.listener.filter() });
                Poll::Ready(Some(Reply::notify(
                    notification::LISTEN_ACKNOWLEDGED,
                    &notifications,
                )))
            }
            Stage::Open => match self.news(cx) {
                Some(reply) => Poll::Ready(Some(reply)),
                None if !self.is_over() => Poll::Pending,
                None => {
                    self.stage = Stage::Closed;
                    Poll::Ready(Some(self.end()))
                }
            },
            Stage::Closed => Poll::Ready(None),
        }
    }
}
