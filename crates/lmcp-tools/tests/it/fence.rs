//! Commands under roots: the kernel keeps them in.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Host, settings, skipped, start, text};

/// A server with one root, and a file outside of it.
pub(crate) struct Fenced {
    pub(crate) host: Host,
    root: TempDir,
    pub(crate) outside: TempDir,
}

impl Fenced {
    pub(crate) fn new() -> Self {
        let (state, root, outside) = (dir(), dir(), dir());
        fs::write(outside.path().join("secret"), "do not read\n").unwrap();
        let mut settings = settings(state.path());
        settings.roots = vec![root.path().to_owned()];
        let server = start(settings);
        Self {
            host: Host { server, state },
            root,
            outside,
        }
    }

    pub(crate) async fn shell(&self, command: &str) -> Value {
        let outside = self.outside.path().to_str().unwrap();
        self.host.shell(&command.replace("OUTSIDE", outside)).await
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_command_works_below_the_root_and_has_a_place_for_scratch_files() {
    let fenced = Fenced::new();
    let ran = fenced
        .shell("pwd; echo x > made; cat made; mktemp > /dev/null && echo scratch")
        .await;
    let root = fs::canonicalize(fenced.root.path()).unwrap();
    let wanted = format!("{}\nx\nscratch\n", root.display());
    assert_eq!(ran["stdout"], wanted, "{ran}");
    assert_eq!(
        fs::read_to_string(fenced.root.path().join("made")).unwrap(),
        "x\n"
    );
}

#[tokio::test]
async fn nothing_outside_is_read() {
    let fenced = Fenced::new();
    for command in [
        "cat OUTSIDE/secret",
        "cat /proc/self/root/OUTSIDE/secret",
        "ln -s OUTSIDE/secret link; cat link",
        "ln OUTSIDE/secret hard; cat hard",
        "cd OUTSIDE && cat secret",
        "setsid -w cat OUTSIDE/secret",
        "ls OUTSIDE",
        "cat /proc/$PPID/mem",
    ] {
        let ran = fenced.shell(command).await;
        assert_ne!(ran["exit_code"], 0, "{command}: {ran}");
        assert!(
            !ran["stdout"].as_str().unwrap().contains("secret"),
            "{command}: {ran}"
        );
        assert!(
            !ran["stdout"].as_str().unwrap().contains("do not"),
            "{command}: {ran}"
        );
    }
}

#[tokio::test]
async fn nothing_outside_is_changed() {
    let fenced = Fenced::new();
    for command in [
        "echo x > OUTSIDE/made",
        "echo x >> OUTSIDE/secret",
        "truncate -s 0 OUTSIDE/secret",
        "rm OUTSIDE/secret",
        "mv OUTSIDE/secret here",
        "mkdir OUTSIDE/folder",
        "ln -s / all; echo x > all/OUTSIDE/made",
        "touch made; mv made OUTSIDE/made",
    ] {
        let ran = fenced.shell(command).await;
        assert_ne!(ran["exit_code"], 0, "{command}: {ran}");
    }
    let left: Vec<_> = fs::read_dir(fenced.outside.path())
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(left.len(), 1);
    let secret = fs::read_to_string(fenced.outside.path().join("secret")).unwrap();
    assert_eq!(secret, "do not read\n");
}

#[tokio::test]
async fn jobs_and_terminals_are_kept_in_too() {
    let fenced = Fenced::new();
    let secret = fenced.outside.path().join("secret");
    let command = format!("cat {}", secret.display());
    let args = json!({"command": command, "tty": true});
    let id = fenced.host.value("shell_bg", args).await["id"].clone();
    let output = fenced
        .host
        .value("job_output", json!({"id": id, "wait_exit": true}))
        .await;
    assert_eq!(output["exit_code"], 1, "{output}");
    assert!(!output["output"].as_str().unwrap().contains("do not read"));
}

#[tokio::test]
async fn the_folder_and_the_log_must_be_below_the_root() {
    let fenced = Fenced::new();
    let outside = fenced.outside.path();
    let args = [
        json!({"command": "true", "cwd": outside}),
        json!({"command": "true", "cwd": ".."}),
        json!({"command": "true", "log": outside.join("log")}),
    ];
    for args in args {
        let result = fenced.host.call("shell_bg", args).await;
        assert!(
            result.is_error && text(&result).contains("outside"),
            "{}",
            text(&result)
        );
    }
    assert!(!outside.join("log").exists());
}

#[tokio::test]
async fn what_the_operator_adds_can_be_read_and_not_changed() {
    let (state, root, outside) = (dir(), dir(), dir());
    fs::write(outside.path().join("tool"), "a tool\n").unwrap();
    let mut settings = settings(state.path());
    settings.roots = vec![root.path().to_owned()];
    settings.also_read = vec![outside.path().to_owned()];
    let server = start(settings);
    let host = Host { server, state };
    let path = outside.path().join("tool");
    let ran = host
        .shell(&format!("cat {0}; echo x > {0}", path.display()))
        .await;
    assert_eq!(ran["stdout"], "a tool\n");
    assert_ne!(ran["exit_code"], 0);
    assert_eq!(fs::read_to_string(path).unwrap(), "a tool\n");
}

#[tokio::test]
async fn variables_do_nothing_before_the_fence_is_there() {
    let fenced = Fenced::new();
    let traces = fenced.outside.path().join("trace");
    // The loader of a program writes there before the program's first step.
    let env = json!({"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": traces});
    let args = json!({"command": "true", "env": env});
    fenced.host.value("shell", args).await;
    assert_eq!(fs::read_dir(fenced.outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_root_that_is_replaced_opens_nothing_else() {
    let (state, root, top) = (dir(), dir(), dir());
    let other = top.path().join("other");
    for folder in [&root.path().join("sub"), &other] {
        fs::create_dir(folder).unwrap();
    }
    let mut settings = settings(state.path());
    settings.roots = vec![
        root.path().to_owned(),
        root.path().join("sub"),
        other.clone(),
    ];
    let server = start(settings);
    let host = Host { server, state };
    let swapped = host.shell("mv sub sub2 && ln -s / sub && echo done").await;
    assert_eq!(swapped["stdout"], "done\n", "{swapped}");
    // A command can do this below a root, so it stops no other command.
    let look = "cat /etc/shadow; ls /root >/dev/null 2>&1 && echo open; echo here";
    assert_eq!(host.shell(look).await["stdout"], "here\n");
    fs::rename(&other, top.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("/", &other).unwrap();
    let ran = host.call("shell", json!({"command": look})).await;
    let said = text(&ran);
    assert!(
        ran.is_error && said.contains("no longer what it was") && !said.contains("here"),
        "{said}"
    );
}

#[tokio::test]
async fn other_terminals_are_out_of_reach_and_the_own_one_works() {
    let fenced = Fenced::new();
    let args =
        json!({"command": "ls /dev/pts/; echo x > /dev/tty; stty size < /dev/tty", "tty": true});
    let ran = fenced.host.value("shell", args).await;
    let said = ran["stdout"].as_str().unwrap();
    assert!(
        said.contains("denied") && said.contains("x\n24 80"),
        "{ran}"
    );
}

#[test]
fn jobs_are_not_kept_where_commands_can_change_them() {
    let root = dir();
    let mut settings = settings(&root.path().join("state"));
    settings.roots = vec![root.path().to_owned()];
    let refused = lmcp_tools::HostTools::new(settings).unwrap_err();
    assert!(
        refused.to_string().contains("cannot be kept below"),
        "{refused}"
    );
}

#[tokio::test]
async fn no_device_is_made_inside() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can make device nodes at all");
        return;
    }
    let fenced = Fenced::new();
    for command in [
        "mknod zero c 1 5",
        "mknod loop b 7 0",
        "mknod $TMPDIR/zero c 1 5",
    ] {
        let ran = fenced.shell(command).await;
        assert_ne!(ran["exit_code"], 0, "{command}: {ran}");
    }
    let ran = fenced.shell("mkfifo pipe && echo made").await;
    assert_eq!(ran["stdout"], "made\n", "{ran}");
}

#[tokio::test]
async fn nobody_has_capabilities_inside() {
    let fenced = Fenced::new();
    let ran = fenced
        .shell("grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status | cut -f2")
        .await;
    let none = "0000000000000000\n".repeat(4);
    assert_eq!(ran["stdout"], format!("{none}1\n"), "{ran}");
    if !rustix::process::geteuid().is_root() {
        skipped("what only root could do is tried by root alone");
        return;
    }
    let foreign = fenced.root.path().join("foreign");
    fs::write(&foreign, "x").unwrap();
    std::os::unix::fs::chown(&foreign, Some(1), Some(1)).unwrap();
    for command in [
        "grep CapBnd /proc/self/status | grep -v 0000000000000000",
        "echo y > foreign",
        "chown 0 foreign",
        "touch mine; chown 1 mine",
        "unshare --mount true",
        "unshare --user --map-root-user true",
        "chroot . true",
        "setpriv --reuid 1 true",
    ] {
        let ran = fenced.shell(command).await;
        assert_ne!(ran["exit_code"], 0, "{command}: {ran}");
    }
}

/// Runs a Python script inside, if there is a Python.
pub(crate) async fn python(fenced: &Fenced, script: &str) -> Option<Value> {
    if !Path::new("/usr/bin/python3").exists() {
        skipped("there is no python3");
        return None;
    }
    let args = json!({"argv": ["/usr/bin/python3", "-c", script]});
    Some(fenced.host.value("shell", args).await)
}

#[tokio::test]
async fn no_limits_of_other_processes_are_set_inside() {
    if !has_filter() {
        return;
    }
    let script = r#"
import os, resource
try:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))
except PermissionError:
    print("refused")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
print(resource.prlimit(0, resource.RLIMIT_NOFILE, (32, 64)))
"#;
    let fenced = Fenced::new();
    let Some(ran) = python(&fenced, script).await else {
        return;
    };
    assert_eq!(ran["stdout"], "refused\n(64, 64)\n(64, 64)\n", "{ran}");
    let ran = fenced.shell("ulimit -n 50 && ulimit -n").await;
    assert_eq!(ran["stdout"], "50\n", "{ran}");
    // The guard is there, and the server goes on.
    assert_eq!(fenced.shell("echo x").await["stdout"], "x\n");
}

#[tokio::test]
async fn no_user_namespace_is_made_inside() {
    if !has_filter() {
        return;
    }
    // `unshare` with CLONE_NEWUSER and more; `setns`; `clone` with the same flags, and nothing but a signal at the end;
    // `clone3`; on x86_64 the same by the numbers of x32.
    let script = r#"
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
user, signal = 0x10000000, 17
intel = platform.machine() == "x86_64"
unshare, setns, clone = (272, 308, 56) if intel else (97, 268, 220)
own = os.open("/proc/self/ns/uts", os.O_RDONLY)
def call(number, *words):
    made = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(word) for word in words))
    if made == 0 and number & 0xffff == clone:
        os._exit(0)
    return "made" if made >= 0 else os.strerror(ctypes.get_errno())
said = set()
for bit in (0, 1 << 30) if intel else (0,):
    said.add(call(bit | unshare, user))
    said.add(call(bit | unshare, user | 0x20000))
    said.add(call(bit | clone, user | signal, 0, 0, 0, 0))
    said.add(call(bit | setns, own, 0))
    said.add("clone3: " + call(bit | 435, 0, 0))
print(sorted(said))
"#;
    let fenced = Fenced::new();
    if let Some(ran) = python(&fenced, script).await {
        let wanted = "['Operation not permitted', 'clone3: Function not implemented']\n";
        assert_eq!(ran["stdout"], wanted, "{ran}");
    }
    let ran = fenced.shell("unshare --user true").await;
    assert_ne!(ran["exit_code"], 0, "{ran}");
}

