//! Files that say how hosts are reached are not used if other users can change them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
};

use super::{Place, url};
use crate::support::{lmcp, refusal};

fn reason(place: &Place, config: &str, host: &str) -> String {
    let hub = place.hub(config);
    let status = hub.look(host);
    assert_eq!(status["state"], "down", "{status}");
    status["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_token_that_others_can_read_is_not_shown_to_a_host() {
    let place = Place::new("trust-token");
    let (_one, address) = place.host("one", "one-state", "0");
    let open = fs::Permissions::from_mode(0o644);
    fs::set_permissions(place.0.join("one.token"), open).expect("it is ours");
    let words = reason(&place, &url("one", &address), "one");
    assert!(words.contains("cannot trust the token in"), "{words}");
    assert!(words.contains("its mode must be 0600"), "{words}");
}

#[test]
fn a_configuration_of_ssh_that_others_can_write_is_not_used() {
    let place = Place::new("trust-ssh");
    let marker = place.path("connected");
    let text = format!("Host far\n  ProxyCommand touch {marker}\n");
    let config = place.write("ssh_config", &text, 0o666);
    let table = format!(
        "[hosts.far]\nssh = 'far'\nssh_config = '{}'\n",
        config.display()
    );
    let words = reason(&place, &table, "far");
    assert!(words.contains("cannot trust"), "{words}");
    assert!(words.contains("others can write it"), "{words}");
    assert!(!fs::exists(&marker).expect("tests may look here"));
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn files_of_other_users_are_not_used_by_root() {
    if !rustix::process::getuid().is_root() {
        eprintln!("note: this user cannot give files away, so files of others are not tested");
        return;
    }
    let place = Place::new("trust-others");
    let (_one, address) = place.host("one", "one-state", "0");
    let registry = place.write(
        "hosts",
        &format!("one - http://{address}/mcp token-of-one\n"),
        0o600,
    );
    chown(&registry, Some(65534), None).expect("root may");
    let mut command = lmcp(&["hub", "--http", "0"]);
    command.env("LMCP_HUB_BACKENDS", &registry);
    let words = refusal(command);
    assert!(words.contains("belongs to another user"), "{words}");
    chown(place.0.join("one.token"), Some(65534), None).expect("root may");
    let words = reason(&place, &url("one", &address), "one");
    assert!(words.contains("belongs to another user"), "{words}");
    let config = place.write("ssh_config", "", 0o600);
    chown(&config, Some(65534), None).expect("root may");
    let table = format!(
        "[hosts.far]\nssh = 'far'\nssh_config = '{}'\n",
        config.display()
    );
    let words = reason(&place, &table, "far");
    assert!(words.contains("belongs to user 65534"), "{words}");
}
