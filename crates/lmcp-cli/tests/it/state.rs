//! The key of sessions, which is kept between two runs.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::support::{self, Running, get, lmcp, said, start};

#[test]
fn the_key_is_for_its_owner_alone() {
    let folder = folder("owner");
    let (child, _, words) = serve(&folder, &[]);
    drop(child);
    assert_eq!(words, "", "there is nothing to say about it");
    let key = fs::metadata(folder.join("session.key")).unwrap();
    assert_eq!((key.mode() & 0o777, key.len()), (0o600, 32));
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["jobs", "session.key"], "no draft is left");
}

#[test]
fn a_key_that_is_none_is_refused() {
    let folder = folder("refused");
    fs::create_dir_all(&folder).unwrap();
    let key = folder.join("session.key");
    for bytes in [&b"short"[..], b""] {
        fs::write(&key, bytes).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let output = lmcp(&["serve", "--http", "127.0.0.1:0"])
            .env("LMCP_STATE_DIR", &folder)
            .output();
        let (code, said) = said(&output.unwrap());
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("is not a key of 32 bytes") && said.contains("hint: delete it"),
            "{said}"
        );
        assert_eq!(fs::read(&key).unwrap(), bytes, "it is left as it was");
    }
}

#[test]
fn a_key_that_others_could_read_is_replaced_and_never_trusted() {
    let folder = folder("replaced");
    fs::create_dir_all(&folder).unwrap();
    let key = folder.join("session.key");
    for mode in [0o644, 0o660, 0o040] {
        fs::write(&key, [7; 32]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let (child, _, words) = serve(&folder, &[]);
        drop(child);
        assert!(words.contains("is replaced by a new key"), "{words}");
        let (mode, new) = (fs::metadata(&key).unwrap().mode(), fs::read(&key).unwrap());
        assert_eq!((mode & 0o777, new.len()), (0o600, 32));
        assert_ne!(new, [7; 32]);
        let (_child, _, words) = serve(&folder, &[]);
        assert_eq!(words, "", "that is said once");
        assert_eq!(fs::read(&key).unwrap(), new);
    }
}

#[test]
fn a_key_and_a_state_folder_without_any_leave_are_mended() {
    let folder = folder("mended");
    drop(serve(&folder, &[]));
    let key = folder.join("session.key");
    let before = fs::read(&key).unwrap();
    for path in [&key, &folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    drop(serve(&folder, &[]));
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read(&key).unwrap(), before, "nobody could read it");
}

#[test]
fn a_state_folder_that_others_could_write_is_closed_with_a_warning() {
    let folder = folder("open");
    drop(serve(&folder, &[]));
    let key = fs::read(folder.join("session.key")).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let (child, _, words) = serve(&folder, &[]);
    drop(child);
    assert!(
        words.starts_with("warning: others could write ")
            && words.contains("its mode is 0700 again"),
        "{words}"
    );
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read(folder.join("session.key")).unwrap(), key);
    let (_child, _, words) = serve(&folder, &[]);
    assert_eq!(words, "", "that is said once");
}

#[test]
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn a_state_folder_with_something_of_another_user_is_not_used_and_that_is_said() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("note: only root can give a file away, so this is not tested");
        return;
    }
    let home = folder("foreign");
    let state = home.join("lmcp");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("session.key"), [7; 32]).unwrap();
    std::os::unix::fs::chown(state.join("session.key"), Some(64_993), None).unwrap();
    let open = || fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    open();
    let named = state.to_str().unwrap();
    let output = lmcp(&["serve", "--http", "127.0.0.1:0", "--state-dir", named]).output();
    let (code, words) = said(&output.unwrap());
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("`session.key` in it belongs to user 64993"),
        "{words}"
    );
    // If the usual place cannot be trusted, the server starts, but keeps nothing there.
    open();
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command
        .env_remove("LMCP_STATE_DIR")
        .env("XDG_STATE_HOME", &home);
    let (_child, _, words) = start(command);
    assert!(words.contains("warning: nothing is kept"), "{words}");
    assert!(words.contains("belongs to user 64993"), "{words}");
}

#[test]
fn a_runtime_folder_with_a_wrong_mode_is_mended() {
    let runtime = folder("wrong-runtime");
    fs::create_dir_all(runtime.join("lmcp")).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    for mode in [0o755, 0o000, 0o777] {
        fs::set_permissions(runtime.join("lmcp"), fs::Permissions::from_mode(mode)).unwrap();
        let mut command = lmcp(&["proxy", "--own", "--no-start"]);
        command.env("XDG_RUNTIME_DIR", &runtime);
        let (code, words) = said(&command.output().unwrap());
        assert_eq!(code, Some(0), "{words}");
        assert!(
            words.contains("lmcp had a wrong mode; it is 0700 again"),
            "{words}"
        );
        let found = fs::metadata(runtime.join("lmcp")).unwrap();
        assert_eq!(found.mode() & 0o777, 0o700);
    }
}

#[test]
fn where_no_key_can_be_kept_it_says_so_and_serves() {
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command
        .env_remove("LMCP_STATE_DIR")
        .env("XDG_STATE_HOME", "/proc/none");
    let (_child, address, words) = start(command);
    assert!(words.starts_with("warning: "), "{words}");
    assert!(words.contains("new sessions after a restart"), "{words}");
    assert!(get(&address, "/mcp") == 405);
}

#[test]
fn a_directory_that_was_named_must_do() {
    let output = lmcp(&[
        "serve",
        "--http",
        "127.0.0.1:0",
        "--state-dir",
        "/proc/none",
    ])
    .output();
    let (code, words) = said(&output.unwrap());
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("nothing can be kept at /proc/none"),
        "{words}"
    );
    assert!(words.contains("hint: name another directory"), "{words}");
}