#[tokio::test]
async fn the_users_keys_are_out_of_reach_inside() {
    if !has_filter() {
        return;
    }
    let script = r#"
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
keyctl = 250 if platform.machine() == "x86_64" else 219
# KEYCTL_GET_KEYRING_ID of the user's keyring.
print(libc.syscall(keyctl, 0, -4, 0), os.strerror(ctypes.get_errno()))
"#;
    if let Some(ran) = python(&Fenced::new(), script).await {
        assert_eq!(ran["stdout"], "-1 Operation not permitted\n", "{ran}");
    }
}

/// Is there a filter of system calls for this architecture?
pub(crate) fn has_filter() -> bool {
    let known = ["x86_64", "aarch64", "riscv64"].contains(&std::env::consts::ARCH);
    if !known {
        skipped("system calls are not filtered on this architecture");
    }
    known
}

#[tokio::test]
async fn ordinary_work_goes_on_inside() {
    let fenced = Fenced::new();
    for (program, command) in [
        (
            "git",
            "export HOME=$TMPDIR; git init -q r && cd r && echo x > f && git add f && \
             git -c user.name=a -c user.email=a@b commit -qm one && git clone -q . ../clone && cat ../clone/f",
        ),
        (
            "cc",
            "echo 'int main(void) { return 0; }' > m.c && cc m.c -o m && ./m && echo x",
        ),
        (
            "tar",
            "mkdir t && echo x > t/f && tar --owner=7 --group=7 -czf t.tgz t && rm -r t && tar -xzf t.tgz && cat t/f",
        ),
        (
            "python3",
            "python3 -c 'import socket, subprocess as s; socket.socketpair(); print(s.check_output(\"echo x\", shell=True, text=True), end=\"\")'",
        ),
        (
            "python3",
            "python3 -c 'import threading as t; w = t.Thread(target=print, args=\"x\"); w.start(); w.join()'",
        ),
        (
            "prlimit",
            "prlimit --nofile=40 sh -c 'ulimit -n' | grep -q 40 && prlimit --pid $$ > /dev/null && echo x",
        ),
        (
            "cp",
            "mkdir d && echo x > d/f && touch -d 2020-01-01 d/f && cp -a d e && cp --preserve=all d/f e/g && mv e d && \
             install -m 600 d/e/g h && sed -i s/x/y/ h && sed -i s/y/x/ h && cat h",
        ),
        (
            "rsync",
            "mkdir d && echo x > d/f && rsync -a d/ e/ && cat e/f",
        ),
        (
            "make",
            "printf 'all:\\n\\t@echo x > f; install -m 755 f g; cat g\\n' > Makefile && make -s",
        ),
    ] {
        let ran = fenced
            .shell(&format!(
                "PATH=/usr/bin:/bin:$PATH; command -v {program} > /dev/null || {{ echo x; exit; }}; {command}"
            ))
            .await;
        assert_eq!(ran["exit_code"], 0, "{program}: {ran}");
        assert_eq!(ran["stdout"], "x\n", "{program}: {ran}");
    }
}

