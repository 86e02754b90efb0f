//! The limits of a command when there are roots: Landlock, the kernel's own confinement, which holds for everything the
//! command starts.
//!
//! Below the roots and in a scratch folder of its own, the command may do anything but make devices. It may read and run
//! what the system has installed, and open nothing else. It has no capabilities: root inside is an ordinary owner of root's
//! files.
//!
//! Landlock does not look at limits of other processes, user namespaces, keyrings, shared memory of System V and attributes
//! of files. A seccomp filter (`filter.rs`) refuses those, on the architectures that the filter knows.
//!
//! Neither of the two stops connections (those to unix sockets with a path only before Linux 7.1), nor changes to the
//! times, modes and owners of files that the user may change anyway. A filter cannot see which socket a program connects
//! to, and forbidding unix sockets altogether breaks Python's forkserver, Node's pipes and many build daemons.

use std::{io, os::fd::OwnedFd, path::Path};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};

use rustix::{
    fs::{Mode, OFlags},
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capability_is_in_bounding_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
        set_capabilities_secure_bits,
    },
};

use super::{
    dir,
    protocol::{Fence, Folder},
};

/// The oldest kernel interface that leaves no way to change a file outside. Before it, files could be cut short.
const LEAST: ABI = ABI::V3;
/// The kernel interface that is used where the kernel has it: it also covers devices, signals to strangers and sockets.
const WANTED: ABI = ABI::V9;

/// The files that every program needs to read: itself, its libraries, a little of the configuration. Not all of `/etc`,
/// which holds secrets.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/opt",
    "/nix",
    "/snap",
    "/gnu",
    "/proc",
    "/sys",
    "/run/systemd/resolve",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/python3",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Devices that hold no data of anybody.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Returns whether commands behind this fence may read `real`, a path without links.
pub(super) fn lets_read(fence: &Fence, real: &Path) -> bool {
    let mut named = fence.write.iter().chain(&fence.read);
    named.any(|folder| real.starts_with(&folder.path)) || lets_all_read(real).is_some()
}

/// Returns the folder of the system that contains `real`, a path without links. Commands behind every fence can read there.
pub(crate) fn lets_all_read(real: &Path) -> Option<&'static Path> {
    system().find(|it| it.canonicalize().is_ok_and(|it| real.starts_with(it)))
}

/// Returns the paths that commands behind every fence can read.
pub(super) fn system() -> impl Iterator<Item = &'static Path> {
    SYSTEM.iter().chain(DEVICES).map(Path::new)
}

/// Returns whether this kernel can confine commands.
pub(crate) fn is_supported() -> bool {
    ruleset().is_ok()
}

/// Puts this process, and all that it starts, behind the fence. There is no way back.
pub(super) fn enter(fence: &Fence) -> io::Result<()> {
    confine(fence).map_err(io::Error::other)?;
    drop_capabilities()?;
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    ))]
    super::filter::enter()?;
    Ok(())
}

/// Gives up all capabilities, for good: with them root can make device nodes, open any file by its handle, and much else
/// that a path does not name.
fn drop_capabilities() -> io::Result<()> {
    let all = (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number));
    // An ordinary user may do neither of these two steps, and need not: it has no capabilities, and gets none from a
    // program, because entering the fence has set `no_new_privs`.
    for capability in all {
        if let Ok(true) = capability_is_in_bounding_set(capability) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    let _ = set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    );
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}

fn confine(fence: &Fence) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut ruleset = ruleset()?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?;
    // A device node leads to its device from any folder.
    let all = AccessFs::from_all(WANTED) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let read = AccessFs::from_read(WANTED);
    for (folders, access) in [(&fence.write, all), (&fence.read, read)] {
        for folder in folders {
            let access = only_for(&folder.path, access);
            ruleset = ruleset.add_rule(PathBeneath::new(
                open(folder).map_err(|err| named(folder, &err))?,
                access,
            ))?;
        }
    }
    if let Some(scratch) = &fence.scratch {
        // The way to this folder is lmcp's own, and other commands may be closing it.
        let opened = dir::insist(&scratch.path, || open(scratch));
        let opened = opened.map_err(|err| named(scratch, &err))?;
        ruleset = ruleset.add_rule(PathBeneath::new(opened, all))?;
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::ReadDir;
    ruleset = allow(ruleset, SYSTEM.iter().map(Path::new), read)?;
    ruleset = allow(ruleset, DEVICES.iter().map(Path::new), device)?;
    if ruleset.restrict_self()?.ruleset == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce it".into());
    }
    Ok(())
}

/// Opens the very folder that was meant. If it is gone, or another folder has its path, the command must not run.
fn open(folder: &Folder) -> io::Result<OwnedFd> {
    let opened = rustix::fs::open(&folder.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let opened = opened?;
    let found = rustix::fs::fstat(&opened)?;
    // The server holds its roots open, so no other folder has their numbers. Times are not compared: a first change to a
    // folder of a lower layer (overlayfs) makes it younger.
    if (found.st_dev, found.st_ino) != (folder.id.device, folder.id.inode) {
        return Err(io::Error::other("it is no longer what it was"));
    }
    Ok(opened)
}

fn named(folder: &Folder, err: &io::Error) -> String {
    format!("cannot open {}: {err}", folder.path.display())
}

/// Allows access to those of the paths that exist.
fn allow<'a>(
    mut ruleset: RulesetCreated,
    paths: impl Iterator<Item = &'a Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        // A path that this system does not have needs no rule.
        let Ok(opened) = PathFd::new(path) else {
            continue;
        };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, only_for(path, access)))?;
    }
    Ok(ruleset)
}

/// Returns the rights that apply to the path: for a file, only those of files; the others are about folders.
fn only_for(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(WANTED)
    }
}

fn ruleset() -> Result<Ruleset, RulesetError> {
    let least = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST))?;
    least
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
}
