//! System calls that reach beyond the fence without a path that Landlock looks at.

use std::io;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;

use crate::{
    fence::{Fenced, has_filter, python},
    support::skipped,
};

/// What a script says that tries things: each by its name, with the error it ended in.
const TRY: &str = r#"
import ctypes, errno, fcntl, os, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
intel = platform.machine() == "x86_64"
def call(number, *words):
    if libc.syscall(ctypes.c_long(number), *words) < 0:
        raise OSError(ctypes.get_errno(), "")
def attempt(name, act):
    try:
        act()
        print(name, "WORKED")
    except OSError as error:
        names = {errno.EOPNOTSUPP: "EOPNOTSUPP"}
        print(name, names.get(error.errno) or errno.errorcode[error.errno])
"#;

/// Runs a script inside, after [`TRY`]; what it said, without what is expected of each attempt.
async fn unexpected(fenced: &Fenced, script: &str, expected: &str) -> Option<Vec<String>> {
    let ran = python(fenced, &format!("{TRY}\n{script}")).await?;
    assert_eq!(ran["exit_code"], 0, "{ran}");
    let said = ran["stdout"].as_str().unwrap().lines();
    let others = said.filter(|line| line.split(' ').nth(1) != Some(expected));
    Some(others.map(str::to_owned).collect())
}

#[tokio::test]
async fn no_attributes_of_files_are_changed_inside() {
    if !has_filter() {
        return;
    }
    let fenced = Fenced::new();
    let outside = fenced.outside.path().join("secret");
    // Readable inside, but not to be changed; as root it is a folder of the user.
    let jobs = fenced.host.state.path().join("jobs");
    let script = format!(
        r#"
outside, jobs = {outside:?}, {jobs:?}
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 0, 0xffffffff) for tag in (1, 4, 32))
attempt("set", lambda: os.setxattr(outside, "user.note", b"x"))
attempt("set-link", lambda: os.setxattr(outside, "user.note", b"x", follow_symlinks=False))
attempt("remove", lambda: os.removexattr(outside, "user.there"))
attempt("remove-link", lambda: os.removexattr(outside, "user.there", follow_symlinks=False))
attempt("list", lambda: os.setxattr(jobs, "system.posix_acl_default", acl))
path = os.open(jobs, os.O_PATH)
attempt("by-descriptor", lambda: os.setxattr(f"/proc/self/fd/{{path}}", "system.posix_acl_default", acl))
opened = os.open("/usr/bin", os.O_RDONLY)
attempt("open", lambda: os.setxattr(opened, "user.note", b"x"))
attempt("open-remove", lambda: os.removexattr(opened, "user.note"))
words = (ctypes.c_ulong * 2)(0, 0)
attempt("setxattrat", lambda: call(463, -100, outside.encode(), 0, b"user.note", words, 16))
attempt("removexattrat", lambda: call(466, -100, outside.encode(), 0, b"user.there"))
attempt("file_setattr", lambda: call(469, -100, outside.encode(), words, 16, 0))
"#
    );
    let there = setxattr(&outside, "user.there", b"x", XattrFlags::empty());
    let Some(others) = unexpected(&fenced, &script, "EOPNOTSUPP").await else {
        return;
    };
    assert_eq!(others, [""; 0]);
    if there.is_ok() {
        assert!(getxattr(&outside, "user.there", &mut [0; 8]).is_ok());
        assert!(getxattr(&outside, "user.note", &mut [0; 8]).is_err());
    }
    // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY, FS_IOC_SET_ENCRYPTION_POLICY, BTRFS_IOC_SUBVOL_CREATE,
    // EXT4_IOC_SETVERSION, EXT4_IOC_SETRSVSZ, EXT4_IOC_MIGRATE, BTRFS_IOC_SNAP_DESTROY, FS_IOC_REMOVE_ENCRYPTION_KEY.
    let script = r#"
opened = os.open("/usr/bin", os.O_RDONLY)
requests = (0x40086602, 0x401c5820, 0x40806685, 0x800c6613, 0x5000940e)
requests += (0x40086604, 0x40086606, 0x6609, 0x5000940f, 0xc0406618)
for request in requests:
    attempt(hex(request), lambda: fcntl.ioctl(opened, request, b"\0" * 1024))
"#;
    let others = unexpected(&fenced, script, "ENOTTY").await;
    assert_eq!(others.unwrap_or_default(), [""; 0]);
}

#[tokio::test]
async fn shared_memory_and_messages_of_the_user_are_out_of_reach_inside() {
    if !has_filter() {
        return;
    }
    let script = r#"
shmget, shmat, shmctl, shmdt = (29, 30, 31, 67) if intel else (194, 196, 195, 197)
semget, semop, semctl, semtimedop = (64, 65, 66, 220) if intel else (190, 193, 191, 192)
msgget, msgsnd, msgrcv, msgctl = (68, 69, 70, 71) if intel else (186, 189, 188, 187)
mq_open, mq_unlink = (240, 241) if intel else (180, 181)
for bit in (0, 1 << 30) if intel else (0,):
    for number in (shmget, shmat, shmctl, shmdt, semget, semop, semctl, semtimedop, msgget, msgsnd, msgrcv, msgctl):
        attempt(str(number), lambda: call(bit | number, 0, 4096, 0o1600, 0, 0))
    attempt("mq_open", lambda: call(bit | mq_open, b"lmcp-test", 0o102, 0o600, None))
    attempt("mq_unlink", lambda: call(bit | mq_unlink, b"lmcp-test"))
"#;
    let others = unexpected(&Fenced::new(), script, "ENOSYS").await;
    assert_eq!(others.unwrap_or_default(), [""; 0]);
}

