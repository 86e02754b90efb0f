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

use std::collections::{HashSet, VecDeque};

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
    transcript::{Era, Form, HeaderEdit, HttpPart},
};

/// Many connections to one server.
pub(crate) struct Http {
    address: std::net::SocketAddr,
    mirrors: Mirrors,
    era: Era,
    agreed: Agreed,
    /// Connections whose last answer was read to its end: the next request takes one of these.
    idle: Vec<Connection>,
    posts: Vec<Post>,
    events: mpsc::Receiver<Event>,
    events_to: mpsc::Sender<Event>,
    came: VecDeque<Value>,
    /// Of all events: one of a session never has the name of another.
    names: HashSet<String>,
    reading: JoinSet<()>,
    _server: JoinSet<Result<(), lmcp::Error>>,
}

/// What handshakes came to.
#[derive(Default)]
pub(crate) struct Agreed {
    pub(crate) sessions: Vec<String>,
    /// Of the last one.
    pub(crate) version: Option<String>,
}

/// How a request was sent, and so what its answer looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Modern,
    Legacy {
        primes: bool,
        batch: bool,
    },
    /// The GET stream of a session.
    Standing {
        primes: bool,
    },
}

impl Way {
    /// May a stream begin with an event that has only a name?
    pub(crate) fn primes(self) -> bool {
        match self {
            Self::Modern => false,
            Self::Legacy { primes, .. } | Self::Standing { primes } => primes,
        }
    }
}

/// One request, by its place in `Http::posts`.
struct Post {
    id: Option<Value>,
    way: Way,
    /// A request with an id that no response has come for.
    unanswered: bool,
    opened: bool,
    ended: bool,
    stop: AbortHandle,
}

enum Event {
    /// The head of the answer says which session this is.
    Session(String),
    /// The head of a stream has come.
    Opened(usize),
    /// The name of an event, by which a client could come back.
    Named(String),
    Message(usize, Value),
    /// Without a message, where the transcript says so.
    Silent(usize),
    Ended(usize, Option<Connection>),
    Failed(String),
}

impl Http {
    pub(crate) async fn open(era: Era) -> Result<Self, String> {
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
            era,
            agreed: Agreed::default(),
            idle: Vec::new(),
            posts: Vec::new(),
            events,
            events_to,
            came: VecDeque::new(),
            names: HashSet::new(),
            reading: JoinSet::new(),
            _server: task,
        })
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn sessions(&self) -> &[String] {
        &self.agreed.sessions
    }

    /// What the old server still had to say is lost with it.
    pub(crate) async fn restart(&mut self) -> Result<(), String> {
        let fresh = Self::open(self.era).await?;
        let agreed = std::mem::take(&mut self.agreed);
        *self = Self { agreed, ..fresh };
        Ok(())
    }

    pub(crate) async fn send(&mut self, outgoing: &Outgoing, part: HttpPart) -> Result<(), String> {
        let message = outgoing.message.as_ref();
        let member = |name: &str| message.and_then(|message| message.get(name));
        if outgoing.form == Form::Message
            && member("method").is_some_and(|method| method == "notifications/cancelled")
        {
            let id = message.and_then(|message| message.pointer("/params/requestId"));
            if !self.cancel(id) {
                return Ok(());
            }
        }
        let id = member("id").filter(|_| member("method").is_some()).cloned();
        let way = self.way(message);
        self.request(way, id, message, &outgoing.bytes, part).await
    }

    /// Opens the GET stream of the session. From its head on the server knows of it.
    pub(crate) async fn listen(&mut self, part: &HttpPart) -> Result<(), String> {
        let mut part = part.clone();
        part.verb.get_or_insert_with(|| "GET".into());
        part.headers.insert(
            0,
            HeaderEdit::Set("Accept".into(), "text/event-stream".into()),
        );
        let way = Way::Standing {
            primes: self.primes(),
        };
        self.request(way, None, None, b"", part).await?;
        let post = self.posts.len() - 1;
        while !self.posts[post].opened {
            if self.posts[post].ended {
                return Err("the GET stream is no stream".into());
            }
            self.take_event().await?;
        }
        Ok(())
    }

    async fn request(
        &mut self,
        way: Way,
        id: Option<Value>,
        message: Option<&Value>,
        body: &[u8],
        part: HttpPart,
    ) -> Result<(), String> {
        let mut connection = match self.idle.pop() {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let agreed = Some(&self.agreed).filter(|_| way != Way::Modern);
        let headers = headers::of(message, &self.mirrors, &part, &self.host(), agreed);
        connection.send(&part, &headers, body).await?;
        let (post, events) = (self.posts.len(), self.events_to.clone());
        let stop = self.reading.spawn(async move {
            let event = match answer::read(post, connection, &part, way, &events).await {
                Ok(connection) => Event::Ended(post, connection),
                Err(err) => Event::Failed(err),
            };
            // Nobody to tell: the transcript is over.
            let _ = events.send(event).await;
        });
        self.posts.push(Post {
            unanswered: id.is_some(),
            id,
            way,
            opened: false,
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
            .any(|post| !post.ended && !post.unanswered && !post.stands())
        {
            self.take_event().await?;
        }
        Ok(std::mem::take(&mut self.came).into())
    }

    async fn take_event(&mut self) -> Result<(), String> {
        match self.events.recv().await.ok_or("the sender is ours")? {
            Event::Session(id) => self.agreed.sessions.push(id),
            Event::Named(name) => {
                if let Some(name) = self.names.replace(name) {
                    return Err(format!("two events are named `{name}`"));
                }
            }
            Event::Opened(post) => self.posts[post].opened = true,
            // From a connection that was closed meanwhile: a client would not have read it.
            Event::Message(post, _) if self.posts[post].ended => {}
            Event::Message(post, message) => {
                let response = message.get("method").is_none();
                self.posts[post].unanswered &= !response;
                if let Some(version) = message.pointer("/result/protocolVersion") {
                    self.agreed.version = version.as_str().map(Into::into);
                }
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

    /// A client cancels by closing the connection. `true`: an older one says so, and the answer ends without a response.
    fn cancel(&mut self, id: Option<&Value>) -> bool {
        let open = |post: &&mut Post| post.unanswered && post.id.as_ref() == id;
        let Some(post) = self.posts.iter_mut().rev().find(open) else {
            return self.era == Era::Legacy;
        };
        post.unanswered = false;
        if post.way != Way::Modern {
            return true;
        }
        post.stop.abort();
        post.ended = true;
        false
    }

    /// A message is of an older revision if the client is, and the message does not say otherwise.
    fn way(&self, message: Option<&Value>) -> Way {
        let meta = message.and_then(|message| message.pointer("/params/_meta")?.as_object());
        let modern = |key: &String| key.starts_with("io.modelcontextprotocol/");
        if self.era == Era::Modern || meta.is_some_and(|meta| meta.keys().any(modern)) {
            return Way::Modern;
        }
        Way::Legacy {
            primes: self.primes(),
            batch: message.is_some_and(Value::is_array),
        }
    }

    /// Only 2025-11-25 has events without a message.
    fn primes(&self) -> bool {
        self.agreed.version.as_deref() == Some("2025-11-25")
    }
}

impl Post {
    fn stands(&self) -> bool {
        matches!(self.way, Way::Standing { .. })
    }
}
