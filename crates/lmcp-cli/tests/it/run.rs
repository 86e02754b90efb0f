//! `lmcp run` with programs that have the names of the real agents and report how they were started.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{folder, lmcp, said};

/// Prints its arguments, some variables and the files that it reads, as JSON; ends with code 7.
const PROGRAM: &str = r#"#!/usr/bin/env python3
import json, os, pathlib, stat, sys
paths = [word.split("=", 1)[-1] for word in sys.argv[1:] if word.endswith(("mcp.json", "mcp.toml"))]
home = os.environ.get("GEMINI_CLI_HOME") or os.environ.get("CODEX_HOME")
files, links, modes = {}, {}, {}
for root, folders, names in os.walk(home or "/nonexistent"):
    for name in folders + names:
        path = pathlib.Path(root, name)
        if path.is_symlink():
            links[str(path.relative_to(home))] = os.readlink(path)
        elif path.is_file():
            paths.append(str(path))
for path in paths:
    files[path] = open(path).read()
    modes[path] = stat.S_IMODE(os.stat(path).st_mode)
if home and "write" in sys.argv:
    pathlib.Path(home, "new").write_text("left behind")
    pathlib.Path(home, "login").write_text("logged in again")
json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "files": files, "links": links, "modes": modes}, sys.stdout)
sys.exit(7)
"#;

/// A home, a folder for scratch files, and a program.
struct Place {
    folder: PathBuf,
    program: PathBuf,
}

impl Place {
    fn new(test: &str, program: &str) -> Self {
        let folder = folder(&format!("run-{test}"));
        for name in ["home/.config/lmcp", "run/lmcp", "bin"] {
            fs::create_dir_all(folder.join(name)).expect("tests may do this");
        }
        let private = fs::Permissions::from_mode(0o700);
        for name in ["run", "run/lmcp"] {
            fs::set_permissions(folder.join(name), private.clone()).expect("tests may do this");
        }
        let program = folder.join("bin").join(program);
        fs::write(&program, PROGRAM).expect("tests may do this");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .expect("tests may do this");
        Self { folder, program }
    }

    fn home(&self, path: &str, text: &str) -> PathBuf {
        let path = self.folder.join("home").join(path);
        fs::create_dir_all(path.parent().expect("it is below a home")).expect("tests may do this");
        fs::write(&path, text).expect("tests may do this");
        path
    }

    /// Returns `lmcp run` with these options, before the program and its words.
    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = lmcp(&["run"]);
        command
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args(words);
        command.env("HOME", self.folder.join("home"));
        command.env("XDG_RUNTIME_DIR", self.folder.join("run"));
        for name in [
            "CODEX_HOME",
            "GEMINI_CLI_HOME",
            "OPENCODE_CONFIG_CONTENT",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Returns the output of the program, and the text on stderr. Checks that the user's files are unchanged, and that no
    /// scratch files are left.
    fn run(&self, mut command: Command) -> (Value, String) {
        let before = tree(&self.folder.join("home"));
        let output = command
            .output()
            .expect("the binary was built for this test");
        let (code, words) = said(&output);
        assert_eq!(code, Some(7), "{words}");
        assert_eq!(tree(&self.folder.join("home")), before);
        assert_eq!(tree(&self.folder.join("run/lmcp")), BTreeMap::new());
        (
            serde_json::from_slice(&output.stdout).expect("the program says JSON"),
            words,
        )
    }
}

/// Returns everything below a folder: the bytes of files, the targets of links, and nothing for folders.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("tests may do this") {
        let path = entry.expect("tests may do this").path();
        let kind = fs::symlink_metadata(&path).expect("tests may do this");
        let bytes = if kind.is_symlink() {
            fs::read_link(&path)
                .expect("tests may do this")
                .into_os_string()
                .into_encoded_bytes()
        } else if kind.is_dir() {
            found.extend(tree(&path));
            Vec::new()
        } else {
            fs::read(&path).expect("tests may do this")
        };
        found.insert(path, bytes);
    }
    found
}

/// Returns the only file that the program read, and its mode.
fn read(said: &Value) -> (Value, u64) {
    let files = said["files"].as_object().expect("the program says it");
    let [(path, text)] = files.iter().collect::<Vec<_>>()[..] else {
        panic!("{files:?}");
    };
    let text = serde_json::from_str(text.as_str().expect("it is text")).expect("tests may do this");
    (text, said["modes"][path].as_u64().expect("it is a number"))
}

