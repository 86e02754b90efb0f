//! Tools that know the host and the child that calls them (H1, H6).

use lmcp_core::{Cx, NoArgs, Server, Tool, ToolResult};
use lmcp_embed::{ChildOf as _, Host, HostHandle};
use serde_json::json;

use crate::{
    restart::{asleep, kill},
    visitor::{call, heard, private_folder, visitor},
};

/// A tool that counts the children of its host.
fn counting(host: &HostHandle) -> Server {
    let host = host.clone();
    let count = move |_: NoArgs, _: Cx| {
        let count = host.children().len();
        async move { count.to_string() }
    };
    let tool = Tool::new("count", count).about("Counts.").read_only();
    Server::new("handles", "1.0.0").tool(tool)
}

#[test]
fn a_tool_may_hold_the_host_and_the_host_still_goes() {
    let folder = private_folder();
    let mut known = None;
    let host = Host::setup().folder(folder.path()).start_with(|handle| {
        known = Some(handle.clone());
        counting(handle)
    });
    let (host, known) = (host.unwrap(), known.unwrap());
    let one = host.child("one", "worker").unwrap();
    let _other = known.child("other", "worker").unwrap();
    assert_eq!(known.find(&one.identity().id).as_ref(), Some(one.handle()));
    let count = [call(1, "count", &json!({}))];
    let heard = heard(one.spawn(&mut visitor("env", 2, &count)).unwrap());
    assert_eq!(heard[1]["result"]["content"][0]["text"], "2");
    assert!(known.server().is_some());
    host.close();
    assert!(known.server().is_none());
    assert!(known.children().is_empty());
    assert!(known.child("late", "worker").is_err());
    assert!(known.events().wait().is_none());
}

struct Pane(u32);

#[test]
fn a_child_has_data_of_the_program_and_fields_in_its_welcome() {
    async fn pane(_: NoArgs, cx: Cx) -> String {
        let pane = cx.child_data::<Pane>().unwrap();
        let label = &cx.child().unwrap().identity().label;
        format!("{label} is in pane {}", pane.0)
    }
    let folder = private_folder();
    let server = Server::new("handles", "1.0.0").tool(Tool::new("pane", pane).read_only());
    let host = Host::start_in(server, folder.path()).unwrap();
    let children = [("ann", 3), ("bob", 4)].map(|(label, number)| {
        let child = host.child(label, "worker").unwrap();
        child.set_data(Pane(number));
        child.set_field("pane", number);
        child.set_field("role", "lead");
        (child, label, number)
    });
    for (child, label, number) in &children {
        let asked = [call(1, "pane", &json!({}))];
        let heard = heard(child.spawn(&mut visitor("env", 2, &asked)).unwrap());
        let welcome = &heard[0]["lmcp_welcome"];
        assert_eq!(welcome["pane"], *number);
        // The program cannot change the fields that every welcome has.
        assert_eq!(welcome["role"], "worker");
        let text = &heard[1]["result"]["content"][0]["text"];
        assert_eq!(*text, format!("{label} is in pane {number}"));
    }
}

#[tokio::test]
async fn a_host_on_the_callers_runtime_has_its_folder_and_its_handle() {
    let folder = private_folder();
    let setup = Host::setup().folder(folder.path());
    let host = setup.start_here_with(counting).await.unwrap();
    assert_eq!(host.socket().parent(), Some(folder.path()));
    assert!(host.handle().children().is_empty());
}

#[test]
fn state_holds_the_host_before_there_is_one() {
    let folder = private_folder();
    let setup = Host::setup().folder(folder.path());
    let early = setup.handle();
    assert!(early.children().is_empty() && early.server().is_none());
    assert!(early.child("early", "worker").is_err());
    let host = setup.start(counting(&early)).unwrap();
    let child = early.child("ann", "worker").unwrap();
    assert_eq!(host.find_label("ann").as_ref(), Some(child.handle()));
    let count = [call(1, "count", &json!({}))];
    let heard = heard(child.spawn(&mut visitor("env", 2, &count)).unwrap());
    assert_eq!(heard[1]["result"]["content"][0]["text"], "1");
}

