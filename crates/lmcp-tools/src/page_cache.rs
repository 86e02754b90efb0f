//! Finds out whether a file can be read without waiting for a disk or a network. Reading such a file at once costs less
//! than handing the work to another thread.

use std::{io::IoSliceMut, os::fd::OwnedFd};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags},
    io::{Errno, ReadWriteFlags},
};

use crate::{here::Here, image, roots::Roots};

/// The largest file that is read on the thread that serves the call.
pub(crate) const SMALL_BYTES: u64 = 32 << 10;

impl Roots {
    /// Returns whether this is a small file, all of which the kernel has in memory. A "no" is always right. A picture that
    /// would have to be scaled down is not small: a few bytes can stand for millions of pixels.
    pub(crate) fn is_at_hand(&self, here: &Here, path: &str) -> bool {
        self.hold_in_memory(here, path).unwrap_or(false)
    }

    fn hold_in_memory(&self, here: &Here, path: &str) -> Result<bool, Errno> {
        let Some((base, below, beneath)) = self.unresolved(here, path) else {
            return Ok(false);
        };
        // This fails with EAGAIN if the kernel does not have a name in memory.
        let open = |flags| -> Result<OwnedFd, Errno> {
            let resolve = beneath | ResolveFlags::CACHED;
            rustix::fs::openat2(base.unwrap_or(CWD), &below, flags, Mode::empty(), resolve)
        };
        let found = open(OFlags::PATH | OFlags::CLOEXEC)?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(&found, "", flags, StatxFlags::BASIC_STATS)?;
        let is_file = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
        // Major 0 means that there is no block device below: perhaps a network, where the open alone may take for ever.
        if !is_file || stat.stx_size > SMALL_BYTES || stat.stx_dev_major == 0 {
            return Ok(false);
        }
        let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC)?;
        let mut bytes = vec![0; stat.stx_size as usize];
        let length = rustix::io::preadv2(
            &file,
            &mut [IoSliceMut::new(&mut bytes)],
            0,
            ReadWriteFlags::NOWAIT,
        )?;
        Ok(length as u64 == stat.stx_size && !image::is_too_large(&bytes, stat.stx_size))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Returns whether a path lies on a block device, so that the answer may be yes.
    fn is_on_a_device(path: &Path) -> bool {
        rustix::fs::stat(path).is_ok_and(|stat| rustix::fs::major(stat.st_dev) != 0)
    }

    #[test]
    fn small_files_just_written_are_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("small"), "abc").unwrap();
        std::fs::write(path("large"), vec![b'a'; SMALL_BYTES as usize + 1]).unwrap();
        let roots = Roots::open(&[]).unwrap();
        assert_eq!(
            roots.is_at_hand(&Here::default(), &path("small")),
            is_on_a_device(dir.path())
        );
        assert!(!roots.is_at_hand(&Here::default(), &path("large")));
        assert!(!roots.is_at_hand(&Here::default(), &path("missing")));
        assert!(!roots.is_at_hand(&Here::default(), &dir.path().display().to_string()));
        assert!(!roots.is_at_hand(&Here::default(), "/proc/self/status"));
        assert!(!roots.is_at_hand(&Here::default(), "/dev/zero"));
    }

    #[test]
    fn a_short_file_with_many_pixels_is_not_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.png").display().to_string();
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend(9000_u32.to_be_bytes());
        png.extend(9000_u32.to_be_bytes());
        std::fs::write(&path, png).unwrap();
        let roots = Roots::open(&[]).unwrap();
        assert!(!roots.is_at_hand(&Here::default(), &path));
    }

    #[test]
    fn nothing_outside_of_a_root_is() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(root.join("inside"), "abc").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        let roots = Roots::open(&[root]).unwrap();
        assert_eq!(
            roots.is_at_hand(&Here::default(), "inside"),
            is_on_a_device(dir.path())
        );
        assert!(!roots.is_at_hand(&Here::default(), "link"));
        assert!(!roots.is_at_hand(&Here::default(), "../outside"));
        assert!(!roots.is_at_hand(&Here::default(), &outside.display().to_string()));
    }
}
