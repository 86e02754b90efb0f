//! Connections that go on in another protocol.

use std::sync::Arc;

use lmcp_http::{Deciding, HandOver, HandedOver, HeaderMap, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use crate::support::{Running, serve_as, server};

const ASKS: &str = "connection: upgrade\r\nupgrade: Echo\r\n";

/// A server that hands connections over at `/echo`, to whoever says `x-word: please`.
async fn echoing() -> (Running, mpsc::UnboundedReceiver<HandedOver>) {
    let (hand, handed) = mpsc::unbounded_channel();
    let hand = Arc::new(hand);
    let decide = move |headers: &HeaderMap| -> Deciding {
        let is_polite = headers.get("x-word").is_some_and(|word| word == "please");
        let hand = Arc::clone(&hand);
        Box::pin(async move {
            // The decision may take a while.
            tokio::task::yield_now().await;
            if !is_polite {
                return Err((StatusCode::UNAUTHORIZED, "say please".to_owned()));
            }
            let mut agreed = HandOver::to(move |stream| drop(hand.send(stream)));
            let heard = "heard".parse().expect("it is a header");
            agreed.headers.insert("x-word", heard);
            Ok(agreed)
        })
    };
    let running = serve_as(server(), |http| http.hand_over("/echo", "echo", decide)).await;
    (running, handed)
}

/// The head of the answer to a request, and the connection.
async fn asked(running: &Running, line: &str, headers: &str) -> (String, TcpStream) {
    let stream = TcpStream::connect(running.address).await;
    let mut stream = stream.expect("it listens");
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let written = stream.write_all(request.as_bytes()).await;
    written.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("it answers"));
    }
    (String::from_utf8(head).expect("it is text"), stream)
}

#[tokio::test]
async fn a_connection_is_handed_over_with_all_that_comes_after() {
    let (running, mut handed) = echoing().await;
    let headers = format!("{ASKS}x-word: please\r\n");
    let (head, mut client) = asked(&running, "GET /echo", &headers).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: echo\r\n"), "{head}");
    assert!(head.contains("x-word: heard\r\n"), "{head}");
    let mut server = handed.recv().await.unwrap();
    client.write_all(b"ping").await.unwrap();
    let mut said = [0; 4];
    server.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"ping");
    server.write_all(b"pong").await.unwrap();
    client.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"pong");
    // The program has the connection for as long as it wants it, and not the server.
    drop(server);
    assert_eq!(client.read(&mut said).await.unwrap(), 0);
}

#[tokio::test]
async fn who_is_refused_is_told_why_and_keeps_nothing() {
    let (running, mut handed) = echoing().await;
    for (line, headers, status) in [
        ("GET /echo", ASKS.to_owned(), 401),
        ("GET /echo", String::new(), 426),
        ("POST /echo", format!("{ASKS}content-length: 0\r\n"), 426),
        (
            "GET /echo",
            "connection: upgrade\r\nupgrade: h2c\r\n".to_owned(),
            426,
        ),
        (
            "GET /echo",
            format!("{ASKS}origin: https://evil.example\r\n"),
            403,
        ),
        ("GET /other", format!("{ASKS}x-word: please\r\n"), 404),
    ] {
        let (head, mut client) = asked(&running, line, &headers).await;
        let found = head.split(' ').nth(1).unwrap();
        assert_eq!(found, status.to_string(), "{line} {headers}");
        if matches!(status, 401 | 426) {
            let mut rest = String::new();
            client.read_to_string(&mut rest).await.unwrap();
            assert!(head.contains("connection: close"), "{head}");
        }
    }
    assert!(handed.try_recv().is_err());
}