#[tokio::test]
async fn nothing_is_asked_of_the_kernel_behind_the_filter() {
    if !has_filter() {
        return;
    }
    let script = r#"
for number in (425, 426, 427):
    attempt(str(number), lambda: call(number, 8, bytes(256), 0, 0, 0, 0))
"#;
    let others = unexpected(&Fenced::new(), script, "ENOSYS").await;
    assert_eq!(others.unwrap_or_default(), [""; 0]);
}

#[tokio::test]
async fn files_are_watched_by_inotify_alone() {
    if !has_filter() {
        return;
    }
    let script = r#"
fanotify_init = 300 if intel else 262
attempt("fanotify", lambda: call(fanotify_init, 0x200, 0))
watch = libc.inotify_init1(0)
print("inotify", "EPERM" if libc.inotify_add_watch(watch, b".", 0x100) > 0 else "failed")
"#;
    let others = unexpected(&Fenced::new(), script, "EPERM").await;
    assert_eq!(others.unwrap_or_default(), [""; 0]);
}

#[tokio::test]
async fn no_file_is_leased_inside() {
    if !has_filter() {
        return;
    }
    let script = r#"
import fcntl
open("ours", "w").close()
ours = os.open("ours", os.O_RDONLY)
attempt("ours", lambda: fcntl.fcntl(ours, fcntl.F_SETLEASE, fcntl.F_RDLCK))
program = os.open("/bin/sh", os.O_RDONLY)
attempt("program", lambda: fcntl.fcntl(program, fcntl.F_SETLEASE, fcntl.F_RDLCK))
fcntl.lockf(os.open("ours", os.O_RDWR), fcntl.LOCK_EX)
"#;
    let others = unexpected(&Fenced::new(), script, "EPERM").await;
    assert_eq!(others.unwrap_or_default(), [""; 0]);
}

#[tokio::test]
async fn no_program_gets_the_rights_of_its_owner_inside() {
    if !has_filter() {
        return;
    }
    let fenced = Fenced::new();
    let outside = tempfile::tempdir().unwrap();
    let program = outside.path().join("program");
    std::fs::write(&program, "").unwrap();
    let script = format!(
        r#"
path = {program:?}
for mode in (0o4755, 0o2755, 0o6755, 0o4700, 0o2701):
    attempt("chmod", lambda: os.chmod(path, mode))
    attempt("fchmod", lambda: os.fchmod(os.open("ours", os.O_CREAT | os.O_RDWR), mode))
    attempt("fchmodat", lambda: os.chmod("ours", mode, dir_fd=os.open(".", os.O_PATH)))
    attempt("fchmodat2", lambda: call(452, -100, path.encode(), mode, 0))
    if intel:
        attempt("chmod", lambda: call(90, path.encode(), mode))
"#
    );
    let others = unexpected(&fenced, &script, "EPERM").await;
    let others = others.unwrap_or_default();
    // Before Linux 6.6 there is no `fchmodat2`.
    let others: Vec<_> = others.iter().filter(|it| !it.ends_with("ENOSYS")).collect();
    assert_eq!(others, [""; 0]);
    // Folders that a group shares keep their bit, and so does what is made in them.
    let script = r#"
os.mkdir("shared")
os.chmod("shared", 0o2770)
os.mkdir("shared/inner")
os.chmod("shared/inner", 0o1755)
os.chmod("ours", 0o755)
"#;
    let ran = python(&fenced, &format!("{TRY}{script}")).await.unwrap();
    assert_eq!(ran["exit_code"], 0, "{ran}");
}

#[tokio::test]
async fn a_default_access_list_of_the_state_folder_stops_nobody() {
    /// Lets nobody do anything, as the kernel writes it.
    const NO_LEAVE: &[u8] = b"\x02\0\0\0\
        \x01\0\0\0\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    let fenced = Fenced::new();
    let state = fenced.host.state.path().to_owned();
    let spoil = |name: &str| {
        let flags = XattrFlags::empty();
        setxattr(
            state.join(name),
            "system.posix_acl_default",
            NO_LEAVE,
            flags,
        )
    };
    if let Err(err) = spoil("jobs") {
        skipped(&format!(
            "no access list can be set: {}",
            io::Error::from(err)
        ));
        return;
    }
    let ran = fenced.shell("mktemp > /dev/null && echo still here").await;
    assert_eq!(ran["stdout"], "still here\n", "{ran}");
    spoil("jobs").unwrap();
    let job = json!({"command": "mktemp > /dev/null && echo still here"});
    let job = fenced.host.value("shell_bg", job).await["id"].clone();
    let output = json!({"id": job, "wait_exit": true});
    let output = fenced.host.value("job_output", output).await;
    assert_eq!(output["output"], "still here\n", "{output}");
}
