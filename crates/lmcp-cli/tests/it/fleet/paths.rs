//! The same call has the same result on every path to a host: over HTTP, over ssh with lmcp, over ssh without lmcp, with
//! BusyBox as the only programs there, and over the connection of a host that joined.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};

use super::{Hub, Place, Sshd, join::Joining, json_of, ssh, url};

/// Each line holds a tool and its arguments: the calls that `lmcp-fleet` compares with this machine's own tools, including
/// edits and jobs with all their errors. `TREE` is a folder, `JOB` the job that was started last.
const CALLS: &str = include_str!("../../../../lmcp-fleet/tests/it/alike.txt");

/// Members that differ between runs or paths: times, numbers of processes, values that only a guard can measure, and counts
/// that only a search has.
const OWN: [&str; 17] = [
    "cpu_ms",
    "duration_ms",
    "elapsed_ms",
    "ended",
    "id",
    "job",
    "left_running",
    "mtime",
    "output_bytes",
    "peak_memory_bytes",
    "pid",
    "restarted_as",
    "running_ms",
    "searched_bytes",
    "searched_files",
    "skipped",
    "started",
];

/// Removes the members that differ between two runs.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| {
                let is_told_of = *name == "job" && value.is_object();
                !OWN.contains(&name.as_str()) || is_told_of
            });
            kept.map(|(name, value)| (name.clone(), bare(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// A host, and the way that leads there.
#[derive(Clone, Copy)]
struct Way {
    host: &'static str,
    via: &'static str,
}

/// Returns the result of a call, without the host and the path, after checking both.
fn called(hub: &Hub, way: Way, tool: &str, arguments: &Value) -> Value {
    let Way { host, via } = way;
    let mut arguments = arguments.clone();
    arguments["host"] = host.into();
    arguments["host_wait"] = 60.into();
    let output = hub.calling(tool, &arguments).output();
    let output = output.expect("the binary was built");
    if output.stdout.is_empty() {
        // The command line knows only the arguments in the listed schema, and has not sent the call.
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return json!({ "structured": null, "is_error": true, "words": words });
    }
    let mut result = json_of(&output);
    let said = result["content"].as_array_mut().expect("it is a list");
    let last = said.pop().unwrap_or_default();
    let mark = format!("[{host} via {via}]");
    let refused = format!("{host} via {via}: ");
    let text = last["text"].as_str().unwrap_or_default();
    // In a refusal, the host and the way come first, and not last.
    assert!(
        text == mark || text.starts_with(&refused),
        "{tool} {arguments}: {result} {last}"
    );
    let words = match said.is_empty() {
        true => text.replace(&refused, ""),
        false => said[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let mut structured = result["structuredContent"].clone();
    if let Some(members) = structured.as_object_mut() {
        assert_eq!(members.remove("host"), Some(host.into()), "{tool}");
        assert_eq!(members.remove("via"), Some(via.into()), "{tool}");
    }
    json!({ "structured": structured, "is_error": result["isError"], "words": words })
}

/// Makes a folder with files of every kind.
fn tree(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("src/deep")).expect("tests may write here");
    for (name, text) in [
        (
            "src/main.rs",
            &b"fn main() {\n    println!(\"hello\");\n}\n"[..],
        ),
        ("src/deep/mod.rs", b"// hello again\nfn other() {}\n"),
        ("notes.txt", b"one\r\ntwo\r\nthree\r\n"),
        ("latin.txt", b"caf\xe9 au lait, tr\xe8s bon\n"),
        ("binary", &[0, 1, 2, 255]),
        (".hidden", b"hello\n"),
        (".gitignore", b"ignored\n"),
        ("ignored", b"hello\n"),
    ] {
        fs::write(folder.join(name), text).expect("tests may write here");
    }
    symlink("notes.txt", folder.join("link")).expect("tests may write here");
    let made = Command::new("mkfifo").arg(folder.join("fifo")).status();
    assert!(made.expect("there is mkfifo").success());
}

/// Returns the results of all calls over one path, in a folder with the same content each time.
fn everything(place: &Place, hub: &Hub, way: Way) -> Vec<(String, Value)> {
    let work = place.0.join("work");
    tree(&work);
    let mut job = String::new();
    let calls = CALLS.lines().filter_map(|line| line.split_once(' '));
    let said = calls.map(|(tool, line)| {
        let text = line.replace("TREE", &work.display().to_string());
        let arguments = serde_json::from_str(&text.replace("JOB", &job));
        let arguments: Value = arguments.expect("each line is a call");
        let answer = called(hub, way, &format!("remote_{tool}"), &arguments);
        let value = &answer["structured"];
        let started = match tool {
            "shell" => &value["job"],
            "shell_bg" => &value["id"],
            _ => &value["restarted_as"],
        };
        if let Some(id) = started.as_str() {
            id.clone_into(&mut job);
        }
        let mut answer = bare(&answer);
        // The text of a result has times in it. If the call went well, the structured value says the same without them.
        let is_told = answer["is_error"] != true || !answer["structured"].is_null();
        let words = answer["words"].as_str().unwrap_or_default();
        let words = match job.is_empty() {
            true => words.to_owned(),
            false => words.replace(&*job, "JOB"),
        };
        answer["words"] = if is_told { Value::Null } else { words.into() };
        (format!("{tool} {line}"), answer)
    });
    said.collect()
}

/// Returns a folder with only the programs of BusyBox. `None`, with a note, if there is no BusyBox.
#[expect(clippy::print_stderr, reason = "says what was not tested")]
fn busybox(folder: PathBuf) -> Option<PathBuf> {
    let program = ["/usr/bin/busybox", "/bin/busybox"];
    let Some(program) = program.into_iter().find(|path| Path::new(path).exists()) else {
        eprintln!("note: there is no busybox here, so hosts with nothing else are not tested");
        return None;
    };
    let listed = Command::new(program).arg("--list").output().ok()?;
    fs::create_dir_all(&folder).expect("tests may write here");
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        symlink(program, folder.join(name)).expect("tests may write here");
    }
    Some(folder)
}

#[test]
fn every_call_means_the_same_on_every_way() {
    let place = Place::new("fleet-paths");
    let Some(sshd) = Sshd::start(&place.0) else {
        return;
    };
    let (_near, address) = place.host("near", "state", "0");
    let program = place.far_program("state");
    let mut config = format!("{}{}", url("near", &address), ssh("far", &sshd, &program));
    let way = |host, via| Way { host, via };
    let mut ways = vec![way("near", "http"), way("far", "ssh")];
    let home = |name: &str| place.0.join(format!("{name}-home"));
    let without = Sshd::at_home(&place.0.join("without"), &home("without"), None);
    let without = without.expect("the first one started");
    config.push_str(&ssh("without", &without, "no-such-lmcp"));
    ways.push(way("without", "shell"));
    let programs = busybox(place.0.join("programs"));
    let tiny = programs
        .and_then(|programs| Sshd::at_home(&place.0.join("tiny"), &home("tiny"), Some(&programs)));
    if let Some(tiny) = &tiny {
        config.push_str(&ssh("tiny", tiny, "lmcp"));
        ways.push(way("tiny", "shell"));
    }
    place.write("far.token", "token-of-far", 0o600);
    config.push_str("[hosts.joined]\njoin = true\ntoken_file = 'far.token'\n");
    ways.push(way("joined", "join"));
    let hub = place.hub(&config);
    let _joined = Joining::start(place.joining(&hub.address, "joined-state"));
    let all: Vec<_> = ways
        .iter()
        .map(|way| everything(&place, &hub, *way))
        .collect();
    let mut unlike = Vec::new();
    for (way, said) in ways.iter().zip(&all) {
        for ((call, one), (_, other)) in all[0].iter().zip(said) {
            if one != other {
                let host = way.host;
                unlike.push(format!("{call}\n  near: {one}\n  {host}: {other}"));
            }
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    for way in &ways {
        let system = hub.structured("remote_systeminfo", &json!({ "host": way.host }));
        assert!(!system["cpu"].is_null(), "{system}");
        // Only a host with lmcp fetches pages; a shell refuses.
        let arguments = json!({ "host": way.host, "url": "http://127.0.0.1:9/" });
        let fetched = hub.call("remote_fetch", &arguments);
        let text = fetched["content"][0]["text"].as_str().expect("it is text");
        let words = match way.via {
            "shell" => "nothing is fetched over a shell",
            _ => "127.0.0.1",
        };
        assert!(fetched["isError"] == true && text.contains(words), "{text}");
    }
    // A job is the same on both paths to one lmcp: one path starts it, and the other stops it.
    let job = hub.structured(
        "remote_shell_bg",
        &json!({ "host": "near", "command": "sleep 1000" }),
    );
    let id = &job["id"];
    let jobs = hub.structured("remote_jobs", &json!({ "host": "far" }));
    assert!(jobs.to_string().contains(id.as_str().unwrap()), "{jobs}");
    hub.structured("remote_job_stop", &json!({ "host": "far", "id": id }));
}
