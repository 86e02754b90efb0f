//! `remote_copy` through the hub: every pair of ways, connections that are cut, and the rights of callers.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{Hub, Place, Sshd, json_of, read, ssh, token, trouble::children, url};

/// Returns bytes that differ from block to block.
fn bytes(length: u64) -> Vec<u8> {
    let byte = |at: u64| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..length).map(byte).collect()
}

fn copying(place: &Place, from: &str, to: &str, name: &str) -> Value {
    json!({
        "host": from, "path": place.path("source"), "to_host": to, "to_path": place.path(name), "host_wait": 60,
    })
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("it is text")
}

/// Returns the names of unfinished copies in a folder.
fn leftovers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("it is there").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".lmcp-")).collect()
}

#[test]
fn a_file_goes_from_every_kind_of_host_to_every_other() {
    let place = Place::new("fleet-copy");
    let (_near, address) = place.host("near", "state", "0");
    let mut config = url("near", &address);
    let mut hosts = vec![("near", "http")];
    let sshd = Sshd::start(&place.0);
    let home = place.0.join("home");
    let without = Sshd::at_home(&place.0.join("without"), &home, None);
    if let Some((sshd, without)) = sshd.as_ref().zip(without.as_ref()) {
        let program = place.far_program("state");
        config.push_str(&ssh("far", sshd, &program));
        config.push_str(&ssh("without", without, "no-such-lmcp"));
        hosts.extend([("far", "ssh"), ("without", "shell")]);
    }
    let hub = place.hub(&config);
    let content = bytes((2 << 20) + 77);
    fs::write(place.path("source"), &content).expect("tests may write here");
    let mode = fs::Permissions::from_mode(0o750);
    fs::set_permissions(place.path("source"), mode).expect("it is ours");
    for (from, via) in &hosts {
        for (to, to_via) in &hosts {
            let name = format!("{from}-{to}");
            let said = hub.structured("remote_copy", &copying(&place, from, to, &name));
            let told = ["host", "via", "to_host", "to_via"].map(|name| said[name].clone());
            assert_eq!(
                told,
                [from, via, to, to_via].map(|word| json!(word)),
                "{said}"
            );
            let made = fs::read(place.path(&name)).expect("it was copied");
            assert!(made == content, "{name}");
            let mode = fs::metadata(place.path(&name))
                .expect("it is there")
                .permissions();
            assert_eq!(mode.mode() & 0o7777, 0o750, "{name}");
            assert_eq!(said["sha256"].as_str().map(str::len), Some(64), "{said}");
        }
    }
    assert_eq!(leftovers(&place.0), Vec::<String>::new());
    let again = hub.call("remote_copy", &copying(&place, "near", "near", "near-near"));
    assert!(text(&again).contains("exists already"), "{again}");
    // A file is copied to all hosts. They share a folder here, so one host takes the file and the others find that it exists.
    let several = hub.call("remote_copy", &copying(&place, "near", "@all", "several"));
    let summary = &several["structuredContent"]["summary"];
    assert_eq!(
        summary["ok"].as_u64().map(|count| count >= 1),
        Some(true),
        "{several}"
    );
    let log = read(&place.0.join("hub.log"));
    assert!(log.contains("remote_copy on near via http: ok ("), "{log}");
}

/// Starts a copy, and waits until it has written something.
fn under_way(place: &Place, hub: &Hub, arguments: &Value) -> Child {
    let mut call = hub.calling("remote_copy", arguments);
    let call = call.stdout(Stdio::piped()).spawn();
    let mut call = call.expect("the binary was built");
    let length = |name: &String| fs::metadata(place.0.join(name)).map_or(0, |about| about.len());
    while leftovers(&place.0)
        .iter()
        .all(|name| length(name) < 2 << 20)
    {
        let ended = call.try_wait().expect("it was started");
        assert!(ended.is_none(), "it ended before it was cut off");
        std::thread::yield_now();
    }
    call
}