#[test]
fn who_says_none_keeps_nothing() {
    let here = folder("none");
    fs::create_dir_all(&here).unwrap();
    let home = folder("none-home");
    let serve = |options: &[&str]| {
        let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
        command
            .args(options)
            .env_remove("LMCP_STATE_DIR")
            .env("XDG_STATE_HOME", &home)
            .current_dir(&here);
        command
    };
    let (child, _, words) = start(serve(&["--state-dir", "none"]));
    drop(child);
    assert_eq!(words, "", "who asked for it needs no warning");
    let mut by_variable = serve(&[]);
    by_variable.env("LMCP_STATE_DIR", "none");
    drop(start(by_variable));
    let file = support::file("state-none-file", "state_dir = 'none'", 0o600);
    drop(start(serve(&["--config", file.to_str().unwrap()])));
    let beside = fs::read_dir(file.parent().unwrap()).unwrap().count();
    let made = fs::read_dir(&here).unwrap().count();
    assert_eq!((made, beside, home.exists()), (0, 1, false));
    // A folder with that name is still possible.
    drop(start(serve(&["--state-dir", "./none"])));
    assert!(here.join("none/session.key").exists());
}

#[test]
fn who_says_stdio_means_it() {
    let mut command = lmcp(&["serve", "--stdio"]);
    command
        .env("LMCP_HTTP", "nonsense")
        .env("LMCP_UNIX", "/proc/none");
    let mut child = command.spawn().expect("the binary was built for this test");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    writeln!(input, "{ping}").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert_eq!(answer.trim(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let (code, words) = said(
        &lmcp(&["serve"])
            .env("LMCP_HTTP", "nonsense")
            .output()
            .unwrap(),
    );
    assert_eq!(code, Some(2));
    assert!(words.contains("LMCP_HTTP is `nonsense`"), "{words}");
}

#[test]
fn the_old_endpoints_are_there_when_asked_for() {
    let folder = folder("endpoints");
    let (_plain, address, _) = serve(&folder, &[]);
    assert!(get(&address, "/sse") == 404);
    let (_old, address, _) = serve(&folder, &["--legacy-sse"]);
    assert!(get(&address, "/sse") == 200);
}

/// Returns the path of a folder that does not exist yet.
fn folder(name: &str) -> PathBuf {
    support::folder(&format!("state-{name}"))
}

/// Starts a server, and returns its address and its earlier messages.
fn serve(state: &Path, options: &[&str]) -> (Running, String, String) {
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0"]);
    command.args(options).env("LMCP_STATE_DIR", state);
    start(command)
}

#[test]
fn nothing_of_ours_is_kept_below_a_root() {
    let home = folder("home");
    let root = home.to_str().unwrap();
    fs::create_dir_all(&home).unwrap();
    // The usual place is in the home. Clients may work there, so another place is used.
    let mut command = lmcp(&["serve", "--http", "127.0.0.1:0", "--root", root]);
    command
        .env_remove("LMCP_STATE_DIR")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", folder("runtime"));
    let (_child, _, _) = start(command);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    let inside = home.join("state");
    let inside = inside.to_str().unwrap();
    let words = support::refusal(lmcp(&["serve", "--root", root, "--state-dir", inside]));
    assert!(words.contains("is below the root"), "{words}");
    let token = support::file("state-home/secret", "hush", 0o600);
    let token = token.to_str().unwrap();
    let words = support::refusal(lmcp(&[
        "serve",
        "--http",
        ":0",
        "--root",
        root,
        "--token-file",
        token,
    ]));
    assert!(words.contains("is below the root"), "{words}");
}

#[test]
fn nothing_of_ours_is_kept_where_every_confined_command_can_read() {
    let root = folder("readable-root");
    fs::create_dir_all(&root).unwrap();
    let root = root.to_str().unwrap();
    let command = ["serve", "--http", ":0", "--root", root, "--token-file"];
    for token in ["/usr/lmcp-token", "/proc/self/environ"] {
        let words = support::refusal(lmcp(&[&command[..], &[token]].concat()));
        assert!(words.contains("is below what commands may read"), "{words}");
    }
    // Without a root, commands can read everything anyway: the file is opened, and does not exist.
    let (_, words) = said(
        &lmcp(&["serve", "--http", ":0", "--token-file", "/usr/lmcp-token"])
            .output()
            .unwrap(),
    );
    assert!(words.contains("No such file"), "{words}");
}

#[test]
fn no_socket_is_below_a_root_where_commands_could_take_its_place() {
    let home = folder("socket-home");
    let elsewhere = folder("socket-elsewhere");
    for folder in [&home, &elsewhere] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink(&elsewhere, home.join("link")).unwrap();
    let root = home.to_str().unwrap();
    for socket in [
        home.join("s.sock"),
        home.join("deep/s.sock"),
        home.join("link/s.sock"),
    ] {
        let mut command = lmcp(&["serve", "--root", root, "--unix"]);
        command.arg(&socket);
        let words = support::refusal(command);
        assert!(words.contains("is below the root"), "{words}");
        assert!(!socket.exists());
    }
    // The same holds for a host, whose socket and credentials are in a folder of the user.
    let mut command = lmcp(&["run", "--root", root, "--", "true"]);
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    command.env("XDG_RUNTIME_DIR", &home);
    let words = support::refusal(command);
    assert!(words.contains("is below the root"), "{words}");
}
