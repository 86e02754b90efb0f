//! Which records of commands are forgotten: those that are too old, too large or too many, and those that are not kept.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use lmcp_core::Caller;

use super::{
    dir,
    rights::Rights,
    spool::OUTPUT,
    store::{About, Kept},
};

/// A folder younger than this may belong to a guard that is just being started.
const YOUNG: Duration = Duration::from_secs(60);

/// A command that has ended and is kept.
struct Ended {
    age: Duration,
    bytes: u64,
    dir: PathBuf,
}

/// The records that one caller keeps, by the owners for whom it acts.
type Share = BTreeMap<Option<String>, Vec<Ended>>;

/// Returns what to remove of the folders of commands that have ended.
///
/// If too much is kept, the caller that keeps most loses its oldest record: the jobs of one caller erase nothing of another
/// that keeps less. A caller that acts for many loses the oldest record of the owner for whom it keeps most. A server with
/// these rights counts and removes only what it may see. Scratch files that are still there were left by a guard that was
/// killed.
pub(super) fn doomed(
    folders: impl Iterator<Item = PathBuf>,
    limits: &Kept,
    rights: &Rights,
) -> Vec<PathBuf> {
    // A record that makes no sense belongs to nobody, and is removed.
    let is_denied = |err: &io::Error| err.kind() == io::ErrorKind::PermissionDenied;
    let is_visible = |about: &About| rights.covers(&about.rights);
    let (mut doomed, mut kept) = (Vec::new(), Vec::new());
    for dir in folders {
        let Some(age) = age(&dir) else { continue };
        let is_kept = dir::is_there(&dir.join(dir::KEPT));
        if is_kept && age <= limits.age {
            let bytes = fs::metadata(dir.join(OUTPUT)).map_or(0, |output| used(&output));
            kept.push(Ended { age, bytes, dir });
        } else if (is_kept || age > YOUNG)
            && About::read(&dir).map_or_else(|err| !is_denied(&err), |about| is_visible(&about))
        {
            doomed.push(dir);
        }
    }
    let scratch = kept.iter().map(|ended| ended.dir.join(dir::SCRATCH));
    doomed.extend(scratch.filter(|scratch| scratch.exists()));
    doomed.extend(too_many(kept, limits, rights));
    doomed
}

/// Returns the oldest records of whichever caller keeps most, until the rest is within the limits.
fn too_many(kept: Vec<Ended>, limits: &Kept, rights: &Rights) -> Vec<PathBuf> {
    let is_too_much = |count, bytes| count > limits.jobs || bytes > limits.bytes;
    let mut doomed = Vec::new();
    if !is_too_much(kept.len(), kept.iter().map(|ended| ended.bytes).sum()) {
        return doomed;
    }
    let (mut count, mut bytes) = (0, 0);
    let mut shares: BTreeMap<_, Share> = BTreeMap::new();
    for ended in kept {
        let about = About::read(&ended.dir).ok();
        if about
            .as_ref()
            .is_none_or(|about| rights.covers(&about.rights))
        {
            count += 1;
            bytes += ended.bytes;
            let (owner, rights) = about
                .map(|about| (about.owner, about.rights.words()))
                .unzip();
            let payer = owner
                .as_deref()
                .map(|owner| Caller::payer_of(owner).to_owned());
            let share = shares.entry((payer, rights)).or_default();
            share.entry(owner).or_default().push(ended);
        }
    }
    for owned in shares.values_mut().flat_map(BTreeMap::values_mut) {
        owned.sort_by_key(|ended| ended.age);
    }
    while is_too_much(count, bytes) {
        let size = |owned: &Vec<Ended>| match count > limits.jobs {
            true => owned.len() as u64,
            false => owned.iter().map(|ended| ended.bytes).sum(),
        };
        let age = |owned: &Vec<Ended>| owned.last().map(|ended| ended.age);
        let largest = shares.values_mut().max_by_key(|share| {
            let all = share.values();
            (all.clone().map(size).sum::<u64>(), all.map(age).max())
        });
        let largest = largest.and_then(|share| {
            let owned = share.values_mut();
            owned.max_by_key(|owned| (size(owned), age(owned)))
        });
        let Some(oldest) = largest.and_then(Vec::pop) else {
            break;
        };
        count -= 1;
        bytes -= oldest.bytes;
        doomed.push(oldest.dir);
    }
    doomed
}

/// Returns how long a folder has been unchanged. A confined command can set the other times of every folder of its user back or
/// into the future, but the kernel notes when that was done. After the clock was set back, nothing is old.
fn age(dir: &Path) -> Option<Duration> {
    let metadata = dir::insist(dir, || fs::symlink_metadata(dir)).ok()?;
    let changed = u64::try_from(metadata.ctime()).ok()?;
    let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(changed))?;
    Some(changed.elapsed().unwrap_or_default())
}

/// Returns how many bytes a file takes on the disk. Holes take none.
fn used(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_set_back_makes_nothing_old() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::File::open(&dir).unwrap();
        folder.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(age(dir.path()).unwrap() < YOUNG);
    }

    #[test]
    fn a_time_in_the_future_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = fs::File::open(&dir).unwrap();
        let future = SystemTime::now() + Duration::from_secs(3600);
        folder.set_modified(future).unwrap();
        assert!(age(dir.path()).is_some());
    }
}
