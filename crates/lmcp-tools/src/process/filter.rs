//! The system calls that a fenced command may not make (seccomp), because Landlock does not look at them: they reach other
//! processes of the same user, or give the command capabilities.
//!
//! Landlock itself refuses what needs the right to trace another process (`ptrace`, `pidfd_getfd`, `process_madvise`,
//! `move_pages`, `kcmp`), and signals from Linux 6.12 on. Priorities, schedulers and the processors of other processes can
//! still be changed: that only makes them slow, and `nice` and `taskset` are ordinary tools.
//!
//! The kernel ends a program that makes system calls of another architecture, such as one for i386 on x86_64: the numbers
//! mean other calls there.

use std::{collections::BTreeMap, env::consts::ARCH, io};

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};

/// Added to a number on x86_64, it makes the same call by the x32 interface.
const X32: i64 = 0x4000_0000;
const NEW_USER: u64 = 0x1000_0000;

/// The calls that are refused, each with the rules of which one must match; without rules it is always refused.
type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses these system calls to this thread, and to all it starts. There is no way back.
pub(super) fn enter() -> io::Result<()> {
    let refused = refused().map_err(io::Error::other)?;
    apply(refused, libc::EPERM)?;
    // Its flags are in memory, where no filter can look. Where it does not exist, programs use `clone`.
    let unknown = Calls::from([(libc::SYS_clone3, Vec::new())]);
    apply(unknown, libc::ENOSYS)
}

fn refused() -> Result<Calls, BackendError> {
    let makes_user_namespace = || {
        SeccompRule::new(vec![SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(NEW_USER),
            NEW_USER,
        )?])
    };
    // Limits of others may be read. A process that names itself by its number cannot be told from another.
    let sets_limit_of_other = SeccompRule::new(vec![
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
    ])?;
    Ok(Calls::from([
        (libc::SYS_prlimit64, vec![sets_limit_of_other]),
        (libc::SYS_unshare, vec![makes_user_namespace()?]),
        (libc::SYS_clone, vec![makes_user_namespace()?]),
        (libc::SYS_setns, Vec::new()),
        // Keyrings belong to the user, not to a folder.
        (libc::SYS_add_key, Vec::new()),
        (libc::SYS_request_key, Vec::new()),
        (libc::SYS_keyctl, Vec::new()),
    ]))
}

fn apply(mut calls: Calls, errno: i32) -> io::Result<()> {
    if cfg!(target_arch = "x86_64") {
        let again: Calls = calls
            .iter()
            .map(|(call, rules)| (call | X32, rules.clone()))
            .collect();
        calls.extend(again);
    }
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let program = ARCH
        .try_into()
        .and_then(|arch| SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch))
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}