#[test]
fn claude_is_given_a_file_for_this_user_alone_and_its_own_words_unchanged() {
    let place = Place::new("claude", "claude");
    let words = [
        "-p",
        "say \"it's\" $HOME \\ *",
        "--mcp-config",
        "a.json",
        "",
        "--",
        "--x",
        "ünï",
    ];
    let (said, _) = place.run(place.command(&[], &words));
    let argv = said["argv"].as_array().unwrap();
    assert!(
        argv[0].as_str().unwrap().starts_with("--mcp-config=/"),
        "{argv:?}"
    );
    assert_eq!(argv[1..], words.map(Value::from));
    let (file, mode) = read(&said);
    assert_eq!(mode, 0o600);
    assert_eq!(
        file["mcpServers"]["lmcp"]["env"],
        json!({ "LMCP_IDENTITY_FILE": said["env"]["LMCP_IDENTITY_FILE"] })
    );
    assert!(
        file["mcpServers"]["lmcp"]["command"]
            .as_str()
            .unwrap()
            .ends_with("/lmcp")
    );
}

#[test]
fn codex_is_given_words_before_its_own() {
    let place = Place::new("codex", "codex");
    place.home(
        ".codex/config.toml",
        "[mcp_servers.lmcp]\nurl = 'http://127.0.0.1:1/mcp'\n",
    );
    let (said, words) = place.run(place.command(&[], &["exec", "do it"]));
    let argv = said["argv"].as_array().unwrap();
    assert_eq!(argv[0], "-c");
    assert!(
        argv[1]
            .as_str()
            .unwrap()
            .starts_with("mcp_servers.lmcp_run.command=\"/")
    );
    assert_eq!(argv[argv.len() - 2..], ["exec", "do it"].map(Value::from));
    assert!(words.contains("your own `lmcp` stays"), "{words}");
}

#[test]
fn opencode_is_given_a_variable_with_what_was_in_it() {
    let place = Place::new("opencode", "opencode");
    let mut command = place.command(&[], &["run", "hi there"]);
    command.env(
        "OPENCODE_CONFIG_CONTENT",
        r#"{"model": "a/b", "mcp": {"mine": {"type": "remote"}}}"#,
    );
    let (said, _) = place.run(command);
    assert_eq!(said["argv"], json!(["run", "hi there"]));
    let content = said["env"]["OPENCODE_CONFIG_CONTENT"].as_str().unwrap();
    let content: Value = serde_json::from_str(content).unwrap();
    assert_eq!(content["model"], "a/b");
    assert_eq!(content["mcp"]["mine"], json!({ "type": "remote" }));
    assert_eq!(content["mcp"]["lmcp"]["type"], "local");
}

#[test]
fn gemini_is_given_a_home_where_all_but_its_settings_is_the_users() {
    let place = Place::new("gemini", "gemini");
    place.home(".gemini/settings.json", "{ // mine\n\"theme\": \"x\", }");
    let login = place.home(".gemini/oauth_creds.json", "secret");
    let notes = place.home(".env", "KEY=1");
    symlink("nowhere", place.folder.join("home/.gemini/dangling")).unwrap();
    let (said, _) = place.run(place.command(&[], &["hi"]));
    assert_eq!(said["argv"], json!(["hi"]));
    let (settings, mode) = read(&said);
    assert_eq!((&settings["theme"], mode), (&json!("x"), 0o600));
    assert!(settings["mcpServers"]["lmcp"]["command"].is_string());
    let links = &said["links"];
    assert_eq!(links[".gemini/oauth_creds.json"], json!(login));
    assert_eq!(links[".env"], json!(notes));
    assert!(links[".gemini/dangling"].is_string());
    assert!(links.get(".gemini").is_none());
}

