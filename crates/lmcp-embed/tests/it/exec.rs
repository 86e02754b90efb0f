//! The steps of a host before it becomes another program: the last handler ends, then the program saves its state.

use std::{
    fs, io,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
};

use lmcp_core::{Cx, NoArgs, Server, Tool};
use lmcp_embed::{Host, inbox};
use serde_json::json;
use tokio::runtime;

use crate::{
    talker::Talker,
    visitor::{call, private_folder},
};

/// Sets a flag when its handler ends, for whatever reason.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A tool that reports its begin, and runs until it is cancelled.
fn endless(begun: mpsc::Sender<()>, has_ended: &Arc<AtomicBool>) -> Tool {
    let has_ended = Arc::clone(has_ended);
    let endless = move |_: NoArgs, _: Cx| {
        let ends = Ends(Arc::clone(&has_ended));
        let begun = begun.send(());
        async move {
            let _ends = ends;
            begun.unwrap();
            std::future::pending::<String>().await
        }
    };
    Tool::new("endless", endless).about("Goes on.").read_only()
}

#[test]
fn the_state_of_a_program_is_saved_when_the_last_handler_has_ended() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let (begins, begun) = mpsc::channel();
    let has_ended = Arc::default();
    let server = Server::new("exec", "1.0.0").tool(endless(begins, &has_ended));
    let host = Host::start_at(server, &path).unwrap();
    let caller = host.child("ann", "worker").unwrap();
    let mut talker = Talker::start(&caller);
    let child = host.child("bob", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    let child = child.detach();
    talker.say(&call(1, "endless", &json!({})));
    begun.recv().unwrap();
    let failed = host.exec_with(|| {
        assert!(has_ended.load(Ordering::SeqCst));
        assert!(!path.exists());
        // The child is still known, so a value can be stored with it.
        child.store(&"the last word").unwrap();
        Err(io::Error::other("no disk"))
    });
    assert_eq!(failed.to_string(), "no disk");
    // The program was not replaced, and starts a host in the same place.
    let host = Host::start_at(Server::new("exec", "1.0.0"), &path).unwrap();
    let found = host.handle().find_label("bob").unwrap();
    assert_eq!(found.identity().id, child.identity().id);
    assert_eq!(found.stored::<String>().as_deref(), Some("the last word"));
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_command_that_cannot_be_started_is_told() {
    let folder = private_folder();
    let host = Host::start_in(Server::new("exec", "1.0.0"), folder.path()).unwrap();
    let missing = folder.path().join("missing");
    let failed = host.exec_with(|| Ok(Command::new(missing)));
    assert_eq!(failed.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_child_without_its_folder_holds_up_no_program_that_becomes_another() {
    let folder = private_folder();
    let host = Host::start_in(Server::new("exec", "1.0.0"), folder.path()).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    fs::remove_dir_all(child.folder()).unwrap();
    let failed = host.exec_with(|| Err(io::Error::other("saved")));
    assert_eq!(failed.to_string(), "saved");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_on_the_programs_runtime_has_closed_before_the_state_is_saved() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let setup = Host::setup().path(&path);
    let server = Server::new("exec", "1.0.0");
    let host = setup.start_here(server).await.unwrap();
    let failed = runtime::Handle::current().spawn(async move {
        host.exec_with(|| {
            assert!(!path.exists());
            Err(io::Error::other("saved"))
        })
    });
    assert_eq!(failed.await.unwrap().to_string(), "saved");
}

#[tokio::test]
async fn a_host_on_the_only_thread_of_the_program_is_not_waited_for() {
    let server = Server::new("exec", "1.0.0");
    let folder = private_folder();
    let setup = Host::setup().folder(folder.path());
    let host = setup.start_here(server).await.unwrap();
    let failed = host.exec_with(|| Err(io::Error::other("saved")));
    assert_eq!(failed.to_string(), "saved");
}

#[test]
fn messages_are_handed_over_by_a_host_without_a_path() {
    let folder = private_folder();
    let server = || Server::new("exec", "1.0.0").tools(inbox());
    let host = Host::start_in(server(), folder.path()).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let mut process = child.spawn(Command::new("sleep").arg("60")).unwrap();
    let child = child.detach();
    child.deliver("early").unwrap();
    let failed = host.exec_with(|| {
        child.deliver("late")?;
        Err(io::Error::other("no disk"))
    });
    assert_eq!(failed.to_string(), "no disk");
    assert_eq!(
        child.deliver("too late").unwrap_err().kind(),
        io::ErrorKind::NotConnected
    );
    let host = Host::start_in(server(), folder.path()).unwrap();
    let state = serde_json::to_value(host.export()).unwrap();
    assert_eq!(state["children"][0]["inbox"], json!(["early", "late"]));
    process.kill().unwrap();
    process.wait().unwrap();
    drop(host);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
