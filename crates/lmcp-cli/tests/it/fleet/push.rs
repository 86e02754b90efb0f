//! `lmcp hub push`: copies this program over a real sshd, into a home that is a folder of the test.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{Place, Sshd};
use crate::support::{lmcp, refusal, said, screen, terminal};

/// Starts a host behind ssh without lmcp, whose home is in this folder.
fn far(place: &Place) -> Option<(Sshd, String)> {
    let home = place.0.join("home");
    fs::create_dir_all(&home).expect("tests may write here");
    let sshd = Sshd::start_with(&place.0, &format!("SetEnv HOME={}", home.display()))?;
    let config = sshd.config.display();
    let host = format!("[hosts.far]\nssh = 'far'\nssh_config = '{config}'\n");
    Some((sshd, host))
}

fn push(place: &Place, more: &[&str]) -> Command {
    let mut command = lmcp(&["hub", "push", "far", "--config", &place.path("hub.toml")]);
    command.args(more);
    command
}

/// Returns all files that were pushed.
fn pushed(place: &Place) -> Vec<PathBuf> {
    let list = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(Result::ok).map(|entry| entry.path())
    };
    let folders = list(place.0.join("home/.cache/lmcp"));
    folders.flat_map(list).collect()
}

#[test]
fn a_pushed_program_is_found_where_there_is_none() {
    let place = Place::new("push-found");
    let Some((_sshd, host)) = far(&place) else {
        return;
    };
    place.write("hub.toml", &host, 0o600);
    let words = refusal(push(&place, &[]));
    assert!(words.contains("nobody can be asked"), "{words}");
    assert!(words.contains("hint: --yes"), "{words}");
    assert!(pushed(&place).is_empty());
    let (code, words) = said(&push(&place, &["--yes"]).output().expect("it was built"));
    assert_eq!(code, Some(0), "{words}");
    let found = pushed(&place);
    let [program] = &found[..] else {
        panic!("one file, and no draft of it: {found:?}");
    };
    let mode = |path: &std::path::Path| {
        let found = fs::metadata(path).expect("it is there");
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode(program), 0o700);
    assert_eq!(mode(program.parent().expect("it has one")), 0o700);
    let ours = fs::read(env!("CARGO_BIN_EXE_lmcp")).expect("it was built");
    assert!(fs::read(program).expect("it is ours") == ours);
    let (code, words) = said(&push(&place, &[]).output().expect("it was built"));
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("already"), "{words}");
    let hub = place.hub(&host);
    let arguments = json!({ "host": "far", "command": "echo hi", "host_wait": 60 });
    let said = hub.structured("remote_shell", &arguments);
    let found = (&said["stdout"], &said["via"]);
    assert_eq!(found, (&json!("hi\n"), &json!("ssh")));
}

#[test]
fn whoever_sits_at_a_terminal_is_asked() {
    let place = Place::new("push-asked");
    let Some((_sshd, host)) = far(&place) else {
        return;
    };
    place.write("hub.toml", &host, 0o600);
    let (mut person, name) = terminal();
    let mut child = push(&place, &[])
        .stdin(Stdio::from(screen(&name)))
        .stderr(Stdio::from(screen(&name)))
        .spawn()
        .expect("the binary was built");
    let mut asked = String::new();
    let mut part = [0; 256];
    while !asked.contains("[y/N] ") {
        let read = person.read(&mut part).expect("it asks");
        asked.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    assert!(asked.contains(" to ~/.cache/lmcp/"), "{asked}");
    person.write_all(b"n\n").expect("it waits for that");
    let ended = child.wait().expect("it was started");
    assert_eq!(ended.code(), Some(1));
    assert!(pushed(&place).is_empty());
}

#[test]
fn a_host_of_another_kind_is_refused_before_anything_is_copied() {
    let place = Place::new("push-other");
    let bin = place.0.join("bin");
    fs::create_dir_all(&bin).expect("tests may write here");
    let uname = place.write("bin/uname", "#!/bin/sh\necho Linux mips64\n", 0o700);
    let more = format!(
        "SetEnv HOME={} PATH={}:/usr/bin:/bin",
        place.0.join("home").display(),
        uname.parent().expect("it has one").display()
    );
    let Some(sshd) = Sshd::start_with(&place.0, &more) else {
        return;
    };
    let config = sshd.config.display();
    let host = format!("[hosts.far]\nssh = 'far'\nssh_config = '{config}'\n");
    place.write("hub.toml", &host, 0o600);
    let (code, words) = said(&push(&place, &["--yes"]).output().expect("it was built"));
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("far is `Linux mips64`"), "{words}");
    assert!(pushed(&place).is_empty());
}
