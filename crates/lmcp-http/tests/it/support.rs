//! What the tests share: a server on a free port, and a client that writes its HTTP by hand.

use std::net::SocketAddr;

use lmcp_core::{Budget, Cx, Endpoint, Error, NoArgs, Server, Tool};
use lmcp_http::Http;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use lmcp_testkit::Serving;
pub(crate) use lmcp_testkit::{Watcher, hanging, hanging_after, limits, soon};

/// A server with a tool that answers at once.
pub(crate) fn server() -> Server {
    let quick = Tool::new("quick", |_: NoArgs, _: Cx| async { "quick" });
    Server::new("test", "1.0.0").tool(quick.read_only())
}

/// A server on a port of its own, and how to stop it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// The memory that its callers share.
    pub(crate) budget: Budget,
    serving: Serving,
}

pub(crate) async fn serve(server: Server) -> Running {
    serve_as(server, |http| http).await
}

pub(crate) async fn serve_as(server: Server, change: impl FnOnce(Http) -> Http) -> Running {
    let server = server.start().expect("it is right");
    serve_endpoint(server.endpoint(), change).await
}

pub(crate) async fn serve_endpoint(server: Endpoint, change: impl FnOnce(Http) -> Http) -> Running {
    let http = lmcp_http::bind("127.0.0.1:0").await;
    let http = http.expect("a port is free");
    Running {
        address: http.address(),
        budget: server.budget().clone(),
        serving: Serving::until(|stop| {
            let http = change(http.until(stop));
            async move { server.serve(http).await }
        }),
    }
}

impl Running {
    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, post: &Post) -> Answer {
        self.connect().await.ask(post).await
    }

    /// Asks it to stop.
    pub(crate) fn stop(&mut self) {
        self.serving.stop();
    }

    /// Waits until it has stopped.
    pub(crate) async fn ended(&mut self) -> Result<(), Error> {
        self.serving.ended().await
    }
}

/// One HTTP request, right unless it is made wrong.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    verb: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A call of a tool without arguments.
pub(crate) fn call(tool: &str) -> Post {
    request("tools/call", json!({ "name": tool })).with("mcp-name", tool)
}

/// A request of 2026-07-28.
pub(crate) fn request(method: &str, mut params: Value) -> Post {
    params["_meta"] = json!({ "progressToken": 1 });
    let message = lmcp_testkit::request(1, method, params);
    body(&message.to_string())
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", method)
}

/// Any body.
pub(crate) fn body(text: &str) -> Post {
    let post = Post {
        verb: "POST",
        path: "/mcp".into(),
        headers: Vec::new(),
        body: text.to_owned(),
    };
    post.with("content-type", "application/json")
        .with("accept", "application/json, text/event-stream")
        .with("content-length", &text.len().to_string())
}

impl Post {
    pub(crate) fn verb(mut self, verb: &'static str) -> Self {
        self.verb = verb;
        self
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        let mut post = self.without(name);
        post.headers.push((name.to_owned(), value.to_owned()));
        post
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// Everything up to the body.
    pub(crate) fn head(&self, address: SocketAddr) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.verb, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head += &format!("host: {address}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }
}

/// One connection of a client.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: String,
}

/// The status and the header fields of an answer, in lower case.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = soon(TcpStream::connect(address)).await;
        Self {
            address,
            stream: BufReader::new(stream.expect("the server listens")),
        }
    }

    pub(crate) async fn ask(&mut self, post: &Post) -> Answer {
        self.send(post).await;
        let head = self.head().await;
        let body = if post.verb == "HEAD" {
            String::new()
        } else {
            self.body(&head).await
        };
        Answer { head, body }
    }

    pub(crate) async fn send(&mut self, post: &Post) {
        let text = post.head(self.address) + &post.body;
        self.write(text.as_bytes()).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let written = self.stream.write_all(bytes).await;
        written.expect("the server reads");
    }

    pub(crate) async fn head(&mut self) -> Head {
        let status = self.line().await;
        let status = status.split(' ').nth(1).and_then(|word| word.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        Head {
            status: status.expect("an answer begins with a status"),
            headers,
        }
    }

    /// The rest of an answer, however long it takes.
    pub(crate) async fn body(&mut self, head: &Head) -> String {
        let mut bytes = Vec::new();
        if let Some(length) = head.get("content-length") {
            bytes.resize(length.parse().expect("a length is a number"), 0);
            let read = soon(self.stream.read_exact(&mut bytes)).await;
            read.expect("the body is as long as it says");
        } else if head.get("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                bytes.extend(chunk);
            }
        }
        String::from_utf8(bytes).expect("a body is text")
    }

    /// The next event or comment of a stream; `None` at its end.
    pub(crate) async fn event(&mut self) -> Option<String> {
        let mut event = String::new();
        while !event.ends_with("\n\n") {
            let chunk = self.chunk().await?;
            event += std::str::from_utf8(&chunk).expect("an event is text");
        }
        Some(event.trim_end().to_owned())
    }

    /// The message in the next event.
    pub(crate) async fn message(&mut self) -> Value {
        let event = self.event().await.expect("the stream goes on");
        let data = event.strip_prefix("data: ").expect("an event has data");
        serde_json::from_str(data).expect("data is JSON")
    }

    /// Waits until the server hangs up; what it still says is returned.
    pub(crate) async fn closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A server that hangs up on unread bytes resets the connection.
        let _ = soon(self.stream.read_to_end(&mut rest)).await;
        rest
    }

    /// Waits until there is something to read.
    pub(crate) async fn readable(&mut self) {
        let read = soon(self.stream.fill_buf()).await;
        read.expect("the connection is open");
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line().await;
        let size = usize::from_str_radix(&size, 16).expect("a chunk has a size");
        let mut chunk = vec![0; size + 2];
        let read = soon(self.stream.read_exact(&mut chunk)).await;
        read.expect("a chunk is as long as it says");
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = soon(self.stream.read_line(&mut line)).await;
        read.expect("a line is text");
        line.trim_end().to_owned()
    }
}

impl Head {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter().filter(|(known, _)| known == name);
        fields.next().map(|(_, value)| value.as_str())
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}
