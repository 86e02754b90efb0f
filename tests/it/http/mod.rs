//! A client of Streamable HTTP, no larger than the transcripts need.
//!
//! | file | what happens there |
//! |---|---|
//! | `headers` | which headers a correct client sends with a message |
//! | `connection` | HTTP/1.1: one request out, one answer in |
//! | `answer` | an answer as messages, with everything the specification says about it checked |

mod answer;
mod connection;
mod headers;

use std::collections::VecDeque;

use connection::Connection;
use headers::Mirrors;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use crate::{
    expand::Outgoing,
    link::server,
    transcript::{Form, HttpPart},
};

/// Many connections to one server.
pub(crate) struct Http {
    address: std::net::SocketAddr,
    mirrors: Mirrors,
    /// Connections whose last answer was read to its end: the next request takes one of these.
    idle: Vec<Connection>,
    posts: Vec<Post>,
    events: mpsc::Receiver<Event>,
    events_to: mpsc::Sender<Event>,
    came: VecDeque<Value>,
    reading: JoinSet<()>,
    _server: JoinSet<Result<(), lmcp::Error>>,
}

/// One request, by its place in `Http::posts`.
struct Post {
    id: Option<Value>,
    /// A request with an id that no response has come for.
    unanswered: bool,
    ended: bool,
    stop: AbortHandle,
}

enum Event {
    Message(usize, Value),
    /// Without a message, where the transcript says so.
    Silent(usize),
    Ended(usize, Option<Connection>),
    Failed(String),
}

impl Http {
    pub(crate) async fn open() -> Result<Self, String> {
        let server = server::start()?;
        let mirrors = Mirrors::ask(&server).await?;
        let transport = lmcp::http::bind("127.0.0.1:0")
            .await
            .map_err(|err| err.to_string())?;
        let address = transport.address();
        let mut task = JoinSet::new();
        task.spawn(async move { server.serve(transport).await });
        let (events_to, events) = mpsc::channel(64);
        Ok(Self {
            address,
            mirrors,
            idle: Vec::new(),
            posts: Vec::new(),
            events,
            events_to,
            came: VecDeque::new(),
            reading: JoinSet::new(),
            _server: task,
        })
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) async fn send(&mut self, outgoing: &Outgoing, part: HttpPart) -> Result<(), String> {
        let message = outgoing.message.as_ref();
        let member = |name: &str| message.and_then(|message| message.get(name));
        if outgoing.form == Form::Message
            && member("method").is_some_and(|method| method == "notifications/cancelled")
        {
            self.cancel(message.and_then(|message| message.pointer("/params/requestId")));
            return Ok(());
        }
        let mut connection = match self.idle.pop() {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let headers = headers::of(message, &self.mirrors, &part, &self.host());
        connection.send(&part, &headers, &outgoing.bytes).await?;
        let (post, events) = (self.posts.len(), self.events_to.clone());
        let stop = self.reading.spawn(async move {
            let event = match answer::read(post, connection, &part, &events).await {
                Ok(connection) => Event::Ended(post, connection),
                Err(err) => Event::Failed(err),
            };
            // Nobody to tell: the transcript is over.
            let _ = events.send(event).await;
        });
        let id = member("id").filter(|_| member("method").is_some()).cloned();
        self.posts.push(Post {
            unanswered: id.is_some(),
            id,
            ended: false,
            stop,
        });
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Value, String> {
        loop {
            if let Some(message) = self.came.pop_front() {
                return Ok(message);
            }
            self.take_event().await?;
        }
    }

    /// Every answer that must end has ended; those that may go on are the ones still without a response.
    pub(crate) async fn settle(&mut self) -> Result<Vec<Value>, String> {
        while self
            .posts
            .iter()
            .any(|post| !post.ended && !post.unanswered)
        {
            self.take_event().await?;
        }
        Ok(std::mem::take(&mut self.came).into())
    }

    async fn take_event(&mut self) -> Result<(), String> {
        match self.events.recv().await.ok_or("the sender is ours")? {
            // From a connection that was closed meanwhile: a client would not have read it.
            Event::Message(post, _) if self.posts[post].ended => {}
            Event::Message(post, message) => {
                let response = message.get("method").is_none();
                self.posts[post].unanswered &= !response;
                self.came.push_back(message);
            }
            Event::Silent(post) => self.posts[post].unanswered = false,
            Event::Ended(post, connection) => {
                self.idle.extend(connection);
                let post = &mut self.posts[post];
                post.ended = true;
                if post.unanswered {
                    let id = post.id.clone().unwrap_or_default();
                    return Err(format!("the answer to {id} ended without a response"));
                }
            }
            Event::Failed(err) => return Err(err),
        }
        Ok(())
    }

    /// A client cancels by closing the connection.
    fn cancel(&mut self, id: Option<&Value>) {
        let open = |post: &&mut Post| post.unanswered && post.id.as_ref() == id;
        if let Some(post) = self.posts.iter_mut().rev().find(open) {
            post.stop.abort();
            post.unanswered = false;
            post.ended = true;
        }
    }
}
