//! A confined command gets nothing from a wider server over HTTP without a token (D2).

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;

use crate::{
    support::{Running, get, lmcp, start},
    unix::shell_on_stdio,
};

fn folder() -> TempDir {
    tempfile::tempdir().expect("tests may write here")
}

/// A server that runs commands confined to this folder; everywhere if there is none.
fn runner(root: Option<&Path>) -> Command {
    let mut command = lmcp(&["serve", "--stdio"]);
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    command
}

/// A line for a shell that prints what is answered to a request.
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
fn a_confined_command_may_use_http_of_a_server_that_may_do_no_more() {
    let root = folder();
    let mut server = lmcp(&["serve", "--http", ":0"]);
    server.arg("--root").arg(root.path());
    let (_server, address, _) = start(server);
    let said = shell_on_stdio(runner(Some(root.path())), &request(&address));
    assert!(said.starts_with("HTTP/1.1 405"), "{said}");
}

#[test]
fn others_are_served_while_a_confined_command_runs() {
    let root = folder();
    let (runs, may_end) = (root.path().join("runs"), root.path().join("may-end"));
    let (_server, address, _) = start(lmcp(&["serve", "--http", ":0"]));
    let line = format!(
        "touch {}; until test -e {}; do sleep 0.05; done",
        runs.display(),
        may_end.display()
    );
    let command = runner(Some(root.path()));
    let command = thread::spawn(move || shell_on_stdio(command, &line));
    while !runs.exists() && !command.is_finished() {
        thread::yield_now();
    }
    let answers: Vec<_> = (0..10).map(|_| get(&address, "/mcp")).collect();
    fs::write(may_end, "").expect("tests may write here");
    command.join().expect("it ran");
    assert_eq!(answers, [405; 10]);
}

/// Sends a request and hides the connection at once: on its way from one socket to another, no process has it open.
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

/// Keeps what it is handed, and says that it has it.
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

/// Hands a socket to somebody outside, and uses it as well, from where its files are not those of the first thread, are
/// left over from it, or are not shown.
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
