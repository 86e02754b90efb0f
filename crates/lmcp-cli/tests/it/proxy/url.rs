//! `lmcp proxy URL`: the same promises, with HTTP in between.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Command, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};

use super::{Client, call, initialize, listening, modern, text};
use crate::{
    proxy_server::Proxy,
    support::{Running, file, lmcp, program_in, refusal},
};

/// Returns an address that nobody uses.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    address.to_string()
}

fn url(address: &str) -> String {
    format!("http://{address}/mcp")
}

fn serve(address: &str) -> Running {
    listening(&mut lmcp(&["serve", "--demo", "--http", address]))
}

fn client(address: &str) -> Client {
    Client::new(&mut lmcp(&["proxy", &url(address)]))
}

fn echo(id: u64, words: &str) -> Value {
    call(id, "echo", &json!({ "text": words }))
}

#[test]
fn both_eras_are_served_and_the_end_is_clean() {
    let address = free();
    let _server = serve(&address);
    let mut old = client(&address);
    old.open();
    for id in 1..=50 {
        old.send(&echo(id, "hi"));
    }
    for _ in 1..=50 {
        assert_eq!(text(&old.receive()), "hi");
    }
    assert_eq!(old.end(), Some(0));
    let mut new = client(&address);
    new.send(&modern(
        1,
        "tools/call",
        json!({ "name": "echo", "arguments": { "text": "hi" } }),
    ));
    assert_eq!(text(&new.answer(1)), "hi");
    assert_eq!(new.end(), Some(0));
}

