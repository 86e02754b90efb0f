//! `lmcp hub status --watch`.

use std::io::{BufRead as _, BufReader, Read as _};

use serde_json::Value;

use super::{Place, demo, with_client};
use crate::support::{Running, lmcp, screen, terminal, tool_names};

#[test]
fn a_program_gets_a_line_at_each_change() {
    let place = Place::new("hub-watch");
    let (_running, address) = place.http(&place.write("hub.toml", &demo("one")));
    assert_eq!(tool_names(&address).len(), 4);
    let at = format!("http://{address}/mcp");
    let mut command = lmcp(&["hub", "status", "--watch", "--json", "--at", &at]);
    let mut watching = Running(command.spawn().expect("the binary was built for this test"));
    let mut lines = BufReader::new(watching.0.stdout.take().expect("stdout is a pipe")).lines();
    let mut calls = || {
        let line = lines.next().expect("it goes on").expect("it writes");
        let said: Value = serde_json::from_str(&line).expect("each line is a document");
        said["servers"][0]["calls"].clone()
    };
    assert_eq!(calls(), 0);
    with_client(&address, &["call", "one__echo", "text=x"]);
    while calls() != 1 {}
}

#[test]
fn on_a_terminal_the_table_is_drawn_again_and_again() {
    let place = Place::new("hub-watch-terminal");
    let (_running, address) = place.http(&place.write("hub.toml", &demo("one")));
    assert_eq!(tool_names(&address).len(), 4);
    let at = format!("http://{address}/mcp");
    let (mut person, name) = terminal();
    let mut command = lmcp(&["hub", "status", "--watch", "--at", &at]);
    command.stdout(screen(&name));
    let _watching = Running(command.spawn().expect("the binary was built for this test"));
    drop(command);
    let (mut seen, mut part) = (String::new(), [0; 4096]);
    while seen.matches("\x1b[H\x1b[J").count() < 3 {
        let read = person.read(&mut part).expect("it draws");
        seen += &String::from_utf8_lossy(&part[..read]);
    }
    assert!(seen.contains("SERVER") && seen.contains("ready"), "{seen}");
}
