//! The key of sessions, which is kept between two runs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Child,
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
    let (_child, address, words) = serve(Path::new("/proc/none"), &[]);
    assert!(words.contains("new sessions after a restart"), "{words}");
    assert!(get(&address, "/mcp").starts_with("HTTP/1.1 405"));
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
