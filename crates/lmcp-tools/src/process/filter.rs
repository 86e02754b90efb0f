//! The system calls that a fenced command may not make (seccomp), because Landlock does not look at them: they reach other
//! processes of the same user, leave something behind that has no path, change files outside without opening them, give
//! others the rights of the user, or give the command capabilities.
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

/// Added to the number of a call on x86_64, this makes the same call by the x32 interface.
const X32: i64 = 0x4000_0000;
/// The number of `ioctl` in the x32 interface, which has one of its own for it.
const X32_IOCTL: i64 = X32 | 514;
const NEW_USER: u64 = 0x1000_0000;

// From the kernel's table for all architectures.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
const FCHMODAT2: i64 = 452;

/// A program with this bit in its mode gets the rights of its owner.
const SET_UID: u64 = 0o4000;
/// A program with these bits gets the rights of its group if it is run by somebody who is not in the group. Folders that only a
/// group may enter have the first bit alone.
const SET_GID_FOR_OTHERS: u64 = 0o2001;

/// Requests of `ioctl` that change a file or a folder which is open for reading only, or make something in it. The numbers
/// are those of the kernel's `fs.h`, `fscrypt.h`, `fsverity.h`, `ext4.h`, `f2fs.h` and `btrfs.h`; programs of the x32
/// interface use those of 32 bits.
const CHANGING_REQUESTS: [u64; 22] = [
    0x4008_6602, // FS_IOC_SETFLAGS
    0x4004_6602, // FS_IOC32_SETFLAGS
    0x401c_5820, // FS_IOC_FSSETXATTR
    0x4008_7602, // FS_IOC_SETVERSION
    0x4004_7602, // FS_IOC32_SETVERSION
    0x4080_6685, // FS_IOC_ENABLE_VERITY
    0x800c_6613, // FS_IOC_SET_ENCRYPTION_POLICY
    0xc050_6617, // FS_IOC_ADD_ENCRYPTION_KEY
    0xc040_6618, // FS_IOC_REMOVE_ENCRYPTION_KEY
    0x4008_6604, // EXT4_IOC_SETVERSION
    0x4004_6604, // EXT4_IOC32_SETVERSION
    0x4008_6606, // EXT4_IOC_SETRSVSZ
    0x4004_6606, // EXT4_IOC32_SETRSVSZ
    0x0000_6609, // EXT4_IOC_MIGRATE
    0x4004_f50d, // F2FS_IOC_SET_PIN_FILE
    0x5000_940f, // BTRFS_IOC_SNAP_DESTROY
    0x5000_943f, // BTRFS_IOC_SNAP_DESTROY_V2
    0x5000_9401, // BTRFS_IOC_SNAP_CREATE
    0x5000_940e, // BTRFS_IOC_SUBVOL_CREATE
    0x5000_9417, // BTRFS_IOC_SNAP_CREATE_V2
    0x5000_9418, // BTRFS_IOC_SUBVOL_CREATE_V2
    0x4008_941a, // BTRFS_IOC_SUBVOL_SETFLAGS
];

/// The calls that are refused, each with the rules of which one must match; without rules it is always refused.
type Calls = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses these system calls to this thread, and to all that it starts. There is no way back.
pub(super) fn enter() -> io::Result<()> {
    for (calls, errno) in [
        (refused(), libc::EPERM),
        (attributes(), libc::EOPNOTSUPP),
        (file_requests(), libc::ENOTTY),
        (unknown(), libc::ENOSYS),
    ] {
        apply(calls.map_err(io::Error::other)?, errno)?;
    }
    Ok(())
}

/// Returns the calls that are not permitted.
fn refused() -> Result<Calls, BackendError> {
    let makes_user_namespace = || {
        SeccompRule::new(vec![SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(NEW_USER),
            NEW_USER,
        )?])
    };
    // Limits of other processes may be read. The filter cannot tell a process that names itself by its number from another.
    let sets_limit_of_other = SeccompRule::new(vec![
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?,
    ])?;
    let leases = SeccompRule::new(vec![SeccompCondition::new(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        libc::F_SETLEASE.unsigned_abs().into(),
    )?])?;
    let gives_rights = |argument| {
        let rule = |bits| {
            let condition = SeccompCondition::new(
                argument,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::MaskedEq(bits),
                bits,
            )?;
            SeccompRule::new(vec![condition])
        };
        Ok(vec![rule(SET_UID)?, rule(SET_GID_FOR_OTHERS)?])
    };
    Ok(Calls::from([
        // The owner may change the mode of every file, and Landlock does not look at that.
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, gives_rights(1)?),
        (libc::SYS_fchmod, gives_rights(1)?),
        (libc::SYS_fchmodat, gives_rights(2)?),
        (FCHMODAT2, gives_rights(2)?),
        (libc::SYS_prlimit64, vec![sets_limit_of_other]),
        (libc::SYS_unshare, vec![makes_user_namespace()?]),
        (libc::SYS_clone, vec![makes_user_namespace()?]),
        (libc::SYS_setns, Vec::new()),
        // Keyrings belong to the user, not to a folder.
        (libc::SYS_add_key, Vec::new()),
        (libc::SYS_request_key, Vec::new()),
        (libc::SYS_keyctl, Vec::new()),
        // `fanotify` reports what is done to files outside. File watchers use `inotify`.
        (libc::SYS_fanotify_init, Vec::new()),
        // The right to read a file is enough to lease it. Every process that opens the file, outside too, then waits for the
        // holder, up to 45 s.
        (libc::SYS_fcntl, vec![leases]),
    ]))
}

/// Returns the calls that set extended attributes, access lists among them. A file need not be open to change its attributes
/// by path, and an open file need only be open for reading. Programs go on without attributes, as on a file system that has
/// none.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several")]
fn attributes() -> Result<Calls, BackendError> {
    Ok(always([
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        SETXATTRAT,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        REMOVEXATTRAT,
        FILE_SETATTR,
    ]))
}

/// Returns the requests of `ioctl` that do the same. They fail as on a file system that does not know the request.
fn file_requests() -> Result<Calls, BackendError> {
    let is = |request| {
        let condition =
            SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?;
        SeccompRule::new(vec![condition])
    };
    let rules: Result<Vec<_>, _> = CHANGING_REQUESTS.into_iter().map(is).collect();
    Ok(Calls::from([(libc::SYS_ioctl, rules?)]))
}

/// Returns the calls that fail as if this kernel did not have them: programs that know another way use that.
#[expect(clippy::unnecessary_wraps, reason = "it is one of several")]
fn unknown() -> Result<Calls, BackendError> {
    Ok(always([
        // The flags of `clone3` are in memory, where no filter can look. Without it, programs use `clone`.
        libc::SYS_clone3,
        // Requests in the rings of `io_uring` pass no filter: `setxattr`, for one.
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        // Shared memory, messages and semaphores of System V and POSIX belong to the user: they have no path, and stay
        // when the command has ended.
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmdt,
        libc::SYS_shmctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
    ]))
}

fn always<const N: usize>(calls: [i64; N]) -> Calls {
    Calls::from(calls.map(|call| (call, Vec::new())))
}

fn apply(mut calls: Calls, errno: i32) -> io::Result<()> {
    if cfg!(target_arch = "x86_64") {
        let x32 = |call: &i64| match *call {
            libc::SYS_ioctl => X32_IOCTL,
            call => call | X32,
        };
        let again: Calls = calls
            .iter()
            .map(|(call, rules)| (x32(call), rules.clone()))
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
