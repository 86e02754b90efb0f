//! Servers that ask for the identity of the caller.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, chown, symlink},
        net::UnixListener,
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::geteuid;
use serde_json::{Value, json};

use super::{Client, Place, Server, listening, modern};
use crate::support::{can_unshare, lmcp, refusal, said};

/// A user that is neither root nor this user.
const NOBODY: u32 = 65_534;

/// Writes credentials in one step, as a host does that was restarted.
fn write(path: &Path, socket: &Path, token: &str) {
    let credentials = json!({ "socket": socket, "identity": token }).to_string();
    let new = path.with_extension("new");
    fs::write(&new, credentials).expect("tests may write here");
    fs::set_permissions(&new, Permissions::from_mode(0o600)).expect("it is ours");
    fs::rename(new, path).expect("it is ours");
}

fn credentials(place: &Place, token: &str) -> PathBuf {
    let path = place.path("identity");
    write(&path, &place.socket(), token);
    path
}

fn proxy(file: &Path) -> Command {
    let mut command = lmcp(&["proxy", "--identity-file"]);
    command.arg(file);
    command
}

fn welcome() -> Value {
    json!({ "lmcp_welcome": { "id": "1", "label": "a", "role": "r" } })
}

fn refused(code: i64) -> Value {
    json!({ "jsonrpc": "2.0", "error": { "code": code, "message": "refused: not you" } })
}

