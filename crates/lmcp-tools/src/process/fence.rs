//! Where a command may go when there are roots: Landlock, the kernel's own confinement, which holds for everything the
//! command starts.
//!
//! It may do anything below the roots and in a scratch folder of its own, read and run what the system has installed, and
//! open nothing else. Connections are not confined, to local sockets neither on kernels before 7.1, nor are the times and
//! modes of files that others own.

use std::{io, path::Path};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};

use super::words::{Fence, Folder};

/// The oldest kernel interface that leaves no way to change a file outside: before it files could be cut short.
const LEAST: ABI = ABI::V3;
/// What is used where the kernel has it: devices, signals to strangers and sockets, too.
const WANTED: ABI = ABI::V9;

/// What every program needs to read: itself, its libraries, a little of the configuration. Not all of `/etc`, where
/// secrets are.
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

/// Devices that hold nothing of anybody.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Can this kernel confine commands?
pub(crate) fn is_supported() -> bool {
    ruleset().is_ok()
}

/// Puts this process, and all it starts, inside. There is no way back.
pub(super) fn enter(fence: &Fence) -> io::Result<()> {
    confine(fence).map_err(io::Error::other)
}

fn confine(fence: &Fence) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut ruleset = ruleset()?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?;
    let (all, read) = (AccessFs::from_all(WANTED), AccessFs::from_read(WANTED));
    for (folders, access) in [(&fence.write, all), (&fence.read, read)] {
        for folder in folders {
            let access = only_for(&folder.path, access);
            ruleset = ruleset.add_rule(PathBeneath::new(open(folder)?, access))?;
        }
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev | AccessFs::ReadDir;
    ruleset = allow(ruleset, SYSTEM.iter().map(Path::new), read)?;
    ruleset = allow(ruleset, DEVICES.iter().map(Path::new), device)?;
    if ruleset.restrict_self()?.ruleset == RulesetStatus::NotEnforced {
        return Err("the kernel does not enforce it".into());
    }
    Ok(())
}

/// The very folder that was meant. One that is gone, or another now, is a reason not to run.
fn open(folder: &Folder) -> Result<PathFd, Box<dyn std::error::Error + Send + Sync>> {
    let opened = PathFd::new(&folder.path)?;
    let found = rustix::fs::fstat(&opened)?;
    if (found.st_dev, found.st_ino) != folder.id() {
        return Err(format!("{} is no longer what it was", folder.path.display()).into());
    }
    Ok(opened)
}

/// Allows what there is of these.
fn allow<'a>(
    mut ruleset: RulesetCreated,
    paths: impl Iterator<Item = &'a Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        // What this system does not have needs no leave.
        let Ok(opened) = PathFd::new(path) else {
            continue;
        };
        ruleset = ruleset.add_rule(PathBeneath::new(opened, only_for(path, access)))?;
    }
    Ok(ruleset)
}

/// What can be asked of a file; the rest is about folders.
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
