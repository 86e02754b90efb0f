//! Places that other users can write: no file there is trusted, and other users cannot delay us there (D14, D16).

use std::{
    fs::{self, File, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, chown, lchown, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

use crate::{
    proxy::listening,
    support::{can_unshare, lmcp, program_in, refusal, said, start, unshared},
};

/// Two user numbers that nobody has: one runs the server, the other one disturbs it.
const USER: u32 = 64_999;
const OTHER: u32 = 64_998;

/// Returns whether the tests run as root, because only root can become another user.
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("note: only root can act as several users, so this is not tested");
    }
    is_root
}

fn folder(mode: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("tests may write here");
    fs::set_permissions(&folder, Permissions::from_mode(mode)).expect("it is ours");
    folder
}

fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).expect("root may do this");
}

#[test]
fn state_behind_a_link_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let (shared, theirs) = (folder(0o1777), folder(0o755));
    let link = shared.path().join("state");
    symlink(theirs.path(), &link).unwrap();
    give(&link, OTHER);
    for path in [link.clone(), link.join("lmcp")] {
        let mut serve = lmcp(&["serve", "--stdio", "--state-dir"]);
        let (code, words) = said(&serve.arg(&path).output().unwrap());
        assert_eq!(code, Some(1), "{words}");
        assert!(
            words.contains("is a link that user 64998 made in a shared folder"),
            "{words}"
        );
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
fn where_the_user_has_no_number_nothing_counts_as_the_users() {
    if !can_unshare(&["-U"]) {
        return;
    }
    let own = folder(0o700);
    let token = own.path().join("token");
    fs::write(&token, "s3cret-s3cret-s3cret").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let identity = own.path().join("identity");
    let text = format!(
        r#"{{"socket":"{}","identity":"t1"}}"#,
        own.path().join("s").display()
    );
    fs::write(&identity, text).unwrap();
    fs::set_permissions(&identity, Permissions::from_mode(0o600)).unwrap();
    let run = |arguments: &[&str], path: &Path| {
        let mut command = unshared(&["-U"], arguments);
        let (code, words) = said(&command.arg(path).output().unwrap());
        assert!(code.is_some_and(|code| code != 0), "{words}");
        assert!(words.contains("user 65534"), "{words}");
    };
    run(&["serve", "--stdio", "--state-dir"], own.path());
    run(&["serve", "--http", ":0", "--token-file"], &token);
    run(&["proxy", "--identity-file"], &identity);
}

#[test]
fn a_token_and_an_identity_behind_a_link_of_another_user_are_refused() {
    if !is_root() {
        return;
    }
    let (shared, own) = (folder(0o1777), folder(0o700));
    let link = shared.path().join("link");
    symlink(own.path(), &link).unwrap();
    give(&link, OTHER);
    let secret = own.path().join("secret");
    fs::write(&secret, "0123456789abcdef").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    for words in [
        ["serve", "--http=:0", "--token-file"],
        ["proxy", "--no-start", "--identity-file"],
    ] {
        let mut command = lmcp(&words);
        let (code, words) = said(&command.arg(link.join("secret")).output().unwrap());
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("is a link that user 64998 made"), "{words}");
    }
}

#[test]
fn a_config_with_headers_that_others_could_read_is_refused() {
    let own = folder(0o700);
    let config = own.path().join("hub.toml");
    let toml =
        "[servers.a]\nurl = 'http://127.0.0.1:9/mcp'\nheaders = { Authorization = 'VALUE' }\n";
    let json = r#"{ "mcpServers": { "a": { "url": "http://127.0.0.1:9/mcp", "headers": { "Authorization": "VALUE" } } } }"#;
    let hub = |text: &str, mode: u32| {
        fs::write(&config, text).unwrap();
        fs::set_permissions(&config, Permissions::from_mode(mode)).unwrap();
        let mut hub = lmcp(&["hub", "--http", "0", "--state-dir", "none", "--config"]);
        hub.arg(&config);
        hub
    };
    for text in [toml, json] {
        for value in ["Bearer hush", "${TOKEN:-hush}"] {
            let text = text.replace("VALUE", value);
            let words = refusal(hub(&text, 0o644));
            assert!(
                words.contains("headers") && words.contains("chmod 600"),
                "{words}"
            );
            assert!(!words.contains("hush"), "{words}");
            drop(start(hub(&text, 0o600)));
        }
        // The secret of such a header is not in the file.
        drop(start(hub(&text.replace("VALUE", "Bearer ${TOKEN}"), 0o644)));
    }
}

