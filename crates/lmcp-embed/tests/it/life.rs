//! A host from its start to its end.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
};

use lmcp_core::{Cx, NoArgs, Server, Tool};
use lmcp_embed::Host;
use serde_json::json;

use crate::visitor::{call, follow, visitor};

/// Reports when a call begins, and when it is over, for whatever reason.
struct Watched(Sender<&'static str>);

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

fn server() -> (Server, Receiver<&'static str>) {
    let (says, heard) = mpsc::channel();
    let says = Arc::new(std::sync::Mutex::new(says));
    let forever = move |_: NoArgs, _: Cx| {
        let says = says.lock().unwrap().clone();
        async move {
            says.send("began").unwrap();
            let _watched = Watched(says);
            std::future::pending::<&'static str>().await
        }
    };
    let tool = Tool::new("forever", forever).about("Never ends.").writes();
    (Server::new("life", "1.0.0").tool(tool), heard)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn forever() -> Vec<String> {
    vec![call(1, "forever", &json!({}))]
}

#[tokio::test]
async fn a_host_that_cannot_listen_is_an_error_also_inside_of_a_runtime() {
    let ((server, _heard), folder) = (server(), folder());
    // A folder has the name of the lock.
    let lock = folder.path().join(format!("{}.lock", std::process::id()));
    fs::create_dir(lock).unwrap();
    let refused = Host::start_in(server, folder.path()).unwrap_err();
    assert!(refused.to_string().contains("cannot lock"), "{refused}");
}

#[test]
fn closing_ends_what_runs() {
    let ((server, heard), folder) = (server(), folder());
    let host = Host::start_in(server, folder.path()).unwrap();
    let child = host.child("one", "worker").unwrap();
    let mut process = child.spawn(&mut visitor("env", 9, &forever())).unwrap();
    assert_eq!(heard.recv().unwrap(), "began");
    let socket = host.socket().to_owned();
    host.close();
    assert_eq!(heard.try_recv(), Ok("ended"));
    assert!(!socket.exists());
    // Its connection has ended, so the child ends, too.
    assert!(process.wait().unwrap().success());
    assert!(child.child("two", "worker").is_err());
}

#[test]
fn who_leaves_has_cancelled() {
    let ((server, heard), folder) = (server(), folder());
    let host = Host::start_in(server, folder.path()).unwrap();
    let child = host.child("one", "worker").unwrap();
    let mut process = child.spawn(&mut visitor("env", 9, &forever())).unwrap();
    assert_eq!(heard.recv().unwrap(), "began");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(heard.recv().unwrap(), "ended");
}

#[test]
fn a_cancelled_call_ends() {
    let ((server, heard), folder) = (server(), folder());
    let host = Host::start_in(server, folder.path()).unwrap();
    let child = host.child("one", "worker").unwrap();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let lines = [forever(), vec![cancel.into()]].concat();
    let mut process = child.spawn(&mut visitor("env", 9, &lines)).unwrap();
    assert_eq!(heard.recv().unwrap(), "began");
    assert_eq!(heard.recv().unwrap(), "ended");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn the_socket_is_for_this_user_alone() {
    let folder = folder();
    let host = Host::start_in(server().0, folder.path()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(host.socket()), 0o600);
    let child = host.child("one", "worker").unwrap();
    assert_eq!(mode(child.credentials()), 0o600);
    assert_eq!(mode(folder.path()), 0o700);
    assert!(host.socket().as_os_str().len() < 104);
}

#[test]
fn no_secret_is_on_a_command_line() {
    let ((server, heard), folder) = (server(), folder());
    let host = Host::start_in(server, folder.path()).unwrap();
    let child = host.child("one", "worker").unwrap();
    let mut process = child.spawn(&mut visitor("env", 9, &forever())).unwrap();
    assert_eq!(heard.recv().unwrap(), "began");
    let read = |name: &str| fs::read(format!("/proc/{}/{name}", process.id())).unwrap();
    let seen = [read("cmdline"), read("environ")].concat();
    let credentials: serde_json::Value =
        serde_json::from_slice(&fs::read(child.credentials()).unwrap()).unwrap();
    let token = credentials["identity"].as_str().unwrap();
    assert_eq!(token.len(), 32);
    assert!(!String::from_utf8_lossy(&seen).contains(token));
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_panic_leaves_nothing_behind() {
    let folder = folder();
    let path = folder.path().to_owned();
    let panicked = std::thread::spawn(move || {
        let host = Host::start_in(server().0, &path).unwrap();
        let _child = host.child("one", "worker").unwrap();
        // The files are the socket, the lock and the folder of the child.
        assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_host_that_starts_or_ends_touches_no_credentials_of_another() {
    let folder = folder();
    let start = || Host::start_in(server().0, folder.path()).unwrap();
    let first = start();
    let child = first.child("one", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    // Another host starts and ends beside the first; then the first ends, and the next one takes its place.
    drop(start());
    assert!(child.credentials().exists());
    first.close();
    let next = start();
    assert!(child.credentials().exists());
    drop(next);
    assert!(child.credentials().exists());
    let credentials = child.credentials().to_owned();
    drop(child);
    assert!(!credentials.exists());
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn several_hosts_live_side_by_side() {
    let folder = folder();
    let start = || Host::start_in(server().0, folder.path()).unwrap();
    let (first, second) = (start(), start());
    let name = |host: &Host| PathBuf::from(host.socket().file_name().unwrap());
    let process = std::process::id();
    assert_eq!(name(&first), PathBuf::from(format!("{process}.sock")));
    assert_eq!(name(&second), PathBuf::from(format!("{process}-2.sock")));
    // A host does not know the tokens of another host.
    let child = first.child("one", "worker").unwrap();
    let mut command = visitor("env", 2, &forever());
    command.env("SOCKET", second.socket());
    let words = crate::visitor::refusal(child.spawn(&mut command).unwrap());
    assert!(words.contains("not known"), "{words}");
}

#[test]
fn hosts_that_start_at_once_do_not_take_each_others_place() {
    let folder = folder();
    let hosts: Vec<Host> = std::thread::scope(|scope| {
        let start = || Host::start_in(server().0, folder.path()).unwrap();
        let starting: Vec<_> = (0..16).map(|_| scope.spawn(start)).collect();
        let started = starting.into_iter().map(|started| started.join().unwrap());
        started.collect()
    });
    let mut sockets: Vec<_> = hosts.iter().map(|host| host.socket().to_owned()).collect();
    sockets.sort();
    sockets.dedup();
    assert_eq!(sockets.len(), 16);
}

#[tokio::test]
async fn it_starts_and_serves_inside_a_runtime() {
    let ((server, heard), _) = (server(), ());
    let host = Host::start_here(server).await.unwrap();
    let child = host.child("one", "worker").unwrap();
    let mut process = child.spawn(&mut visitor("env", 9, &forever())).unwrap();
    let mut lines = follow(&mut process);
    // It still says what it hears, so somebody has to be there.
    let (heard, first, _lines) = tokio::task::spawn_blocking(move || {
        let first = lines.next().unwrap().unwrap();
        (heard.recv().unwrap(), first, lines)
    })
    .await
    .unwrap();
    assert_eq!(heard, "began");
    assert!(first.contains("lmcp_welcome"), "{first}");
    let socket = host.socket().to_owned();
    drop(host);
    let ended = tokio::task::spawn_blocking(move || process.wait().unwrap());
    assert!(ended.await.unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn a_child_without_its_folder_is_started_all_the_same() {
    let host = Host::start(server().0).unwrap();
    let child = host.child("ann", "worker").unwrap();
    // The child removes its folder before its host has written into it.
    fs::remove_dir_all(child.folder()).unwrap();
    let mut process = child.spawn(&mut Command::new("true")).unwrap();
    assert!(process.wait().unwrap().success());
}
