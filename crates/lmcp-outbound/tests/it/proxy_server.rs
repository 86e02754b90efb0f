//! A proxy on loopback that leads every host to one server, as good or as bad as a test wants it. The tests of other crates
//! use it too.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use base64::Engine as _;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Leads everybody to a server.
    pub(crate) fn to(server: SocketAddr) -> Self {
        Self::answering(move |_| Answer::Lead(server))
    }

    /// Leads those to a server who say this name and password: `name:password`.
    pub(crate) fn for_members(server: SocketAddr, credentials: &str) -> Self {
        let coded = base64::engine::general_purpose::STANDARD.encode(credentials);
        let wanted = format!("proxy-authorization: Basic {coded}\r\n").to_ascii_lowercase();
        Self::answering(move |head| {
            if head.to_ascii_lowercase().contains(&wanted) {
                return Answer::Lead(server);
            }
            Answer::Say(
                "HTTP/1.1 407 Who?\r\nContent-Length: 0\r\nProxy-Authenticate: Basic\r\n\r\n",
            )
        })
    }

    /// Does what a function says of the head of each request.
    pub(crate) fn answering(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { address, asked }
    }

    /// The heads of the requests that came.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// What a proxy does with a request.
pub(crate) enum Answer {
    Lead(SocketAddr),
    Say(&'static str),
}

fn serve(mut client: TcpStream, log: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Answer) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    log.lock().unwrap().push(head.clone());
    let server = match answer(&head) {
        Answer::Lead(server) => server,
        Answer::Say(words) => {
            let _ = client.write_all(words.as_bytes());
            return;
        }
    };
    let mut server = TcpStream::connect(server).unwrap();
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Go\r\n\r\n").unwrap();
    } else {
        // `GET http://host/path` becomes `GET /path`, and the server does not learn who asked.
        let (line, rest) = head.split_once("\r\n").unwrap();
        let (verb, target) = line.split_once(" http://").unwrap();
        let path = &target[target.find('/').unwrap()..];
        let rest = rest.split_inclusive("\r\n");
        let rest: String = rest.filter(|line| !line.starts_with("proxy-")).collect();
        let head = format!("{verb} {path}\r\n{rest}");
        server.write_all(head.as_bytes()).unwrap();
    }
    let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || pass_on(back.0, back.1));
    pass_on(reader, server);
}

fn pass_on(mut from: impl Read, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
