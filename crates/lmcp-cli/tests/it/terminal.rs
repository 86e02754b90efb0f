//! What somebody sees who starts it by hand.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader},
    os::fd::OwnedFd,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Running, file, lmcp};

/// What is said on a terminal, up to its last line.
fn said(options: &[&str]) -> String {
    let terminal: OwnedFd =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has terminals");
    grantpt(&terminal).expect("the system has terminals");
    unlockpt(&terminal).expect("the system has terminals");
    let name = ptsname(&terminal, Vec::new()).expect("the system has terminals");
    let screen = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().expect("the system has terminals"));
    let mut command = lmcp(&["serve", "--http", ":0"]);
    command
        .args(options)
        .stderr(screen.expect("the system has terminals"));
    let _running = Running(command.spawn().expect("the binary was built for this test"));
    drop(command);
    let mut words = String::new();
    for line in BufReader::new(File::from(terminal))
        .lines()
        .map_while(Result::ok)
    {
        words += &format!("{line}\n");
        if line.starts_with("Ctrl-C") {
            break;
        }
    }
    words.replace('\r', "")
}

#[test]
fn it_says_where_it_is_how_to_get_there_and_what_holds() {
    let words = said(&["--root", "/usr", "--read-only"]);
    let url = words
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("listening on "));
    let url = url.expect("the first line says where");
    assert!(
        words.contains(&format!("claude mcp add --transport http lmcp {url}\n")),
        "{words}"
    );
    assert!(words.contains(&format!(r#""url": "{url}""#)), "{words}");
    assert!(
        words.contains("below /usr\n") && words.contains("no tool changes anything"),
        "{words}"
    );
    assert!(!words.contains("Authorization"), "{words}");
}

#[test]
fn with_a_token_it_says_how_to_send_it_and_not_what_it_is() {
    let path = file("terminal-token", "hush-hush", 0o600);
    let words = said(&["--token-file", path.to_str().unwrap()]);
    let header = format!(
        "--header \"Authorization: Bearer $(cat '{}')\"",
        path.display()
    );
    assert!(words.contains(&header), "{words}");
    assert!(!words.contains("hush"), "{words}");
}
