//! Unix sockets: whose they are, what they replace, and what is left of them.

use std::{
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream as StdStream},
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lmcp_core::{Cx, Handle, NoArgs, Resource, Tool, unix};
use lmcp_wire::greeting::{Goodbye, Then};
use serde_json::json;
use tokio::{net::UnixStream, task::JoinSet};

use crate::support::{Folder, Peer, Serving, hanging, limits, server, soon};

#[tokio::test]
async fn the_socket_is_for_its_owner_alone() {
    let folder = Folder::new();
    let _transport = unix(folder.join("s")).unwrap();
    let found = std::fs::symlink_metadata(folder.join("s")).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["s"], "nothing else is left there");
}

#[test]
fn at_no_moment_can_others_open_it() {
    let (folder, over) = (Folder::new(), AtomicBool::new(false));
    let is_open = |name: &String| {
        let found = std::fs::symlink_metadata(folder.join(name));
        found.is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    };
    let (bound, open) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut open = Vec::new();
            while !over.load(Ordering::Relaxed) {
                open.extend(names(folder.path()).into_iter().filter(is_open));
            }
            open
        });
        let bound = (0..300).all(|_| unix(folder.join("s")).is_ok());
        over.store(true, Ordering::Relaxed);
        (bound, watching.join().unwrap())
    });
    assert!(bound);
    assert_eq!(open, Vec::<String>::new());
}

#[tokio::test]
async fn a_dead_socket_is_replaced() {
    let folder = Folder::new();
    let path = folder.join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists() && StdStream::connect(&path).is_err());
    let mut serving = serve(&path, &who());
    assert_eq!(ask(&path).await, "unix");
    serving.close().await;
}

#[tokio::test]
async fn a_live_socket_is_refused() {
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &who());
    let error = unix(&path).unwrap_err();
    assert!(error.is_io());
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {}", path.display())
    );
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "another server listens there");
    assert_eq!(
        ask(&path).await,
        "unix",
        "the first server is not disturbed"
    );
    serving.close().await;
}

#[tokio::test]
async fn what_is_no_socket_is_refused_and_kept() {
    let folder = Folder::new();
    let path = folder.join("s");
    std::fs::write(&path, "precious").unwrap();
    let error = unix(&path).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "something that is not a socket is there");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let link = folder.join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(unix(&link).unwrap_err().is_io());
    let folder_there = folder.join("folder");
    std::fs::create_dir(&folder_there).unwrap();
    assert!(unix(&folder_there).unwrap_err().is_io());
    assert_eq!(names(folder.path()), ["folder", "link", "s"]);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named() {
    let folder = Folder::new();
    let path = folder.join("none/s");
    let error = unix(&path).unwrap_err();
    assert!(error.is_io());
    assert!(error.to_string().contains("none/s"), "{error}");
}

