//! Gives memory back to the system: what was freed, and code that has run for the last time.
//!
//! glibc keeps freed memory for later. A server that has held much for its callers then stays as large as it ever was, and
//! holds twice its budget once callers want memory of another kind: short answers first, say, then long messages. glibc has a
//! function that gives back every page without a living byte, and one that changes its settings. Linux has one that lets go of
//! pages. Rust can only call them by declaring them, and the word for that is `unsafe`; so they stand here, alone, and all other
//! crates forbid the word.

#[cfg(target_os = "linux")]
mod code;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no other way to name a function of C")]
mod glibc {
    use std::ffi::c_int;

    // SAFETY: this is how glibc declares them. Neither has conditions, and threads may call both at any time.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
        pub(super) safe fn mallopt(setting: c_int, value: c_int) -> c_int;
    }

    pub(super) const MMAP_THRESHOLD: c_int = -3;
    pub(super) const ARENA_MAX: c_int = -8;
}

/// Makes the allocator keep less of what is freed: all threads share one heap, and pieces of 128 KiB and more are taken from
/// the system, and given back, one by one. A program says so at its start, before it has a second thread: heaps that exist stay.
///
/// On other C libraries and systems this does nothing.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        glibc::mallopt(glibc::ARENA_MAX, 1);
        glibc::mallopt(glibc::MMAP_THRESHOLD, 128 << 10);
    }
}

/// Gives every page of the heap back to the system that holds nothing alive. It takes about a millisecond for some ten
/// megabytes, so it is for those who know that much was freed.
///
/// Other C libraries and systems do so by themselves, or cannot; there this does nothing.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::malloc_trim(0);
}

/// Lets go of all code of this program that has been used so far. What runs again is mapped again, from the file of the
/// program, which costs it some ten microseconds; what ran at the start alone is gone from memory. So it is for servers that
/// have started and wait.
///
/// On other systems than Linux this does nothing.
pub fn let_go_of_code() {
    #[cfg(target_os = "linux")]
    code::let_go();
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    /// The memory of this process that the system has set aside, in pages.
    fn resident() -> usize {
        let numbers = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
        let resident = numbers.split(' ').nth(1);
        resident
            .and_then(|pages| pages.parse().ok())
            .expect("a number")
    }

    #[test]
    fn what_was_freed_between_living_pieces_goes_back_to_the_system() {
        // Pieces below the size that glibc gets from the system one by one.
        let mut pieces: Vec<_> = (0..1000).map(|_| vec![1_u8; 64 << 10]).collect();
        let full = resident();
        let mut number = 0;
        pieces.retain(|_| {
            number += 1;
            number % 10 == 0
        });
        super::give_back();
        let left = resident();
        assert!(left < full / 2, "{left} of {full} pages are left");
        assert_eq!(pieces.len(), 100);
    }
}