#[test]
fn a_preset_of_the_users_file_is_taken_and_what_the_program_leaves_in_its_home_is_gone() {
    let place = Place::new("own", "my-agent");
    let config = place.home(".my/config.toml", "model = 'a'\n");
    let login = place.home(".my/login", "logged in");
    let preset = "[presets.my-agent]\nkind = 'copy'\nhome_var = 'CODEX_HOME'\nhome_path = '~/.my'\n\
                  path = 'config.toml'\nformat = 'toml'\nmerge_key = 'mcp.servers'\n";
    place.home(".config/lmcp/presets.toml", preset);
    let mut output = place.command(&[], &["write"]);
    let output = output.output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = said["files"].as_object().unwrap();
    let text = files.values().next().unwrap().as_str().unwrap();
    let read: toml::Table = text.parse().unwrap();
    assert_eq!(read["model"].as_str(), Some("a"));
    assert!(read["mcp"]["servers"]["lmcp"]["command"].is_str(), "{text}");
    assert_eq!(fs::read(config).unwrap(), b"model = 'a'\n");
    // A program that writes through a link writes to the user's file; a new file stays in the copy.
    assert_eq!(fs::read(login).unwrap(), b"logged in again");
    assert!(!place.folder.join("home/.my/new").exists());
    assert_eq!(tree(&place.folder.join("run/lmcp")), BTreeMap::new());
}

#[test]
fn a_preset_of_the_named_file_wins_over_the_usual_one_and_over_ours() {
    let place = Place::new("config", "claude");
    place.home(
        ".config/lmcp/presets.toml",
        "[presets.claude]\nkind = 'flag'\nflag = '--usual'\n",
    );
    let file = place.folder.join("lmcp.toml");
    fs::write(
        &file,
        "[presets.claude]\nkind = 'flag'\nflag = '--named'\nplace = 'last'\n",
    )
    .unwrap();
    let (said, _) = place.run(place.command(&[], &["a", "--", "b"]));
    assert_eq!(said["argv"][0], "--usual");
    let (said, _) =
        place.run(place.command(&["--config", file.to_str().unwrap()], &["a", "--", "b"]));
    let argv = said["argv"].as_array().unwrap();
    assert_eq!(
        (&argv[0], &argv[1], &argv[3]),
        (&json!("a"), &json!("--named"), &json!("--"))
    );
    let (said, _) = place.run(place.command(&["--preset", "opencode"], &["a"]));
    assert_eq!(said["argv"], json!(["a"]));
}

#[test]
fn a_program_without_a_preset_gets_variables_and_a_note_says_so() {
    let place = Place::new("other", "other");
    let mut command = place.command(&[], &["a"]);
    // `lmcp run` may itself be the child of another host.
    command.env("LMCP_IDENTITY_FILE", "/x");
    let (said, words) = place.run(command);
    assert_eq!(said["argv"], json!(["a"]));
    let file = Path::new(said["env"]["LMCP_IDENTITY_FILE"].as_str().unwrap());
    assert!(file.starts_with(place.folder.join("run/lmcp")), "{file:?}");
    assert!(
        words.contains("no preset for") && words.contains("--preset"),
        "{words}"
    );
}

#[test]
fn what_is_wrong_with_a_preset_stops_the_start_and_is_named() {
    let place = Place::new("wrong", "claude");
    let said_of = |options: &[&str]| {
        let (code, words) = said(&place.command(options, &[]).output().unwrap());
        assert_eq!(code, Some(2), "{words}");
        assert_eq!(tree(&place.folder.join("run/lmcp")), BTreeMap::new());
        words
    };
    let words = said_of(&["--preset", "clod"]);
    assert!(
        words.contains("there is no preset `clod`") && words.contains("claude, codex"),
        "{words}"
    );
    let presets = place.home(
        ".config/lmcp/presets.toml",
        "[presets.x]\nkind = 'env'\nvra = 'X'\n",
    );
    let words = said_of(&[]);
    let start = format!(
        "error: {}:3: unknown field `vra`, expected one of `kind`",
        presets.display()
    );
    assert!(words.starts_with(&start), "{words}");
    fs::remove_file(presets).unwrap();
    place.home(".gemini/settings.json", "{ broken");
    let words = said_of(&["--preset", "gemini"]);
    assert!(
        words.contains(".gemini/settings.json` cannot be added to"),
        "{words}"
    );
}

#[test]
fn a_command_that_is_not_there_is_said() {
    let place = Place::new("missing", "claude");
    fs::remove_file(&place.program).unwrap();
    let (code, words) = said(&place.command(&[], &[]).output().unwrap());
    assert_eq!(code, Some(127));
    assert!(words.contains("cannot run `"), "{words}");
    assert_eq!(tree(&place.folder.join("run/lmcp")), BTreeMap::new());
}
