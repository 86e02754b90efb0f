//! A confined command cannot call a wider server over HTTP without a token (D2).

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;

use crate::{
    support::{Running, file, get, lmcp, said, start},
    unix::shell_on_stdio,
};

fn folder() -> TempDir {
    tempfile::tempdir().expect("tests may write here")
}

/// Returns a server that runs commands confined to this folder, or not confined if there is none.
fn runner(root: Option<&Path>) -> Command {
    let mut command = lmcp(&["serve", "--stdio"]);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command
}

/// Returns a shell line that prints the answer to a request.
fn request(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').expect("it has a port");
    let host = host.trim_matches(['[', ']']);
    format!(
        "bash -c 'exec 3<>/dev/tcp/{host}/{port}; \
         printf \"GET /mcp HTTP/1.1\\r\\nhost: {address}\\r\\nconnection: close\\r\\n\\r\\n\" >&3; cat <&3'"
    )
}

#[test]
fn a_confined_command_gets_nothing_over_http_without_a_token() {
    let root = folder();
    for options in [
        &["127.0.0.1:0"][..],
        &["[::1]:0"],
        &[":0", "--any-local-user"],
        &[":0", "--allow-remote"],
    ] {
        if options == ["[::1]:0"] && std::net::TcpListener::bind(options[0]).is_err() {
            continue;
        }
        let (_server, address, _) = start(lmcp(&[&["serve", "--http"], options].concat()));
        let said = shell_on_stdio(runner(None), &request(&address));
        assert!(said.starts_with("HTTP/1.1 405"), "{options:?}: {said}");
        let said = shell_on_stdio(runner(Some(root.path())), &request(&address));
        assert!(said.starts_with("HTTP/1.1 403"), "{options:?}: {said}");
        assert!(said.contains("confined command"), "{options:?}: {said}");
        assert_eq!(get(&address, "/mcp"), 405, "others go on");
    }
}

#[test]
fn a_confined_command_gets_nothing_from_a_bridge() {
    let root = folder();
    let (_bridge, address, _) = start(lmcp(&["bridge", "--http", ":0", "--", "cat"]));
    let said = shell_on_stdio(runner(None), &request(&address));
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
    let said = shell_on_stdio(runner(Some(root.path())), &request(&address));
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    assert!(said.contains("confined command"), "{said}");
}

#[test]
fn a_confined_command_may_use_http_of_a_server_that_may_do_no_more() {
    let root = folder();
    let mut server = lmcp(&["serve", "--http", ":0"]);
    server.arg("--root").arg(root.path());
    let (_server, address, _) = start(server);
    let said = shell_on_stdio(runner(Some(root.path())), &request(&address));
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
}

/// A confined command that runs until it is told to end.
struct Sleeping {
    may_end: PathBuf,
    command: thread::JoinHandle<String>,
}

impl Sleeping {
    /// Starts the command, and waits until it runs.
    fn start(root: &Path) -> Self {
        let (runs, may_end) = (root.join("runs"), root.join("may-end"));
        let made = Command::new("mkfifo").arg(&may_end).status();
        assert!(made.expect("there is mkfifo").success());
        // The command waits without starting other processes.
        let line = format!("touch {}; exec cat {}", runs.display(), may_end.display());
        let server = runner(Some(root));
        let command = thread::spawn(move || shell_on_stdio(server, &line));
        while !runs.exists() && !command.is_finished() {
            thread::yield_now();
        }
        Self { may_end, command }
    }

    fn end(self) {
        fs::write(self.may_end, "").expect("tests may write here");
        self.command.join().expect("it ran");
    }
}