#[test]
fn a_tool_for_children_refuses_others() {
    async fn label(_: NoArgs, cx: Cx) -> ToolResult<String> {
        Ok(cx.calling_child()?.identity().label.clone())
    }
    let folder = private_folder();
    let tool = Tool::new("label", label).about("Your label.").read_only();
    let server = Server::new("handles", "1.0.0").tool(tool);
    let host = Host::start_in(server, folder.path()).unwrap();
    let child = host.child("ann", "worker").unwrap();
    let asked = [call(1, "label", &json!({}))];
    let heard = heard(child.spawn(&mut visitor("env", 2, &asked)).unwrap());
    assert_eq!(heard[1]["result"]["content"][0]["text"], "ann");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let here = host.server().client();
    let refused = runtime
        .block_on(here.call_tool("label", json!({})))
        .unwrap();
    assert!(refused.is_error, "{refused:?}");
}

#[test]
fn a_child_of_an_earlier_program_can_do_what_a_child_can() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let server = || Server::new("handles", "1.0.0");
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.child("ann", "lead").unwrap();
    let process = asleep(&child);
    let (credentials, entry) = (child.credentials().to_owned(), child.mcp_entry("lmcp"));
    child.detach();
    host.close();
    let host = Host::start_at(server(), &path).unwrap();
    let child = host.find_label("ann").unwrap();
    assert_eq!(child.credentials(), credentials);
    assert_eq!(child.mcp_entry("lmcp"), entry);
    assert!(child.folder().is_dir());
    let below = child.child("bob", "worker").unwrap();
    assert_eq!(below.identity().parent, Some(child.identity().id.clone()));
    kill(process);
}

#[test]
fn children_are_listed_in_the_order_in_which_they_were_made_also_after_a_restart() {
    let folder = private_folder();
    let path = folder.path().join("host.sock");
    let server = || Server::new("handles", "1.0.0");
    let labels = |host: &Host| -> Vec<String> {
        let children = host.children().into_iter();
        children
            .map(|child| child.identity().label.clone())
            .collect()
    };
    let mut host = Host::start_at(server(), &path).unwrap();
    let (mut made, mut processes) = (Vec::new(), Vec::new());
    for round in 0..3 {
        for number in 0..5 {
            let child = host.child(&format!("{round}-{number}"), "w").unwrap();
            processes.push(asleep(&child));
            made.push(child.detach().identity().label.clone());
        }
        assert_eq!(labels(&host), made);
        host.close();
        host = Host::start_at(server(), &path).unwrap();
        assert_eq!(labels(&host), made);
    }
    let twin = host.child("0-0", "w").unwrap();
    assert!(
        host.find_label("0-0")
            .is_some_and(|first| first != *twin.handle())
    );
    processes.into_iter().for_each(kill);
}

#[test]
fn an_event_can_be_read_when_its_child_is_not_listed_any_more() {
    let folder = private_folder();
    let host = Host::start_in(Server::new("handles", "1.0.0"), folder.path()).unwrap();
    let mut events = host.events();
    for _ in 0..300 {
        let child = host.child("ann", "w").unwrap();
        let ending = std::thread::spawn(move || drop(child));
        while !host.children().is_empty() {
            std::thread::yield_now();
        }
        assert!(events.take().is_some());
        ending.join().unwrap();
    }
}

#[test]
fn a_host_with_unique_labels_refuses_a_label_until_its_child_has_ended() {
    let folder = private_folder();
    let setup = Host::setup().folder(folder.path()).unique_labels();
    let host = setup.start(Server::new("handles", "1.0.0")).unwrap();
    let ann = host.child("ann", "lead").unwrap();
    let refused = ann.child("ann", "worker").unwrap_err().to_string();
    assert!(
        refused.contains("there is a child `ann` already"),
        "{refused}"
    );
    assert_eq!(host.children(), [ann.handle().clone()]);
    let _bob = host.child("bob", "worker").unwrap();
    drop(ann);
    host.child("ann", "worker").unwrap();
}
