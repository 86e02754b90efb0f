//! File systems, and how full they are.
//!
//! A network file system whose server is gone blocks every process that asks it, for ever. So a thread asks, and a
//! thread that gets no answer is left behind; its file system is not asked again until it answers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::fs::StatVfs;
use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source};

/// A file system.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Disk {
    /// Where it is mounted.
    pub(super) mount: String,
    /// What it is, such as `ext4`.
    pub(super) fs_type: String,
    /// What it is on.
    device: String,
    /// How full it is; null if it does not answer.
    pub(super) space: Option<Space>,
    /// Why it does not answer.
    pub(super) problem: Option<String>,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Space {
    /// All of it.
    pub(super) total_bytes: u64,
    /// What is used.
    used_bytes: u64,
    /// What this user can still write.
    pub(super) available_bytes: u64,
    /// Files it can hold; 0 if it does not count them.
    inodes_total: u64,
    /// Files it can still take.
    inodes_available: u64,
}

/// The mounts that a thread is asking about.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<BTreeSet<String>>>);

/// File systems that are no storage, and images that are always full.
const PSEUDO: [&str; 30] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "erofs",
    "fuse.gvfsd-fuse",
    "fuse.lxcfs",
    "fuse.portal",
    "fusectl",
    "hugetlbfs",
    "iso9660",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tracefs",
    "fuse.snapfuse",
    "nfsd",
];
/// The most file systems that are shown.
const DISKS: usize = 64;
/// How long a file system may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn read(source: &Source, asked: &Asked) -> Reading<Vec<Disk>> {
    let mut disks = mounts(&source.read("proc/self/mountinfo")?);
    disks.truncate(DISKS);
    ask_all(&mut disks, asked, PATIENCE, |mount| {
        rustix::fs::statvfs(mount).map_err(|err| err.to_string())
    });
    Ok(disks)
}

/// Returns the mounts that matter: each storage once, where it was mounted first.
fn mounts(mountinfo: &str) -> Vec<Disk> {
    let mut seen = BTreeSet::new();
    let mut disks = Vec::new();
    for line in mountinfo.lines() {
        let Some((head, tail)) = line.split_once(" - ") else {
            continue;
        };
        let mut head = head.split(' ').skip(2);
        let (Some(number), Some(_), Some(mount)) = (head.next(), head.next(), head.next()) else {
            continue;
        };
        let mut tail = tail.split(' ');
        let (Some(fs_type), Some(device)) = (tail.next(), tail.next()) else {
            continue;
        };
        let mount = unescape(mount);
        let is_memory = fs_type == "tmpfs" && !matches!(&*mount, "/" | "/tmp");
        if PSEUDO.contains(&fs_type) || is_memory || !seen.insert(number) {
            continue;
        }
        disks.push(Disk {
            mount,
            fs_type: fs_type.to_owned(),
            device: unescape(device),
            space: None,
            problem: None,
        });
    }
    disks
}

/// Asks one file system after the other. One that does not answer in time is left to its thread.
fn ask_all(
    disks: &mut [Disk],
    asked: &Asked,
    patience: Duration,
    ask: impl Fn(&str) -> Result<StatVfs, String> + Send + Sync + 'static,
) {
    let ask = Arc::new(ask);
    for disk in disks {
        let mount = disk.mount.clone();
        if !asked.begin(&mount) {
            disk.problem = Some("does not answer".into());
            continue;
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let (own, ask) = (asked.clone(), ask.clone());
        let spawned = thread::Builder::new().spawn(move || {
            let space = ask(&mount).map(|stat| space(&stat));
            own.end(&mount);
            // The receiver is gone if the answer came too late, which is why a thread asks.
            let _ = answer.send(space);
        });
        if spawned.is_err() {
            asked.end(&disk.mount);
        }
        match answered.recv_timeout(patience) {
            Ok(Ok(space)) => disk.space = Some(space),
            Ok(Err(problem)) => disk.problem = Some(problem),
            Err(_) => disk.problem = Some("does not answer".into()),
        }
    }
}

impl Asked {
    /// Notes that a thread asks about this mount. Returns false if one already does.
    fn begin(&self, mount: &str) -> bool {
        self.lock().insert(mount.to_owned())
    }

    fn end(&self, mount: &str) {
        self.lock().remove(mount);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn space(stat: &StatVfs) -> Space {
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Space {
        total_bytes: bytes(stat.f_blocks),
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        available_bytes: bytes(stat.f_bavail),
        inodes_total: stat.f_files,
        inodes_available: stat.f_favail,
    }
}

/// Decodes a path: the kernel writes blanks in it as `\040`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut pieces = text.split('\\');
    bytes.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        match piece
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[3..]);
            }
            None => bytes.extend_from_slice(piece.as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        22 1 0:20 / /proc rw - proc proc rw\n\
        23 1 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw\n\
        24 1 8:1 /var /srv/bound rw - ext4 /dev/sda1 rw\n\
        25 1 0:30 / /mnt/my\\040files rw - nfs4 server:/x rw\n\
        26 1 0:31 / /run rw - tmpfs tmpfs rw\n\
        27 1 0:32 / /tmp rw - tmpfs tmpfs rw\n\
        nonsense\n";

    #[test]
    fn storage_is_listed_once_and_pseudo_file_systems_are_not() {
        let disks = mounts(MOUNTS);
        let shown: Vec<_> = disks
            .iter()
            .map(|disk| (&*disk.mount, &*disk.fs_type, &*disk.device))
            .collect();
        assert_eq!(
            shown,
            [
                ("/", "ext4", "/dev/sda1"),
                ("/mnt/my files", "nfs4", "server:/x"),
                ("/tmp", "tmpfs", "tmpfs")
            ]
        );
    }

    #[test]
    fn a_mount_that_hangs_holds_nobody_and_is_asked_again_only_once_it_answers() {
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let (done, finished) = mpsc::channel();
        let asked = Asked::default();
        let mut disks = mounts(MOUNTS);
        ask_all(&mut disks, &asked, PATIENCE, move |mount| {
            if mount.starts_with("/mnt") {
                let _ = held.lock().unwrap().recv();
                done.send(()).unwrap();
            }
            rustix::fs::statvfs("/").map_err(|err| err.to_string())
        });
        assert!(disks[0].space.is_some());
        assert_eq!(disks[1].problem.as_deref(), Some("does not answer"));
        let answers = |_: &str| rustix::fs::statvfs("/").map_err(|err| err.to_string());
        let mut again = mounts(MOUNTS);
        ask_all(&mut again, &asked, PATIENCE, answers);
        assert_eq!(again[1].problem.as_deref(), Some("does not answer"));
        assert_eq!(asked.lock().len(), 1, "no second thread waits for it");
        drop(release);
        finished.recv().unwrap();
    }
}