#[tokio::test]
async fn a_command_that_changes_the_modes_of_the_state_folder_stops_nobody() {
    let fenced = Fenced::new();
    let state = fenced.host.state.path().to_owned();
    let modes = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let job = fenced
        .host
        .value("shell_bg", json!({"command": "cat"}))
        .await["id"]
        .clone();
    let own = state.join("jobs").join(job.as_str().unwrap());
    for mode in ["000", "777"] {
        let command = format!(
            "chmod 700 {0}; chmod {mode} {0}/job.json {0}/output {0} {1}/jobs {1}",
            own.display(),
            state.display()
        );
        let ran = fenced.shell(&command).await;
        assert_eq!(ran["exit_code"], 0, "{ran}");
        let ran = fenced.shell("mktemp > /dev/null && echo still here").await;
        assert_eq!(ran["stdout"], "still here\n", "{mode}: {ran}");
        assert_eq!(modes(&state.join("jobs")) & 0o077, 0);
        let jobs = fenced.host.value("jobs", json!({})).await;
        assert_eq!(jobs["jobs"][0]["state"], "running", "{mode}: {jobs}");
    }
    fenced
        .shell(&format!("chmod 000 {}", state.display()))
        .await;
    let mut settings = settings(&state);
    settings.roots = vec![fenced.root.path().to_owned()];
    let next = start(settings).client();
    let args = json!({"id": job, "signal": "KILL"});
    let stopped = next.call_tool("job_stop", args).await.unwrap();
    assert!(!stopped.is_error, "{}", text(&stopped));
}