#[test]
fn a_client_may_come_before_its_server() {
    let address = free();
    let mut client = client(&address);
    client.send(&initialize());
    client.send(&echo(1, "hi"));
    let _server = serve(&address);
    assert_eq!(client.answer(0)["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(text(&client.answer(1)), "hi");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_call_that_was_lost_is_told_so_and_the_next_one_works() {
    let address = free();
    let server = serve(&address);
    let mut client = client(&address);
    client.open();
    client.send(&call(1, "wait", &json!({ "seconds": 300 })));
    client.send(&echo(2, "first"));
    assert_eq!(text(&client.answer(2)), "first");
    drop(server);
    let lost = client.answer(1);
    assert_eq!(lost["error"]["data"]["retriable"], true, "{lost}");
    // Neither call has a server, and both wait for one.
    client.send(&echo(3, "second"));
    let _server = serve(&address);
    client.send(&echo(4, "third"));
    let mut answers = BTreeSet::new();
    while answers.len() < 2 {
        let message = client.receive();
        assert_ne!(message, Value::Null, "it ended");
        if message["method"].is_null() {
            answers.insert(text(&message).to_owned());
        }
    }
    assert!(
        answers.contains("second") && answers.contains("third"),
        "{answers:?}"
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_subscription_outlives_its_server_however_that_ends() {
    let address = free();
    let mut server = serve(&address);
    let mut client = client(&address);
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    client.send(&modern(1, "subscriptions/listen", filter));
    assert_eq!(
        client.receive()["method"],
        "notifications/subscriptions/acknowledged"
    );
    for signal in [Signal::TERM, Signal::KILL] {
        kill_process(Pid::from_child(&server.0), signal).unwrap();
        server.0.wait().unwrap();
        server = serve(&address);
        let heard = client.receive();
        assert_eq!(
            heard["method"], "notifications/tools/list_changed",
            "{heard}"
        );
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_server_is_killed_again_and_again_and_every_call_is_answered() {
    let address = free();
    let mut server = serve(&address);
    let mut client = client(&address);
    client.open();
    let proxy = client.process.0.id();
    for round in 0..10 {
        let ids: BTreeSet<u64> = (0..20).map(|number| 1 + round * 20 + number).collect();
        for id in &ids {
            client.send(&echo(*id, "hi"));
        }
        kill_process(Pid::from_child(&server.0), Signal::KILL).unwrap();
        server.0.wait().unwrap();
        server = serve(&address);
        let mut answered = BTreeSet::new();
        while answered.len() < ids.len() {
            let message = client.receive();
            assert_ne!(message, Value::Null, "it ended");
            if let Some(id) = message["id"]
                .as_u64()
                .filter(|_| message["method"].is_null())
            {
                let fine = text(&message) == "hi";
                let retriable = message["error"]["data"]["retriable"] == true;
                assert!(fine || retriable, "{message}");
                assert!(answered.insert(id), "{id} has two answers");
            }
        }
        assert_eq!(answered, ids);
    }
    assert_eq!(client.process.0.id(), proxy);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_slow_call_is_answered_after_the_input_has_ended() {
    let address = free();
    let _server = serve(&address);
    let mut client = client(&address);
    client.open();
    client.send(&call(1, "wait", &json!({ "seconds": 1 })));
    client.input = None;
    assert_eq!(text(&client.answer(1)), "waited 1 s");
    assert_eq!(client.process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn it_ends_at_once_where_there_is_nothing_to_do() {
    let ended = lmcp(&["proxy", &url(&free())])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(0), &b""[..]));
}

#[test]
fn a_client_that_does_not_read_any_more_ends_it() {
    let address = free();
    let _server = serve(&address);
    for (seconds, code) in [(0, 0), (300, 1)] {
        let mut client = client(&address);
        client.open();
        client.send(&echo(1, "hi"));
        client.answer(1);
        if seconds > 0 {
            client.send(&call(2, "wait", &json!({ "seconds": seconds })));
            client.send(&echo(3, "hi"));
            client.answer(3);
        }
        let Client {
            mut process,
            output,
            input,
        } = client;
        drop(output);
        assert_eq!(process.0.wait().unwrap().code(), Some(code));
        drop(input);
    }
}

#[test]
fn a_client_that_has_said_all_and_does_not_read_is_given_up() {
    let address = free();
    let _server = serve(&address);
    let mut client = client(&address);
    client.open();
    // The answer is longer than the pipe and the proxy hold. The input of the client ends after that.
    client.send(&echo(1, &"x".repeat(1 << 20)));
    client.send(&call(2, "wait", &json!({ "seconds": 300 })));
    client.input = None;
    assert_eq!(client.process.0.wait().unwrap().code(), Some(1));
}

#[test]
fn a_token_is_taken_from_a_file_and_its_lack_is_told() {
    let right = file("proxy-url-right", "s3cret-s3cret-s3cret\n", 0o600);
    let wrong = file("proxy-url-wrong", "another-another\n", 0o600);
    let open = file("proxy-url-open", "s3cret-s3cret-s3cret\n", 0o644);
    let address = free();
    let mut command = lmcp(&["serve", "--demo", "--http", &address, "--token-file"]);
    let _server = listening(command.arg(&right));
    let with = |token: &std::path::Path| {
        let mut command = lmcp(&["proxy", &url(&address), "--token-file"]);
        command.arg(token);
        command
    };
    let mut client = Client::new(&mut with(&right));
    client.open();
    client.send(&echo(1, "hi"));
    assert_eq!(text(&client.answer(1)), "hi");
    assert_eq!(client.end(), Some(0));
    for mut command in [lmcp(&["proxy", &url(&address)]), with(&wrong)] {
        let mut client = Client::new(&mut command);
        client.send(&initialize());
        let answer = client.answer(0);
        let words = answer["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            words.contains("401") && words.contains("--token-file"),
            "{words}"
        );
        assert_eq!(answer["error"]["data"]["retriable"], false);
        assert_eq!(client.process.0.wait().unwrap().code(), Some(77));
    }
    assert!(refusal(with(&open)).contains("chmod 600"));
}

#[test]
fn a_token_is_not_sent_in_the_clear_to_another_machine() {
    let mut command = lmcp(&["proxy", "http://box.example/mcp"]);
    command.env("LMCP_TOKEN", "s3cret");
    let words = refusal(command);
    assert!(
        words.contains("https") && !words.contains("s3cret"),
        "{words}"
    );
}

#[test]
fn a_token_is_not_sent_to_a_server_of_another_user() {
    const NOBODY: u32 = 65_534;
    // Only root can start a server as another user.
    if !geteuid().is_root() {
        return;
    }
    let token = file("proxy-url-users", "s3cret-s3cret-s3cret\n", 0o600);
    let address = free();
    let mut ours = lmcp(&["serve", "--demo", "--http", &address, "--token-file"]);
    ours.arg(&token);
    // The server of the other user has the same token: if it answers, the token was sent to it.
    let place = tempfile::tempdir().expect("tests may write here");
    let mut theirs = Command::new(program_in(place.path()));
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("it is ours");
    theirs
        .args(["serve", "--demo", "--http", &address])
        .env_clear()
        .env("LMCP_TOKEN", "s3cret-s3cret-s3cret")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .stderr(Stdio::piped());
    let mut proxy = lmcp(&["proxy", &url(&address), "--token-file"]);
    proxy.arg(&token);
    let mut running = Client::new(&mut proxy);
    let server = listening(&mut ours);
    running.open();
    drop(server);
    let server = listening(&mut theirs);
    // A proxy that knew the server tries again, but not with the other user's server.
    running.send(&echo(1, "hi"));
    running.input = None;
    let answer = running.answer(1);
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("the server of user 65534"), "{answer}");
    // A new proxy reports the error at once.
    let mut fresh = Client::new(&mut proxy);
    fresh.send(&initialize());
    let answer = fresh.answer(0);
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("the server of user 65534") && words.contains("--plain-secrets"),
        "{answer}"
    );
    assert_eq!(fresh.process.0.wait().unwrap().code(), Some(77));
    let mut told = Client::new(proxy.arg("--plain-secrets"));
    told.open();
    assert_eq!(told.end(), Some(0));
    drop(server);
}

/// Lines that do not fit into the pipes wait in their place, and nothing is lost or reordered.
#[test]
fn a_client_that_reads_late_gets_everything() {
    let address = free();
    let _server = serve(&address);
    let mut client = client(&address);
    client.open();
    let words = "x".repeat(10_000);
    let mut input = client.input.take().unwrap();
    let lines: Vec<String> = (1..=400)
        .map(|id| format!("{}\n", echo(id, &words)))
        .collect();
    let writing = thread::spawn(move || {
        for line in lines {
            input.write_all(line.as_bytes()).unwrap();
        }
    });
    let mut answered = BTreeSet::new();
    while answered.len() < 400 {
        let answer = client.receive();
        assert_eq!(text(&answer).len(), words.len(), "{answer}");
        answered.insert(answer["id"].as_u64());
    }
    writing.join().unwrap();
    let mut rest = String::new();
    client.output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert_eq!(client.process.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_url_goes_through_the_proxy_that_the_environment_names() {
    let address = free();
    let mut command = lmcp(&["serve", "--demo", "--http", &address]);
    let _server = listening(command.args(["--allow-host", "box.example"]));
    let proxy = Proxy::for_members(address.parse().unwrap(), "me:pw");
    let with = |value: String| {
        let mut command = lmcp(&["proxy", "http://box.example/mcp"]);
        command.env("http_proxy", value).env_remove("no_proxy");
        Client::new(&mut command)
    };
    let mut client = with(format!("http://me:pw@{}", proxy.address));
    client.open();
    client.send(&echo(1, "hi"));
    assert_eq!(text(&client.answer(1)), "hi");
    assert_eq!(client.end(), Some(0));
    let mut client = with(proxy.address.to_string());
    client.send(&initialize());
    let answer = client.answer(0);
    let words = answer["error"]["message"].as_str().unwrap().to_owned();
    assert!(words.contains("wants a name and a password"), "{words}");
    assert_eq!(client.process.0.wait().unwrap().code(), Some(77));
}

#[test]
fn the_key_of_a_certificate_is_for_its_owner_alone() {
    let open = file("proxy-url-key", "no key at all\n", 0o644);
    let mut command = lmcp(&["proxy", "https://localhost:1/mcp", "--client-cert"]);
    command.arg(&open);
    assert!(refusal(command).contains("chmod 600"));
    let mut command = lmcp(&["proxy", "/nowhere.sock", "--client-cert"]);
    command.arg(&open);
    assert!(refusal(command).contains("is for a URL"));
}
