//! Notifications to one child outside of a call, and roles that change (H4, H5).

use lmcp_core::{Cx, NoArgs, Prompt, Resource, Server, Tool};
use lmcp_embed::{Child, Event, Host};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    talker::Talker,
    visitor::{private_folder, request},
};

async fn nothing(_: NoArgs, _: Cx) -> String {
    "done".into()
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

async fn note(named: Named, _: Cx) -> String {
    named.name
}

fn server() -> Server {
    let tool = |name: &str| Tool::new(name, nothing).about("Does nothing.").read_only();
    let secret = Resource::template("secret://{name}", "secret", note);
    let secret = secret.complete("name", |_, _| async { vec!["one".to_owned()] });
    Server::new("reach", "1.0.0")
        .tool(tool("common"))
        .tool(tool("stop").only_for(["lead"]))
        .resource(Resource::new("inbox://mine", "inbox", nothing))
        .resource(Resource::new("plan://all", "plan", nothing).only_for(["lead"]))
        .resource(secret.only_for(["lead"]))
        .prompt(Prompt::new("hello", nothing))
        .prompt(Prompt::new("order", nothing).only_for(["lead"]))
}

fn host() -> (Host, tempfile::TempDir) {
    let folder = private_folder();
    (Host::start_in(server(), folder.path()).unwrap(), folder)
}

/// Starts a child that listens: to all lists, to the inbox and to the plan.
fn listening(host: &Host, label: &str, role: &str) -> (Child, Talker) {
    let child = host.child(label, role).unwrap();
    let mut talker = Talker::start(&child);
    let wished = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["inbox://mine", "plan://all"],
    });
    let listen = json!({ "notifications": wished });
    talker.say(&request(900, "subscriptions/listen", listen));
    talker.hear("notifications/subscriptions/acknowledged");
    (child, talker)
}

/// Returns the notifications of a child up to the one for its inbox, which is sent last.
fn heard(child: &Child, talker: &mut Talker) -> Vec<String> {
    child.resource_updated("inbox://mine");
    let mut heard = Vec::new();
    loop {
        let message = talker.next();
        if message["params"]["uri"] == "inbox://mine" {
            heard.sort();
            return heard;
        }
        heard.push(message["method"].as_str().unwrap_or_default().to_owned());
    }
}