#[test]
fn a_token_is_shown_to_the_own_server_while_a_confined_command_runs() {
    let root = folder();
    let token = file("confined-token", "hush-hush", 0o600);
    let token = token.to_str().expect("a plain path");
    // A server with a token hides its open files, even from its own user.
    let (_server, address, _) = start(lmcp(&[
        "serve",
        "--demo",
        "--http",
        ":0",
        "--token-file",
        token,
    ]));
    let sleeping = Sleeping::start(root.path());
    let url = format!("http://{address}/mcp");
    let ping = lmcp(&["ping", "--at", &url, "--token-file", token]).output();
    sleeping.end();
    let (code, words) = said(&ping.expect("the binary was built for this test"));
    assert_eq!(code, Some(0), "{words}");
}

#[test]
fn others_are_served_while_a_confined_command_runs() {
    let root = folder();
    let (_server, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let sleeping = Sleeping::start(root.path());
    let answers: Vec<_> = (0..10).map(|_| get(&address, "/mcp")).collect();
    sleeping.end();
    assert_eq!(answers, [405; 10]);
}

/// Sends a request and hides the connection at once: while it is sent from one socket to another, no process has it open.
const HIDE: &str = "
import array, socket, sys, time
for _ in range(20):
    server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    here, there = socket.socketpair()
    here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [server.fileno()]))] )
    server.sendall(b'GET /mcp HTTP/1.1\\r\\nhost: 127.0.0.1:%d\\r\\nconnection: close\\r\\n\\r\\n' % int(sys.argv[1]))
    server.close()
    time.sleep(0.02)
    data, passed, _, _ = there.recvmsg(1, socket.CMSG_SPACE(4))
    server = socket.socket(fileno=array.array('i', passed[0][2])[0])
    print(server.makefile().readline().split()[1], flush=True)
";

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn a_confined_command_that_hides_its_connection_gets_nothing_either() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("note: there is no python3, so hidden connections are not tested");
        return;
    }
    let root = folder();
    let script = root.path().join("hide.py");
    fs::write(&script, HIDE).expect("tests may write here");
    let (_server, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let (_, port) = address.rsplit_once(':').expect("it has a port");
    let line = format!("/usr/bin/python3 {} {port}", script.display());
    let said = shell_on_stdio(runner(Some(root.path())), &line);
    assert!(said.starts_with(&"403\n".repeat(20)), "{said}");
}

/// Keeps the socket that it is given, and confirms that.
const KEEP: &str = "
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print('listens', flush=True)
kept = []
while True:
    client, _ = listener.accept()
    kept.append((client, socket.recv_fds(client, 1, 1)))
    client.sendall(b'x')
";

/// Passes a socket to a process outside, and also uses it in places where its open files differ from those of the first
/// thread, are left over from it, or are not shown.
const HIDE_FILES: &str = "
import ctypes, os, platform, socket, sys, threading, time
mode, helper, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None)
def state():
    return open('/proc/%d/stat' % os.getpid()).read().rsplit(')', 1)[1].split()[0]
def go():
    if 'files' in mode and libc.unshare(0x400) != 0:
        print('cannot unshare', flush=True)
    while 'zombie' in mode and state() != 'Z':
        time.sleep(0.01)
    if 'hidden' in mode:
        libc.prctl(4, 0, 0, 0, 0)
    server = socket.socket()
    outside = socket.socket(socket.AF_UNIX)
    outside.connect(helper)
    socket.send_fds(outside, [b'x'], [server.fileno()])
    outside.recv(1)
    server.connect(('127.0.0.1', port))
    server.sendall(b'GET /mcp HTTP/1.1\\r\\nhost: 127.0.0.1:%d\\r\\nconnection: close\\r\\n\\r\\n' % port)
    print(server.makefile().readline().split()[1], flush=True)
    os._exit(0)
thread = threading.Thread(target=go)
thread.start()
if 'zombie' in mode:
    libc.syscall({'x86_64': 60}.get(platform.machine(), 93), 0)