#[tokio::test]
async fn the_socket_goes_with_the_server() {
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &who());
    assert_eq!(ask(&path).await, "unix");
    serving.close().await;
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_socket_that_is_never_served_goes_too() {
    let folder = Folder::new();
    drop(unix(folder.join("s")).unwrap());
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn the_socket_of_another_server_stays() {
    let folder = Folder::new();
    let path = folder.join("s");
    let mut first = serve(&path, &who());
    assert_eq!(ask(&path).await, "unix");
    // Somebody clears the way and starts a second server at the same place.
    std::fs::remove_file(&path).unwrap();
    let mut second = serve(&path, &who());
    first.close().await;
    assert!(path.exists());
    assert_eq!(ask(&path).await, "unix");
    second.close().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn the_kernel_says_who_calls() {
    async fn caller(_: NoArgs, cx: Cx) -> String {
        let process = cx.caller().peer();
        process.map_or_else(String::new, |process| {
            format!("{} {:?}", process.uid, process.pid)
        })
    }
    let folder = Folder::new();
    let path = folder.join("s");
    let tool = Tool::new("who", caller).read_only();
    let mut serving = serve(&path, &server().tool(tool).start().unwrap());
    let uid = std::fs::metadata(folder.path()).unwrap().uid();
    let pid = i32::try_from(std::process::id()).unwrap();
    assert_eq!(ask(&path).await, format!("{uid} {:?}", Some(pid)));
    serving.close().await;
}

#[tokio::test]
async fn many_connections_are_served_at_once() {
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &who());
    let mut clients = JoinSet::new();
    for _ in 0..100 {
        let path = path.clone();
        clients.spawn(async move {
            let mut peer = dial(&path).await;
            for id in 0..10 {
                peer.call(id, "who").await;
            }
            let mut ids = Vec::new();
            for _ in 0..10 {
                ids.push(peer.receive().await["id"].as_i64());
            }
            ids.sort_unstable();
            assert_eq!(ids, (0..10).map(Some).collect::<Vec<_>>());
        });
    }
    while let Some(client) = soon(clients.join_next()).await {
        client.unwrap();
    }
    serving.close().await;
}

#[tokio::test]
async fn one_connection_that_hangs_up_leaves_the_others() {
    let (tool, mut watcher) = hanging("hang");
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(
        &path,
        &server().tool(tool).tool(who_tool()).start().unwrap(),
    );
    let (mut first, mut second) = (dial(&path).await, dial(&path).await);
    first.call(1, "hang").await;
    second.call(1, "hang").await;
    watcher.started().await;
    watcher.started().await;
    drop(first);
    watcher.dropped().await;
    second.call(2, "who").await;
    assert_eq!(second.receive().await["id"], 2);
    assert!(watcher.is_running());
    serving.close().await;
}

#[tokio::test]
async fn stopping_ends_connections_and_their_work() {
    let (tool, mut watcher) = hanging("hang");
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &server().tool(tool).start().unwrap());
    let mut peer = dial(&path).await;
    peer.call(1, "hang").await;
    watcher.started().await;
    serving.close().await;
    watcher.dropped().await;
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_server_that_stops_says_goodbye_to_every_client() {
    let folder = Folder::new();
    let path = folder.join("s");
    let transport = unix(&path).unwrap();
    let transport = transport.goodbye(|| Goodbye::new(Then::Gone));
    let server = who();
    let mut serving = Serving::until(|stop| {
        let transport = transport.until(stop);
        async move { server.serve(transport).await }
    });
    let mut peer = dial(&path).await;
    peer.call(1, "who").await;
    assert_eq!(peer.receive().await["id"], 1);
    serving.close().await;
    let last = peer.receive().await;
    assert_eq!(last["method"], "notifications/lmcp/goodbye");
    assert_eq!(last["params"]["then"], "gone");
}

#[tokio::test]
async fn a_connection_past_the_limit_is_told_so_where_none_is_idle() {
    let (tool, mut watcher) = hanging("hang");
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &few(1, tool));
    let mut first = dial(&path).await;
    first.call(1, "hang").await;
    watcher.started().await;
    let mut second = dial(&path).await;
    let refusal = second.receive().await;
    assert_eq!(
        refusal["error"]["data"],
        json!({ "limit": "connections", "value": 1, "retriable": true })
    );
    assert_eq!(second.next().await, None);
    first.call(2, "who").await;
    assert_eq!(first.receive().await["id"], 2);
    serving.close().await;
}

// D17
#[tokio::test]
async fn connections_that_say_nothing_make_room_first() {
    let (tool, _watcher) = hanging("hang");
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &few(3, tool));
    let mut known = dial(&path).await;
    known.call(1, "who").await;
    assert_eq!(known.receive().await["id"], 1);
    // They are taken one after the other: whoever comes later is served only after those before were let in.
    let (mut older, mut younger) = (dial(&path).await, dial(&path).await);
    younger.write(b"{\"jsonrpc\": ").await;
    let mut newest = dial(&path).await;
    newest.call(1, "who").await;
    assert_eq!(newest.receive().await["id"], 1);
    assert_eq!(older.next().await, None, "the oldest has made room");
    // Half a message is none.
    let mut another = dial(&path).await;
    another.call(1, "who").await;
    assert_eq!(another.receive().await["id"], 1);
    assert_eq!(younger.next().await, None);
    known.call(2, "who").await;
    assert_eq!(
        known.receive().await["id"],
        2,
        "who has spoken is still there"
    );
    serving.close().await;
}

