//! Clients and servers that do not read: nothing piles up in the proxy, nothing is lost, and the order stays.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, ErrorKind, Write},
    os::{fd::AsFd, unix::net::UnixListener},
    process::Child,
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
};
use serde_json::{Value, json};

use super::{Client, Place, Server, call, modern, serve};

const LINES: u64 = 800;
const LINE_BYTES: usize = 64 << 10;

/// Returns one of the numbered lines, which have 50 MB together.
fn line(number: u64) -> Vec<u8> {
    let params = json!({ "number": number, "text": "x".repeat(LINE_BYTES) });
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": params });
    format!("{line}\n").into_bytes()
}

/// Writes all lines. First writes as much as possible while nobody reads, and passes that number of bytes to `stuck`.
fn write_all(mut to: impl Write + AsFd, stuck: impl FnOnce(usize)) {
    fcntl_setfl(&to, OFlags::NONBLOCK).expect("it is ours");
    let (mut written, mut stuck) = (0, Some(stuck));
    for number in 0..LINES {
        let line = line(number);
        let mut rest = &line[..];
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(part) => (written, rest) = (written + part, &rest[part..]),
                Err(err) if err.kind() == ErrorKind::WouldBlock => {
                    let soon = Timespec {
                        tv_sec: 0,
                        tv_nsec: 300_000_000,
                    };
                    let mut watched = [PollFd::new(&to, PollFlags::OUT)];
                    if poll(&mut watched, Some(&soon)) == Ok(0)
                        && let Some(stuck) = stuck.take()
                    {
                        stuck(written);
                    }
                }
                Err(err) => panic!("{err}"),
            }
        }
    }
    assert!(stuck.is_none(), "50 MB went where nobody read");
}

fn expect_all(mut from: impl io::BufRead) {
    for number in 0..LINES {
        let mut line = String::new();
        from.read_line(&mut line).expect("there is more");
        let message: Value = serde_json::from_str(&line).expect("lines are whole");
        assert_eq!(message["params"]["number"], number);
    }
}

/// Returns the most memory that the process ever had, in kB.
fn peak(process: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.expect("Linux says it")
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("it is a number")
}

// Defect P5.
#[test]
fn a_server_that_does_not_read_holds_the_client_and_not_its_lines_in_memory() {
    let place = Place::new("full-s");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    server.receive();
    let before = peak(&client.process.0);
    let input = client.input.take().unwrap();
    thread::scope(|scope| {
        write_all(input, |written| {
            assert!(written < 4 << 20, "{written} bytes");
            scope.spawn(|| expect_all(&mut server.lines));
        });
    });
    let grown = peak(&client.process.0) - before;
    assert!(grown < 2 << 10, "{grown} kB more");
}

#[test]
fn a_client_that_does_not_read_holds_the_server_and_not_its_lines_in_memory() {
    let place = Place::new("full-c");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    server.receive();
    let before = peak(&client.process.0);
    thread::scope(|scope| {
        let output = &mut client.output;
        write_all(server.lines.get_ref().try_clone().unwrap(), |written| {
            assert!(written < 4 << 20, "{written} bytes");
            scope.spawn(|| expect_all(output));
        });
    });
    let grown = peak(&client.process.0) - before;
    assert!(grown < 2 << 10, "{grown} kB more");
}

/// Writes lines as long as they are taken, at most 50 MB. Returns the number of bytes.
fn flood(mut to: impl Write + AsFd, line: impl Fn(u64) -> Value) -> usize {
    fcntl_setfl(&to, OFlags::NONBLOCK).expect("it is ours");
    let (mut written, mut number) = (0, 0);
    while written < 50 << 20 {
        number += 1;
        let line = format!("{}\n", line(number));
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(part) => (written, rest) = (written + part, &rest[part..]),
                Err(err) if err.kind() == ErrorKind::WouldBlock => {
                    let soon = Timespec {
                        tv_sec: 1,
                        tv_nsec: 0,
                    };
                    let mut watched = [PollFd::new(&to, PollFlags::OUT)];
                    if poll(&mut watched, Some(&soon)) == Ok(0) {
                        fcntl_setfl(&to, OFlags::empty()).expect("it is ours");
                        return written;
                    }
                }
                Err(err) => panic!("{err}"),
            }
        }
    }
    written
}

// Defect D13.
#[test]
fn a_server_that_asks_and_does_not_read_is_read_no_further() {
    let place = Place::new("asks");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    server.receive();
    let before = peak(&client.process.0);
    let question = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let mut output = client.output;
    thread::scope(|scope| {
        // The client reads all questions.
        scope.spawn(move || output.read_until(0, &mut Vec::new()));
        let written = flood(server.lines.get_ref().try_clone().unwrap(), question);
        assert!(written < 8 << 20, "{written} bytes");
        let grown = peak(&client.process.0) - before;
        assert!(grown < 2 << 10, "{grown} kB more");
        // When the server reads, it gets the error that it asks too much.
        assert_eq!(server.receive()["error"]["code"], -32603);
        drop(client.process);
    });
}