thread.join()
";

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn a_confined_command_that_hides_its_files_gets_nothing_either() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("note: there is no python3, so hidden files are not tested");
        return;
    }
    let root = folder();
    let (script, helper) = (root.path().join("hide.py"), root.path().join("helper"));
    fs::write(&script, HIDE_FILES).expect("tests may write here");
    let mut keeps = Command::new("/usr/bin/python3");
    keeps.args(["-c", KEEP]).arg(&helper).stdout(Stdio::piped());
    let mut keeps = Running(keeps.spawn().expect("there is python3"));
    let mut said = [0; 7];
    let output = keeps.0.stdout.as_mut().expect("it is a pipe");
    output.read_exact(&mut said).expect("it listens");
    let (_server, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let (_, port) = address.rsplit_once(':').expect("it has a port");
    for mode in ["plain", "files", "zombie", "zombie-files", "hidden"] {
        let words = [script.as_path(), Path::new(mode), &helper, Path::new(port)];
        let words = words.map(|word| word.display().to_string()).join(" ");
        let line = format!("/usr/bin/python3 {words}");
        let said = shell_on_stdio(runner(Some(root.path())), &line);
        assert!(said.starts_with("403\n"), "{mode}: {said}");
    }
    let line = format!(
        "/usr/bin/python3 {} plain {} {port}",
        script.display(),
        helper.display()
    );
    let said = shell_on_stdio(runner(None), &line);
    assert!(said.starts_with("405\n"), "{said}");
}

/// Listens, prints its address, and keeps everything that it receives until it may end.
const LISTEN: &str = "
import os, socket, sys, threading
root = sys.argv[1]
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
with open(root + '/port.new', 'w') as file:
    file.write(str(listener.getsockname()[1]))
os.rename(root + '/port.new', root + '/port')
def take():
    while True:
        client, _ = listener.accept()
        with open(root + '/seen', 'ab') as file:
            file.write(client.recv(10000))
        client.close()
threading.Thread(target=take, daemon=True).start()
while not os.path.exists(root + '/may-end'):
    threading.Event().wait(0.05)
";

/// Returns the answers of a proxy with a token, for the server at this address.
fn say_token_to(address: &str, token: &Path) -> String {
    let url = format!("http://{address}/mcp");
    let mut proxy = lmcp(&["proxy", &url, "--token-file"]);
    proxy
        .arg(token)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut proxy = proxy.spawn().expect("it is there");
    let line = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    let mut input = proxy.stdin.take().expect("it is a pipe");
    writeln!(input, "{line}").expect("it reads");
    drop(input);
    let said = proxy.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn a_token_is_not_sent_to_a_server_that_a_confined_command_runs() {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("note: there is no python3, so a confined server is not tested");
        return;
    }
    let (root, outside) = (folder(), folder());
    let token = outside.path().join("token");
    fs::write(&token, "s3cret-s3cret-s3cret").expect("tests may write here");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mut server = lmcp(&["serve", "--http", ":0", "--token-file"]);
    server.arg(&token);
    let (_server, address, _) = start(server);
    let script = root.path().join("listen.py");
    fs::write(&script, LISTEN).expect("tests may write here");
    let words = [script.as_path(), root.path()].map(|word| word.display().to_string());
    let line = format!("/usr/bin/python3 {}", words.join(" "));
    let command = runner(Some(root.path()));
    let command = thread::spawn(move || shell_on_stdio(command, &line));
    let port = root.path().join("port");
    while !port.exists() && !command.is_finished() {
        thread::yield_now();
    }
    let port = fs::read_to_string(port).expect("it listens");
    let theirs = say_token_to(&format!("127.0.0.1:{port}"), &token);
    let ours = say_token_to(&address, &token);
    let seen = fs::read(root.path().join("seen")).unwrap_or_default();
    fs::write(root.path().join("may-end"), "").expect("tests may write here");
    let said = command.join().expect("it ran");
    assert!(
        theirs.contains("a confined command listens there"),
        "{theirs} {said}"
    );
    assert!(theirs.contains("--plain-secrets"), "{theirs}");
    assert!(!String::from_utf8_lossy(&seen).contains("s3cret"));
    assert!(ours.contains("\"result\""), "others go on: {ours}");
}
