//! Gives memory back to the system: freed memory, and the pages of code that will not run again soon. For musl, whose allocator is slow,
//! keeps some freed memory instead.
//!
//! glibc keeps freed memory for later. A server that has held much for its callers then stays as large as it ever was, and
//! holds twice its budget once callers want memory of another kind: short answers first, for example, then long messages. glibc
//! has a function that gives back every page without a living byte, and one that changes its settings. Linux has one that frees
//! pages. Rust can call them only through declarations that need `unsafe`. These declarations, and the allocator for musl, are in this crate alone; all other crates
//! forbid `unsafe`.

#[cfg(target_os = "linux")]
mod code;
#[cfg(target_os = "linux")]
mod pieces;

#[cfg(target_os = "linux")]
pub use pieces::Pieces;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no other way to name a function of C")]
mod glibc {
    use std::ffi::c_int;

    // SAFETY: glibc declares them like this. Neither has conditions, and threads may call both at any time.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
        pub(super) safe fn mallopt(setting: c_int, value: c_int) -> c_int;
    }

    pub(super) const MMAP_THRESHOLD: c_int = -3;
    pub(super) const ARENA_MAX: c_int = -8;
}

/// Makes the allocator keep less freed memory: all threads share one heap, and pieces of 128 KiB and more are taken from the
/// system, and given back, one by one. A program calls this at its start, before it has a second thread, because existing heaps
/// stay.
///
/// On other C libraries and systems this does nothing.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        glibc::mallopt(glibc::ARENA_MAX, 1);
        glibc::mallopt(glibc::MMAP_THRESHOLD, 128 << 10);
    }
}

/// Gives every page of the heap back to the system that contains no living byte. This takes about a millisecond for some ten
/// megabytes, so call it only when much was freed.
///
/// Other C libraries and systems do this themselves, or cannot; there the function does nothing.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::malloc_trim(0);
}

/// Frees the pages of all code of this program that has been used so far. Code that runs again is mapped again from the file of
/// the program, which costs some ten microseconds; code that runs only at the start is gone from memory. So it is for servers
/// that have started and wait.
///
/// On other systems than Linux this does nothing.
pub fn let_go_of_code() {
    #[cfg(target_os = "linux")]
    code::let_go();
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    /// Returns the memory of this process that the system has set aside, in pages.
    fn resident() -> usize {
        let numbers = std::fs::read_to_string("/proc/self/statm").expect("it is Linux");
        let resident = numbers.split(' ').nth(1);
        resident
            .and_then(|pages| pages.parse().ok())
            .expect("a number")
    }

    #[test]
    fn what_was_freed_between_living_pieces_goes_back_to_the_system() {
        // Pieces that are smaller than those that glibc takes from the system one by one.
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