#[test]
fn a_config_that_others_could_have_written_is_refused() {
    let own = folder(0o700);
    let config = own.path().join("lmcp.toml");
    fs::write(&config, "demo = true\nhttp = '127.0.0.1:0'\n").unwrap();
    let serve = |mode: u32| {
        fs::set_permissions(&config, Permissions::from_mode(mode)).unwrap();
        let mut serve = lmcp(&["serve", "--config"]);
        serve.arg(&config);
        serve
    };
    let refused = |mode: u32, why: &str| {
        let words = refusal(serve(mode));
        let shown = format!("cannot trust {}: {why}", config.display());
        assert!(words.contains(&shown), "{words}");
    };
    refused(0o666, "others can write it, its mode is 0666");
    refused(0o622, "others can write it, its mode is 0622");
    drop(start(serve(0o644)));
    // A user who can write the folder can replace the file.
    fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
    refused(0o644, "others can write the folder of `lmcp.toml`");
    fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    if !is_root() {
        return;
    }
    // A group with the user's own number contains only that user.
    drop(start(serve(0o664)));
    chown(&config, None, Some(OTHER)).unwrap();
    refused(0o664, "others can write it, its mode is 0664");
    give(&config, OTHER);
    refused(0o644, "it belongs to user 64998, and its mode is 0644");
    let mut run = lmcp(&["run", "--config"]);
    run.arg(&config).args(["--", "true"]);
    assert!(refusal(run).contains("it belongs to user 64998"));
}

#[test]
fn a_lock_of_somebody_else_does_not_hold_up_the_start() {
    let shared = folder(0o1777);
    // The lock is on the folder, where every user who can read it can take one.
    let held = File::open(shared.path()).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut serve = lmcp(&["serve", "--demo", "--unix"]);
    drop(listening(serve.arg(shared.path().join("s"))));
    drop(held);
}

#[test]
fn a_name_that_somebody_else_has_taken_is_said_at_once() {
    if !is_root() {
        return;
    }
    let shared = folder(0o1777);
    let taken = shared.path().join("s");
    fs::write(&taken, "").unwrap();
    give(&taken, OTHER);
    let mut serve = lmcp(&["serve", "--demo", "--unix"]);
    let (code, words) = said(&serve.arg(&taken).output().unwrap());
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("`s` is something that user 64998 made") && words.contains("of your own"),
        "{words}"
    );
}

#[test]
fn who_takes_the_usual_name_in_tmp_does_not_keep_a_user_from_serving() {
    if !is_root() {
        return;
    }
    let usual = PathBuf::from(format!("/tmp/lmcp-{USER}"));
    let _ = fs::create_dir(&usual);
    chown(&usual, Some(OTHER), Some(OTHER)).unwrap();
    let home = folder(0o700);
    give(home.path(), USER);
    let binary = folder(0o755);
    let program = program_in(binary.path());
    let mut serve = std::process::Command::new(&program);
    serve
        .args(["serve", "--demo", "--unix"])
        .env_clear()
        .env("HOME", home.path())
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .stderr(std::process::Stdio::piped());
    let _serving = listening(&mut serve);
    let socket = home.path().join(".local/state/lmcp/run/serve.sock");
    assert!(socket.exists());
    fs::remove_dir(usual).unwrap();
}