#[test]
fn the_token_comes_first_and_nothing_else_before_the_welcome() {
    let place = Place::new("greet");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::new(&mut proxy(&credentials(&place, "t1")));
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t1" }));
    assert!(server.lines.buffer().is_empty());
    server.send(&welcome());
    assert_eq!(server.receive()["id"], 1);
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(client.receive()["id"], 1, "the welcome is not the client's");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_file_is_read_for_every_connection_so_a_socket_may_move() {
    let place = Place::new("move");
    let file = credentials(&place, "t1");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::new(lmcp(&["proxy"]).env("LMCP_IDENTITY_FILE", &file));
    client.send(&modern(1, "tools/call", json!({ "name": "a" })));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t1" }));
    server.send(&welcome());
    assert_eq!(server.receive()["id"], 1);

    let elsewhere = UnixListener::bind(place.path("elsewhere")).unwrap();
    write(&file, &place.path("elsewhere"), "t2");
    drop((server, listener));
    let mut server = Server::accept(&elsewhere);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t2" }));
    server.send(&welcome());
    assert_eq!(client.receive()["error"]["data"]["retriable"], true);
    client.send(&modern(2, "tools/list", json!({})));
    assert_eq!(server.receive()["id"], 2);
}

#[test]
fn who_is_refused_is_told_for_every_call_and_the_code_says_it() {
    let place = Place::new("refused");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::new(&mut proxy(&credentials(&place, "t1")));
    client.send(&modern(1, "tools/list", json!({})));
    client.send(&modern(2, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    server.receive();
    server.send(&refused(-32600));
    for id in [1, 2] {
        let answer = client.receive();
        assert_eq!(
            (&answer["id"], &answer["error"]["message"]),
            (&json!(id), &json!("refused: not you"))
        );
    }
    assert_eq!(client.receive(), Value::Null);
    assert_eq!(client.process.0.wait().unwrap().code(), Some(77));
}

#[test]
fn a_server_with_troubles_of_its_own_is_tried_again() {
    let place = Place::new("trouble");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut client = Client::new(&mut proxy(&credentials(&place, "t1")));
    client.send(&modern(1, "tools/list", json!({})));
    let mut full = Server::accept(&listener);
    full.send(&refused(-32603));
    drop(full);
    // A server that closes without a message counts as no server.
    drop(Server::accept(&listener));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t1" }));
    server.send(&welcome());
    assert_eq!(server.receive()["id"], 1);
    server.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(client.receive()["id"], 1);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn an_inherited_identity_is_shown_to_its_own_server_and_to_no_other() {
    let place = Place::new("inherited");
    let file = credentials(&place, "t1");
    let other = place.path("other");
    let listener = UnixListener::bind(&other).unwrap();
    let mut client = Client::new(
        lmcp(&["proxy"])
            .arg(&other)
            .env("LMCP_IDENTITY_FILE", &file),
    );
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive()["id"], 1);
    drop((client, server));

    // If both are named, the token is shown to the named server.
    let mut client = Client::new(proxy(&file).arg(&other));
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t1" }));
}

#[test]
fn an_identity_may_come_in_an_inherited_descriptor() {
    let place = Place::new("descriptor");
    let file = credentials(&place, "t1");
    let listener = UnixListener::bind(place.socket()).unwrap();
    let mut shell = lmcp(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", r#"LMCP_IDENTITY_FD=7 exec "$1" proxy 7<"$2""#, "sh"]);
    command.arg(shell.get_program()).arg(&file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = Client::new(&mut command);
    client.send(&modern(1, "tools/list", json!({})));
    let mut server = Server::accept(&listener);
    assert_eq!(server.receive(), json!({ "lmcp_identity": "t1" }));

    let words = refusal_of(shell.arg("proxy").env("LMCP_IDENTITY_FD", "77"));
    assert!(
        words.contains("cannot read an identity from descriptor 77"),
        "{words}"
    );
    let words = refusal_of(lmcp(&["proxy"]).env("LMCP_IDENTITY_FD", "x"));
    assert!(
        words.contains("LMCP_IDENTITY_FD: `x` is not the number"),
        "{words}"
    );
}

#[test]
fn a_descriptor_of_a_file_that_others_have_a_hand_in_is_refused() {
    let place = Place::new("descriptor-open");
    let file = credentials(&place, "t1");
    let refused = || {
        let mut command = Command::new("sh");
        command.args(["-c", r#"LMCP_IDENTITY_FD=7 exec "$1" proxy 7<"$2""#, "sh"]);
        refusal_of(command.arg(env!("CARGO_BIN_EXE_lmcp")).arg(&file))
    };
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let words = refused();
    assert!(words.contains("others can read or write it"), "{words}");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    // Only root can change the owner of a file.
    if geteuid().is_root() {
        chown(&file, Some(NOBODY), None).unwrap();
        let words = refused();
        assert!(words.contains("it belongs to another user"), "{words}");
    }
}

fn refusal_of(command: &mut Command) -> String {
    let output = command
        .output()
        .expect("the binary was built for this test");
    let (code, words) = said(&output);
    assert_eq!(code, Some(2), "{words}");
    words
}

// Defect P4.
#[test]
fn a_file_that_others_could_have_written_or_read_is_not_used() {
    let place = Place::new("unfit");
    let file = credentials(&place, "t1");
    for mode in [0o640, 0o604, 0o620, 0o606] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let words = refusal(proxy(&file));
        assert!(words.contains("its mode must be 0600"), "{mode:o}: {words}");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let link = place.path("link");
    symlink(&file, &link).unwrap();
    assert!(refusal(proxy(&link)).contains("cannot use the identity file"));
    assert!(refusal(proxy(&place.path(""))).contains("it is not a file"));
    fs::write(&file, "{}").unwrap();
    assert!(refusal(proxy(&file)).contains("it does not hold"));
    // Only root can change the owner of a file.
    if geteuid().is_root() {
        let file = credentials(&place, "t1");
        chown(&file, Some(NOBODY), None).unwrap();
        assert!(refusal(proxy(&file)).contains("it belongs to another user"));
    }
}

#[test]
fn a_server_of_another_user_does_not_see_the_token() {
    // Only root can start a server as another user.
    if !geteuid().is_root() {
        return;
    }
    let place = Place::new("stranger");
    chown(place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut theirs = lmcp(&["serve", "--demo", "--unix"]);
    theirs.env("LMCP_STATE_DIR", place.path("state"));
    let _server = listening(theirs.arg(place.socket()).uid(NOBODY).gid(NOBODY));
    let file = Place::new("stranger-credentials").path("identity");
    write(&file, &place.socket(), "t1");
    let mut client = Client::new(&mut proxy(&file));
    client.send(&modern(1, "tools/list", json!({})));
    client.input = None;
    let answer = client.receive();
    let words = answer["error"]["message"].as_str().unwrap();
    assert!(words.contains("is served by user 65534"), "{words}");
    assert_eq!(client.end(), Some(1));
}

#[test]
fn where_users_cannot_be_told_apart_no_server_sees_the_token() {
    if !can_unshare(&["-U"]) {
        return;
    }
    let place = Place::new("unshared");
    let _listener = UnixListener::bind(place.socket()).unwrap();
    let file = place.path("identity");
    write(&file, &place.socket(), "t1");
    // The owner of a pipe is not checked.
    let mut command = Command::new("bash");
    let script = "exec unshare -U \"$0\" proxy 3< <(cat \"$1\")";
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_lmcp")])
        .arg(&file)
        .env("LMCP_IDENTITY_FD", "3")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut client = Client::new(&mut command);
    client.send(&modern(1, "tools/list", json!({})));
    client.input = None;
    let answer = client.receive();
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("is not to see our identity"), "{answer}");
    assert_eq!(client.end(), Some(1));
}