// Defect D13.
#[test]
fn what_is_no_message_stays_here() {
    let place = Place::new("no-json");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    server.receive();
    for line in [
        "Segmentation fault",
        "{\"jsonrpc\": ",
        "\u{1b}[31m",
        "null",
        "42",
        "\"text\"",
        "[]",
        "[null]",
        "{}",
    ] {
        let written = server
            .lines
            .get_mut()
            .write_all(format!("{line}\n").as_bytes());
        written.unwrap();
    }
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    let mut first = String::new();
    client.output.read_line(&mut first).unwrap();
    assert!(first.contains(r#""id":1"#), "{first}");
    let stderr = client.process.0.stderr.take().unwrap();
    assert_eq!(client.end(), Some(0));
    let words: Vec<_> = BufReader::new(stderr)
        .lines()
        .map_while(Result::ok)
        .collect();
    let remarks = words
        .iter()
        .filter(|line| line.contains("no message"))
        .count();
    assert_eq!(remarks, 1, "{words:?}");
}

#[test]
fn fifty_megabytes_there_and_back_arrive_as_they_left() {
    let place = Place::new("echo");
    let _server = serve(&place.socket());
    let mut client = Client::of(&place.socket());
    client.open();
    let mut input = client.input.take().unwrap();
    let text = "ä\"\\\u{1}".repeat(LINE_BYTES / 8);
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1..=LINES / 2 {
                let line = format!("{}\n", call(id, "echo", &json!({ "text": text })));
                input.write_all(line.as_bytes()).unwrap();
            }
        });
        for _ in 1..=LINES / 2 {
            let answer = client.receive();
            assert!(super::text(&answer) == text);
        }
    });
}

// Defect P6.
#[test]
fn what_a_client_says_arrives_in_its_order_across_a_restart() {
    let place = Place::new("order");
    let mut client = Client::of(&place.socket());
    let mut sent = 0;
    let mut say = |client: &mut Client, count| {
        for _ in 0..count {
            sent += 1;
            client.send(&modern(sent, "tools/call", json!({ "name": "a" })));
        }
    };
    say(&mut client, 100);
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut server = Server::accept(&listener);
    say(&mut client, 100);
    for id in 1..=200 {
        assert_eq!(server.receive()["id"], id);
    }
    // The listener is dropped first, so that the proxy does not find a socket that will not be served.
    drop(listener);
    drop(server);
    for id in 1..=200 {
        assert_eq!(
            client.receive()["id"],
            id,
            "lost in the order they were sent"
        );
    }
    say(&mut client, 100);
    fs::remove_file(place.socket()).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    say(&mut client, 100);
    let mut server = Server::accept(&listener);
    for id in 201..=400 {
        assert_eq!(server.receive()["id"], id);
    }
}

// Defect P5.
#[test]
fn a_line_without_an_end_is_refused_and_costs_no_more_than_its_limit() {
    let place = Place::new("endless");
    let _server = serve(&place.socket());
    let mut client = Client::of(&place.socket());
    client.open();
    let mut input = client.input.take().unwrap();
    input
        .write_all(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"text":""#)
        .unwrap();
    for _ in 0..60 {
        input.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    input.write_all(b"\"}}\n").unwrap();
    let answer = client.receive();
    assert_eq!(
        (&answer["id"], &answer["error"]["data"]["limit"]),
        (&json!(7), &json!("line_bytes"))
    );
    let peak = peak(&client.process.0);
    assert!(peak < 48 << 10, "{peak} kB");
    client.input = Some(input);
    client.send(&call(8, "echo", &json!({ "text": "next" })));
    assert_eq!(super::text(&client.receive()), "next");
}

#[test]
fn stdout_may_be_a_socket_as_some_clients_have_it() {
    let place = Place::new("socketpair");
    let _server = serve(&place.socket());
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = crate::support::lmcp(&["proxy"]);
    command
        .arg(place.socket())
        .stdout(std::process::Stdio::from(std::os::fd::OwnedFd::from(
            theirs,
        )));
    let mut process = crate::support::Running(command.spawn().unwrap());
    drop(command);
    let mut input = process.0.stdin.take().unwrap();
    let text = "x".repeat(1 << 20);
    let request = modern(
        1,
        "tools/call",
        json!({ "name": "echo", "arguments": { "text": text } }),
    );
    writeln!(input, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(&ours).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(super::text(&answer) == text);
    // The client is gone, although its input is still open.
    drop(ours);
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn more_than_may_wait_is_held_back_and_not_refused() {
    const CALLS: u64 = 2000;
    let place = Place::new("crowd");
    let mut client = Client::of(&place.socket());
    let mut input = client.input.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for id in 1..=CALLS {
                let line = format!("{}\n", modern(id, "tools/list", json!({})));
                input.write_all(line.as_bytes()).unwrap();
            }
        });
        let _server = serve(&place.socket());
        for _ in 1..=CALLS {
            let answer = client.receive();
            assert!(answer["result"]["tools"].is_array(), "{answer}");
        }
    });
    assert_eq!(client.end(), Some(0));
}

#[test]
fn without_a_server_all_that_a_client_has_said_is_answered_at_its_end() {
    const CALLS: u64 = 400;
    let place = Place::new("nobody");
    let mut client = Client::of(&place.socket());
    for id in 1..=CALLS {
        client.send(&modern(id, "tools/list", json!({})));
    }
    client.input = None;
    for id in 1..=CALLS {
        let answer = client.receive();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["error"]["data"]["retriable"], true);
    }
    assert_eq!(client.end(), Some(1));
}

#[test]
fn a_client_that_reads_again_finds_its_errors_and_the_next_server() {
    const CALLS: u64 = 2000;
    let place = Place::new("reads");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::of(&place.socket());
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 1..=CALLS {
                client.send(&modern(id, "tools/call", json!({ "name": "a" })));
            }
        });
        let mut server = Server::accept(&listener);
        for id in 1..=CALLS {
            assert_eq!(server.receive()["id"], id);
        }
        // The end of the server causes far more errors than there is room for.
    });
    for id in 1..=CALLS {
        assert_eq!(client.receive()["id"], id);
    }
    client.send(&modern(0, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 0);
}