// D17
#[tokio::test]
async fn of_those_that_have_spoken_the_one_that_is_idle_longest_makes_room() {
    let (tool, mut watcher) = hanging("hang");
    let folder = Folder::new();
    let path = folder.join("s");
    let mut serving = serve(&path, &few(4, tool));
    let mut busy = dial(&path).await;
    busy.call(1, "hang").await;
    watcher.started().await;
    let mut subscribed = dial(&path).await;
    subscribed.shake_hands("2025-11-25").await;
    subscribed
        .ask(1, "resources/subscribe", json!({ "uri": "test://a" }))
        .await;
    assert_eq!(subscribed.receive().await["id"], 1);
    let (mut first, mut second) = (dial(&path).await, dial(&path).await);
    for peer in [&mut first, &mut second] {
        peer.call(1, "who").await;
        assert_eq!(peer.receive().await["id"], 1);
    }
    let mut next = dial(&path).await;
    next.call(1, "who").await;
    assert_eq!(next.receive().await["id"], 1);
    assert_eq!(first.next().await, None, "it was idle longest");
    second.call(2, "who").await;
    assert_eq!(second.receive().await["id"], 2);
    subscribed.ask(2, "ping", json!({})).await;
    assert_eq!(subscribed.receive().await["id"], 2);
    busy.call(2, "who").await;
    assert_eq!(busy.receive().await["id"], 2);
    assert!(watcher.is_running());
    serving.close().await;
}

/// Somebody who connects in the very moment in which nobody has been there for long enough is somebody.
#[tokio::test(start_paused = true)]
async fn whoever_connects_as_the_idle_time_ends_is_served() {
    let folder = Folder::new();
    let path = folder.join("s");
    let (idle, server) = (Duration::from_secs(5), who());
    // Which of the two was seen first was a matter of chance.
    for _ in 0..32 {
        let transport = unix(&path).unwrap().until_idle(idle);
        let server = server.clone();
        let mut serving = Serving::start(async move { server.serve(transport).await });
        tokio::task::yield_now().await;
        let stream = StdStream::connect(&path).unwrap();
        tokio::time::advance(idle).await;
        // What is read from the socket takes real time.
        tokio::time::resume();
        stream.set_nonblocking(true).unwrap();
        let (reader, writer) = UnixStream::from_std(stream).unwrap().into_split();
        let mut peer = Peer::new(reader, writer);
        peer.call(1, "who").await;
        let answer = peer.next().await.expect("it is served");
        assert_eq!(answer["id"], 1);
        serving.kill().await;
        tokio::time::pause();
    }
}

/// A server that takes so many connections.
fn few(connections: usize, tool: Tool) -> Handle {
    let server = server().tool(who_tool()).tool(tool);
    let server = server.resource(Resource::text("test://a", "a", "text"));
    let server = server.limits(limits(|limits| limits.connections = connections));
    server.start().expect("it is right")
}

/// A server on a socket.
fn serve(path: &Path, server: &Handle) -> Serving {
    let transport = unix(path).expect("the path is free");
    let server = server.clone();
    Serving::until(|stop| {
        let transport = transport.until(stop);
        async move { server.serve(transport).await }
    })
}

async fn dial(path: &Path) -> Peer {
    let stream = soon(UnixStream::connect(path)).await;
    let (reader, writer) = stream.expect("the server listens").into_split();
    Peer::new(reader, writer)
}

async fn ask(path: &Path) -> String {
    let mut peer = dial(path).await;
    peer.request(1, "tools/call", json!({ "name": "who" }))
        .await;
    let answer = peer.receive().await;
    let text = answer["result"]["content"][0]["text"].as_str();
    text.expect("the answer is text").to_owned()
}

fn who() -> Handle {
    server().tool(who_tool()).start().expect("it is right")
}

fn who_tool() -> Tool {
    async fn who(_: NoArgs, cx: Cx) -> String {
        format!("{:?}", cx.caller().transport()).to_lowercase()
    }
    Tool::new("who", who).read_only()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("it can be read").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