#[test]
fn a_resource_is_told_as_updated_to_one_child_alone() {
    let (host, _folder) = host();
    let (ann, mut to_ann) = listening(&host, "ann", "worker");
    let (bob, mut to_bob) = listening(&host, "bob", "worker");
    ann.resource_updated("inbox://mine");
    let told = to_ann.hear("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "inbox://mine");
    assert_eq!(heard(&bob, &mut to_bob), [""; 0]);
    host.server()
        .to(lmcp_core::Audience::Role("worker"))
        .tools_changed();
    for talker in [&mut to_ann, &mut to_bob] {
        talker.hear("notifications/tools/list_changed");
    }
    ann.prompts_changed();
    ann.resources_changed();
    to_ann.hear("notifications/prompts/list_changed");
    to_ann.hear("notifications/resources/list_changed");
    assert_eq!(heard(&bob, &mut to_bob), [""; 0]);
    // On a connection where clients get only notifications that they asked for, the program's own notification is sent to
    // nobody.
    assert_eq!(ann.notify("notifications/deck/bell", &json!({})), Ok(0));
}

#[test]
fn a_session_hears_a_notification_of_the_programs_own() {
    let (host, _folder) = host();
    let children = ["ann", "bob"].map(|label| {
        let child = host.child(label, "worker").unwrap();
        let mut talker = Talker::start(&child);
        talker.handshake();
        (child, talker)
    });
    let [(ann, mut to_ann), (_bob, mut to_bob)] = children;
    assert_eq!(
        ann.notify("notifications/deck/bell", &json!({ "pane": 2 })),
        Ok(1)
    );
    assert_eq!(to_ann.hear("notifications/deck/bell")["params"]["pane"], 2);
    to_bob.say(r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    assert_eq!(to_bob.next()["id"], 5);
    assert!(ann.notify("deck/bell", &json!({})).is_err());
    assert!(ann.notify("notifications/x", &json!([])).is_err());
}

/// Returns the names in a list.
fn names(talker: &mut Talker, list: &str, member: &str, key: &str) -> Vec<String> {
    let answer = talker.ask(&request(2, list, json!({})));
    let items = answer["result"][member].as_array().unwrap().iter();
    items
        .map(|item| item[key].as_str().unwrap().to_owned())
        .collect()
}

fn sees(talker: &mut Talker) -> Value {
    json!([
        names(talker, "tools/list", "tools", "name"),
        names(talker, "prompts/list", "prompts", "name"),
        names(talker, "resources/list", "resources", "uri"),
        names(
            talker,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate"
        ),
    ])
}

#[test]
fn what_is_for_some_roles_is_not_there_for_others() {
    let (host, _folder) = host();
    let child = host.child("ann", "worker").unwrap();
    let mut worker = Talker::start(&child);
    let few = json!([["common"], ["hello"], ["inbox://mine"], []]);
    assert_eq!(sees(&mut worker), few);
    let complete = |reference: Value| {
        let argument = json!({ "name": "name", "value": "" });
        let params = json!({ "ref": reference, "argument": argument });
        request(3, "completion/complete", params)
    };
    let template = json!({ "type": "ref/resource", "uri": "secret://{name}" });
    let requests = [
        request(3, "resources/read", json!({ "uri": "plan://all" })),
        request(3, "resources/read", json!({ "uri": "secret://one" })),
        request(3, "prompts/get", json!({ "name": "order" })),
        complete(template),
        complete(json!({ "type": "ref/prompt", "name": "order" })),
    ];
    for request in &requests {
        let answer = worker.ask(request);
        assert!(answer["error"].is_object(), "{request}: {answer}");
        assert!(!answer.to_string().contains("did you mean"), "{answer}");
    }
    child.set_role("lead");
    let all = json!([
        ["common", "stop"],
        ["hello", "order"],
        ["inbox://mine", "plan://all"],
        ["secret://{name}"]
    ]);
    assert_eq!(sees(&mut worker), all);
    for request in &requests[..4] {
        let answer = worker.ask(request);
        assert!(answer["result"].is_object(), "{request}: {answer}");
    }
}

#[test]
fn a_new_role_is_told_to_its_child_alone_and_to_the_program() {
    let (host, _folder) = host();
    let (ann, mut to_ann) = listening(&host, "ann", "worker");
    let (bob, mut to_bob) = listening(&host, "bob", "worker");
    let mut events = host.events();
    let lists = [
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
    ];
    ann.set_role("lead");
    assert_eq!(heard(&ann, &mut to_ann), lists);
    // A role with the same lists causes no notification.
    ann.set_role("worker");
    assert_eq!(heard(&ann, &mut to_ann), lists);
    ann.set_role("watcher");
    ann.set_role("watcher");
    assert_eq!(heard(&ann, &mut to_ann), [""; 0]);
    assert_eq!(heard(&bob, &mut to_bob), [""; 0]);
    for expected in ["worker", "lead", "worker"] {
        let event = events.wait().unwrap();
        let Event::RoleChanged { child, from } = &event else {
            panic!("{event:?}");
        };
        assert_eq!((from.as_str(), child == ann.handle()), (expected, true));
    }
    assert!(events.take().is_none());
}

#[test]
fn who_may_not_read_a_resource_any_more_hears_no_more_of_it() {
    let (host, _folder) = host();
    let (lead, mut to_lead) = listening(&host, "ann", "lead");
    host.server().resource_updated("plan://all");
    to_lead.hear("notifications/resources/updated");
    lead.set_role("worker");
    host.server().resource_updated("plan://all");
    // The check runs twice: whether the plan may be read is only decided after the first notification.
    for _ in 0..2 {
        let told = heard(&lead, &mut to_lead);
        let update = "notifications/resources/updated".to_owned();
        assert!(!told.contains(&update), "{told:?}");
    }
}
