//! Which records of commands are forgotten: what is too old, too much or too many, and what nobody wanted kept.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    dir,
    spool::OUTPUT,
    store::{About, Kept},
};

/// A folder of a minute may be one whose guard is just being started.
const YOUNG: Duration = Duration::from_secs(60);

/// A command that has ended and is kept.
struct Ended {
    age: Duration,
    bytes: u64,
    dir: PathBuf,
}

/// What is to be removed of the folders of commands that have ended.
///
/// Of too much, what goes is the oldest of the caller that has most: one caller's jobs erase nothing of another that keeps
/// less. Scratch files that are still there were left by a guard that was killed.
pub(super) fn doomed(folders: impl Iterator<Item = PathBuf>, limits: &Kept) -> Vec<PathBuf> {
    let (mut doomed, mut kept) = (Vec::new(), Vec::new());
    for dir in folders {
        let Some(age) = age(&dir) else { continue };
        let is_kept = dir.join(dir::KEPT).exists();
        if is_kept && age <= limits.age {
            let bytes = fs::metadata(dir.join(OUTPUT)).map_or(0, |output| used(&output));
            kept.push(Ended { age, bytes, dir });
        } else if is_kept || age > YOUNG {
            doomed.push(dir);
        }
    }
    let scratch = kept.iter().map(|ended| ended.dir.join(dir::SCRATCH));
    doomed.extend(scratch.filter(|scratch| scratch.exists()));
    doomed.extend(too_many(kept, limits));
    doomed
}

/// The oldest of whoever has most, until the rest is within the limits.
fn too_many(kept: Vec<Ended>, limits: &Kept) -> Vec<PathBuf> {
    let mut count = kept.len();
    let mut bytes: u64 = kept.iter().map(|ended| ended.bytes).sum();
    let mut doomed = Vec::new();
    if count <= limits.jobs && bytes <= limits.bytes {
        return doomed;
    }
    let mut shares: BTreeMap<String, Vec<Ended>> = BTreeMap::new();
    for ended in kept {
        // What cannot be read is nobody's.
        let owner = About::read(&ended.dir).map_or(String::new(), |about| about.owner);
        shares.entry(owner).or_default().push(ended);
    }
    for share in shares.values_mut() {
        share.sort_by_key(|ended| ended.age);
    }
    while count > limits.jobs || bytes > limits.bytes {
        let size = |share: &[Ended]| match count > limits.jobs {
            true => share.len() as u64,
            false => share.iter().map(|ended| ended.bytes).sum(),
        };
        let largest = shares
            .values_mut()
            .max_by_key(|share| (size(share), share.last().map(|ended| ended.age)));
        let Some(oldest) = largest.and_then(Vec::pop) else {
            break;
        };
        count -= 1;
        bytes -= oldest.bytes;
        doomed.push(oldest.dir);
    }
    doomed
}

fn age(dir: &Path) -> Option<Duration> {
    fs::metadata(dir).ok()?.modified().ok()?.elapsed().ok()
}

/// What a file takes on the disk; holes take nothing.
fn used(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}
