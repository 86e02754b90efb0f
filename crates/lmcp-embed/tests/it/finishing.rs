//! A host that ends for good, and futures that end with it.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use lmcp_core::{Cx, NoArgs, Server, Tool};
use lmcp_embed::{Ended, Host, whoami};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    restart::{asleep, kill},
    talker::Talker,
    visitor::{call, private_folder, request},
};

const LONG: Duration = Duration::from_secs(600);

/// Returns a server with a tool that reports its begin, and ends when the test says so.
fn server(begins: mpsc::Sender<()>, may_end: &Arc<Notify>) -> Server {
    let may_end = Arc::clone(may_end);
    let slow = move |_: NoArgs, _: Cx| {
        begins.send(()).unwrap();
        let may_end = Arc::clone(&may_end);
        async move {
            may_end.notified().await;
            "done"
        }
    };
    let slow = Tool::new("slow", slow).about("Takes long.").writes();
    Server::new("finishing", "1.0.0").tool(slow).tool(whoami())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().count() == 0
}

#[test]
fn calls_that_run_end_in_peace_and_others_are_refused() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let (begins, begun) = mpsc::channel();
    let may_end = Arc::default();
    let host = Host::start_at(server(begins, &may_end), &path).unwrap();
    let busy = host.child("busy", "worker").unwrap();
    let idle = host.child("idle", "worker").unwrap();
    let (mut busy_talker, mut idle_talker) = (Talker::start(&busy), Talker::start(&idle));
    let children = [busy.detach(), idle.detach()];
    busy_talker.say(&call(1, "slow", &json!({})));
    begun.recv().unwrap();
    let finishing = thread::spawn(move || host.finish(LONG));
    // An idle child does not wait for the others.
    let last = idle_talker.hear("notifications/lmcp/goodbye");
    assert_eq!(last["params"]["then"], "gone");
    assert!(!path.exists());
    let refused = busy_talker.ask(&call(2, "whoami", &json!({})));
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("not begun"), "{refused}");
    assert!(begun.try_recv().is_err());
    may_end.notify_one();
    let answer = busy_talker.next();
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let last = busy_talker.next();
    assert_eq!(last["params"]["then"], "gone");
    finishing.join().unwrap();
    assert!(children.iter().all(|child| child.has_ended()));
    assert!(is_empty(folder.path()));
}

#[test]
fn calls_that_take_longer_are_cancelled() {
    let folder = private_folder();
    let (begins, begun) = mpsc::channel();
    let may_end = Arc::default();
    let host = Host::start_in(server(begins, &may_end), folder.path()).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut talker = Talker::start(&child);
    talker.say(&call(1, "slow", &json!({})));
    begun.recv().unwrap();
    host.finish(Duration::from_millis(1));
    // The handler is gone, and with it its handle of the signal.
    assert_eq!(Arc::strong_count(&may_end), 1);
    let last = talker.next();
    assert_eq!(last["params"]["then"], "gone", "{last}");
    assert!(child.has_ended());
    drop(child);
    assert!(is_empty(folder.path()));
}

#[test]
fn a_subscription_holds_up_no_end() {
    let folder = private_folder();
    let host = Host::start_in(
        Server::new("finishing", "1.0.0").tool(whoami()),
        folder.path(),
    );
    let host = host.unwrap();
    // The server is served elsewhere, too, so it does not end its subscriptions.
    let (server, elsewhere) = (host.server().clone(), private_folder());
    let socket = elsewhere.path().join("other.sock");
    let (serves, serving) = mpsc::channel();
    host.spawn(async move {
        let socket = lmcp_core::unix(socket).unwrap();
        serves.send(()).unwrap();
        server.serve(socket).await.unwrap();
    });
    serving.recv().unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut talker = Talker::start(&child);
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    talker.say(&request(1, "subscriptions/listen", filter));
    talker.hear("notifications/subscriptions/acknowledged");
    host.finish(LONG);
    let last = talker.hear("notifications/lmcp/goodbye");
    assert_eq!(last["params"]["then"], "gone");
}

#[test]
fn a_process_runs_on_and_belongs_to_no_later_host() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let server = || Server::new("finishing", "1.0.0");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut process = asleep(&child);
    child.detach();
    host.finish(LONG);
    assert_eq!(process.try_wait().unwrap(), None);
    assert!(is_empty(folder.path()));
    let host = Host::start_at(server(), &path).unwrap();
    assert!(host.children().is_empty());
    kill(process);
}

#[tokio::test]
async fn on_the_only_thread_of_the_program_the_host_ends_afterwards() {
    let folder = private_folder();
    let setup = Host::setup().path(folder.path().join("host.sock"));
    let (begins, mut begun) = mpsc::channel();
    let may_end = Arc::default();
    let host = setup.start_here(server(begins, &may_end)).await.unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut command = Talker::command();
    let process = child.spawn(&mut command).unwrap();
    let child = child.detach();
    let talking = tokio::task::spawn_blocking(move || {
        let mut talker = Talker::of(process);
        talker.say(&call(1, "slow", &json!({})));
        (talker.next(), talker.next())
    });
    begun = tokio::task::spawn_blocking(move || {
        begun.recv().unwrap();
        begun
    })
    .await
    .unwrap();
    host.finish(LONG);
    assert!(begun.try_recv().is_err());
    may_end.notify_one();
    let (answer, last) = talking.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert_eq!(last["params"]["then"], "gone");
    // The connection may have told it that its process has ended before the host has.
    assert!(matches!(
        child.ended().await,
        Ended::HostClosed | Ended::Process(_)
    ));
}

/// Reports when it is dropped.
struct Ends(mpsc::Sender<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_program_without_a_runtime_sets_timers() {
    let folder = private_folder();
    let host = Host::start_in(Server::new("finishing", "1.0.0"), folder.path()).unwrap();
    let (sender, rang) = mpsc::channel();
    host.spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        sender.send("a").unwrap();
    });
    assert_eq!(rang.recv(), Ok("a"));
    let handle = host.handle();
    let (sender, ended) = mpsc::channel();
    let ends = Ends(sender);
    handle.spawn(async move {
        let _ends = ends;
        std::future::pending().await
    });
    host.close();
    ended.recv().unwrap();
    let (sender, ended) = mpsc::channel();
    let ends = Ends(sender);
    handle.spawn(async move { drop(ends) });
    ended.recv().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_ends_before_the_state_of_the_program_is_saved() {
    let folder = private_folder();
    let setup = Host::setup().folder(folder.path());
    let server = Server::new("finishing", "1.0.0");
    let host = setup.start_here(server).await.unwrap();
    let (sender, ended) = mpsc::channel();
    let ends = Ends(sender);
    host.spawn(async move {
        let _ends = ends;
        std::future::pending().await
    });
    let failed = host.exec_with(|| {
        ended.recv().unwrap();
        Ok(Command::new(folder.path().join("missing")))
    });
    assert_eq!(failed.kind(), std::io::ErrorKind::NotFound);
}
