//! The key of sessions, which is kept between two runs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use crate::{lmcp, said};

#[test]
fn the_key_is_for_its_owner_alone() {
    let folder = folder("owner");
    let (child, _, words) = serve(&folder, &[]);
    drop(child);
    assert_eq!(words, "", "there is nothing to say about it");
    let key = fs::metadata(folder.join("session.key")).unwrap();
    assert_eq!((key.mode() & 0o777, key.len()), (0o600, 32));
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        1,
        "no draft is left"
    );
}

#[test]
fn a_key_that_others_can_read_or_that_is_none_is_refused() {
    let folder = folder("refused");
    fs::create_dir_all(&folder).unwrap();
    let key = folder.join("session.key");
    for (bytes, mode, words) in [
        (&[7; 32][..], 0o644, "can be read by others"),
        (b"short", 0o600, "is not a key of 32 bytes"),
        (b"", 0o600, "is not a key of 32 bytes"),
    ] {
        fs::write(&key, bytes).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let output = lmcp(&["serve", "--http", "127.0.0.1:0"])
            .env("LMCP_STATE_DIR", &folder)
            .output();
        let (code, said) = said(&output.unwrap());
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains(words) && said.contains("hint: delete it"),
            "{said}"
        );
        assert_eq!(fs::read(&key).unwrap(), bytes, "it is left as it was");
    }
}

#[test]
fn where_no_key_can_be_kept_it_says_so_and_serves() {
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command
        .env_remove("LMCP_STATE_DIR")
        .env("XDG_STATE_HOME", "/proc/none");
    let (_child, address, words) = start(command);
    assert!(words.starts_with("warning: "), "{words}");
    assert!(words.contains("new sessions after a restart"), "{words}");
    assert!(get(&address, "/mcp").starts_with("HTTP/1.1 405"));
}

#[test]
fn a_directory_that_was_named_must_do() {
    let output = lmcp(&[
        "serve",
        "--http",
        "127.0.0.1:0",
        "--state-dir",
        "/proc/none",
    ])
    .output();
    let (code, words) = said(&output.unwrap());
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("no key can be kept at /proc/none"),
        "{words}"
    );
    assert!(words.contains("hint: name another directory"), "{words}");
}

#[test]
fn who_says_stdio_means_it() {
    let mut command = lmcp(&["serve", "--stdio"]);
    command
        .env("LMCP_HTTP", "nonsense")
        .env("LMCP_UNIX", "/proc/none");
    let mut child = command.spawn().expect("the binary was built for this test");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    writeln!(input, "{ping}").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert_eq!(answer.trim(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let (code, words) = said(
        &lmcp(&["serve"])
            .env("LMCP_HTTP", "nonsense")
            .output()
            .unwrap(),
    );
    assert_eq!(code, Some(1));
    assert!(words.contains("LMCP_HTTP is `nonsense`"), "{words}");
}

#[test]
fn the_old_endpoints_are_there_when_asked_for() {
    let folder = folder("endpoints");
    let (_plain, address, _) = serve(&folder, &[]);
    assert!(get(&address, "/sse").starts_with("HTTP/1.1 404"));
    let (_old, address, _) = serve(&folder, &["--legacy-sse"]);
    assert!(get(&address, "/sse").starts_with("HTTP/1.1 200"));
}

/// A folder that is not there yet.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, where it listens, and what it said before.
fn serve(state: &Path, options: &[&str]) -> (Running, String, String) {
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command.args(options).env("LMCP_STATE_DIR", state);
    start(command)
}

fn start(mut command: Command) -> (Running, String, String) {
    let mut running = Running(command.spawn().expect("the binary was built for this test"));
    let mut stderr = BufReader::new(running.0.stderr.take().expect("stderr is a pipe"));
    let (mut words, mut line) = (String::new(), String::new());
    while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(url) = line.trim().strip_prefix("listening on http://") {
            let address = url.trim_end_matches("/mcp").to_owned();
            return (running, address, words);
        }
        words.push_str(&line);
        line.clear();
    }
    panic!("it did not start: {words}");
}

/// The first bytes of the answer.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("it answers");
    String::from_utf8_lossy(&head).into_owned()
}
