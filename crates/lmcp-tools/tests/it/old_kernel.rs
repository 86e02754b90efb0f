//! Kernels that cannot do what a root needs. One is made up here: a filter of system calls makes a call unknown to one
//! thread and all that it starts.

use std::{collections::BTreeMap, env::consts::ARCH, thread};

use lmcp_tools::{HostTools, Settings};
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Host, settings, start, text};

// On every architecture.
const OPENAT2: i64 = 437;
const LANDLOCK_CREATE_RULESET: i64 = 444;

/// Does something where the kernel does not know a call.
fn without<T: Send + 'static>(call: i64, work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        let calls = BTreeMap::from([(call, Vec::new())]);
        let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let arch = ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, unknown, arch);
        let program = BpfProgram::try_from(filter.unwrap()).unwrap();
        apply_filter(&program).unwrap();
        work()
    });
    thread.join().unwrap()
}

/// Settings with a root, and the folders of both.
fn with_root() -> (Settings, TempDir, TempDir) {
    let (state, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = settings(state.path());
    settings.roots = vec![root.path().to_owned()];
    (settings, state, root)
}

#[test]
fn a_kernel_that_cannot_confine_stops_the_start() {
    for call in [OPENAT2, LANDLOCK_CREATE_RULESET] {
        let (settings, _state, _root) = with_root();
        let refused = without(call, || HostTools::new(settings).unwrap_err().to_string());
        assert!(refused.contains("this kernel cannot confine"), "{refused}");
    }
}

#[test]
fn a_command_does_not_run_where_the_kernel_refuses_the_filter() {
    let (settings, state, _root) = with_root();
    let ran = without(libc::SYS_seccomp, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = start(settings);
            let host = Host { server, state };
            host.call("shell", json!({ "command": "echo it ran" }))
                .await
        })
    });
    let why = text(&ran);
    assert!(ran.is_error, "{why}");
    assert!(why.contains("cannot confine the command"), "{why}");
    assert!(!why.contains("it ran"), "{why}");
}