#[test]
fn a_copy_goes_on_after_its_link_was_cut_and_after_its_hub_was_killed() {
    let place = Place::new("fleet-copy-cut");
    let Some(sshd) = Sshd::start(&place.0) else {
        return;
    };
    let home = place.0.join("home");
    let without = Sshd::at_home(&place.0.join("without"), &home, None);
    let without = without.expect("the first one started");
    let (_near, address) = place.host("near", "state", "0");
    let config = format!(
        "{}{}{}",
        url("near", &address),
        ssh("far", &sshd, &place.far_program("state")),
        ssh("without", &without, "no-such-lmcp")
    );
    let mut hub = place.hub(&config);
    let content = bytes(16 << 20);
    fs::write(place.path("source"), &content).expect("tests may write here");
    for to in ["far", "without"] {
        hub.structured(
            "remote_list_dir",
            &json!({ "host": to, "path": "/", "host_wait": 60 }),
        );
        let name = format!("to-{to}");
        let call = under_way(&place, &hub, &copying(&place, "near", to, &name));
        for process in children(hub.running.0.id(), "ssh") {
            kill_process(process, Signal::KILL).expect("it is ours");
        }
        let result = json_of(&call.wait_with_output().expect("it was started"));
        assert!(result["isError"].is_null(), "{to}: {result}");
        assert!(
            fs::read(place.path(&name)).expect("it was copied") == content,
            "{to}"
        );
        assert_eq!(leftovers(&place.0), Vec::<String>::new(), "{to}");
    }
    let arguments = copying(&place, "far", "near", "killed");
    let call = under_way(&place, &hub, &arguments);
    hub.running.0.kill().expect("it is ours");
    let _ = call.wait_with_output();
    assert!(!Path::new(&place.path("killed")).exists());
    let hub = place.hub(&config);
    let said = hub.structured("remote_copy", &arguments);
    assert!(said["resumed_bytes"].as_u64() >= Some(1 << 20), "{said}");
    assert!(fs::read(place.path("killed")).expect("it was copied") == content);
    assert_eq!(leftovers(&place.0), Vec::<String>::new());
}

#[test]
fn a_copy_needs_rights_on_both_hosts() {
    let place = Place::new("fleet-copy-rights");
    let (_one, first) = place.host("one", "one-state", "0");
    let (_two, second) = place.host("two", "two-state", "0");
    let tokens = [
        token("all", ""),
        token("reads", "on_hosts = { read_only = true }\n"),
        token("one", "on_hosts = { hosts = ['one'] }\n"),
        token(
            "shell",
            "on_hosts = { tools = ['shell', 'read_file', 'write_file'] }\n",
        ),
        token("copy", "on_hosts = { tools = ['copy'] }\n"),
    ];
    let hosts = [
        url("one", &first),
        url("two", &second),
        "read_only = true\n".to_owned(),
    ];
    let hub = place.hub(&format!("{}{}", tokens.concat(), hosts.concat()));
    fs::write(place.path("source"), "abc").expect("tests may write here");
    let copy = |who: &str, from: &str, to: &str| {
        let mut call = hub.calling("remote_copy", &copying(&place, from, to, who));
        call.env("LMCP_TOKEN", format!("token-of-{who}"));
        json_of(&call.output().expect("the binary was built"))
    };
    for (who, from, to, words) in [
        ("all", "one", "two", "the host is read-only"),
        ("reads", "two", "one", "only tools that change nothing"),
        ("one", "two", "one", "there is no host `two`"),
        ("one", "one", "two", "there is no host `two`"),
        ("shell", "two", "one", "does not allow `remote_copy`"),
    ] {
        let refused = copy(who, from, to);
        assert!(
            refused["isError"] == true && text(&refused).contains(words),
            "{who}: {refused}"
        );
        assert!(!Path::new(&place.path(who)).exists(), "{who}");
    }
    // A host that is `read_only` can be the source of a copy.
    for who in ["all", "copy"] {
        let said = copy(who, "two", "one");
        assert!(said["isError"].is_null(), "{said}");
        assert_eq!(read(Path::new(&place.path(who))), "abc");
    }
}