#[tokio::test]
async fn a_command_that_is_not_let_to_its_tools_is_told_what_to_allow() {
    let fenced = Fenced::new();
    let chain = fenced.outside.path().canonicalize().unwrap().join("chain");
    let tool = chain.join("bin/tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::copy("/bin/true", &tool).unwrap();
    let path = format!("{}:/usr/bin:/bin", tool.parent().unwrap().display());
    let option = format!("--also-read {}", chain.display());
    let with_path = |mut args: Value| {
        args["env"] = json!({"PATH": path});
        args
    };
    let line = with_path(json!({"command": "tool"}));
    let ran = fenced.host.call("shell", line.clone()).await;
    assert!(
        !ran.is_error && text(&ran).contains(&option),
        "{}",
        text(&ran)
    );
    let value = ran.structured_content.unwrap();
    assert_eq!(value["exit_code"], 126);
    assert!(
        value["hint"].as_str().unwrap().ends_with(&option),
        "{value}"
    );
    let words = with_path(json!({"argv": [tool]}));
    let refused = fenced.host.call("shell", words).await;
    assert!(
        refused.is_error && text(&refused).contains(&option),
        "{}",
        text(&refused)
    );
    let started = fenced.host.value("shell_bg", line.clone()).await;
    let args = json!({"id": started["id"], "wait_exit": true});
    let ended = fenced.host.call("job_output", args).await;
    assert!(text(&ended).contains(&option), "{}", text(&ended));
    // As it was told.
    let mut settings = settings(fenced.host.state.path());
    settings.roots = vec![fenced.root.path().to_owned()];
    settings.also_read = vec![chain];
    let ran = start(settings).client().call_tool("shell", line).await;
    let value = ran.unwrap().structured_content.unwrap();
    assert!(
        value["exit_code"] == 0 && value.get("hint").is_none(),
        "{value}"
    );
}
