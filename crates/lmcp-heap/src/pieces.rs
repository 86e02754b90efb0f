//! [`Pieces`]: an allocator that keeps a few freed pieces of each small size, for C libraries whose own allocator is slow.
//!
//! The pieces are those of the system's allocator, so pieces may be freed on any thread. Only the first thread of a program keeps
//! some: it never ends before the program, and servers of lmcp do nearly all their work on it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ffi::c_int,
    ptr,
};

/// Pieces of up to this many bytes are kept.
const LARGEST: usize = 1024;
/// The sizes of pieces are multiples of this.
const STEP: usize = 32;
/// The alignment of all pieces.
const ALIGN: usize = 16;
/// The most pieces of one size that are kept: 264 KiB if all are.
const MOST: u16 = 16;

/// An allocator for programs that are linked with musl. A request over HTTP takes a tenth less processor time with it.
///
/// ```
/// #[cfg(target_env = "musl")]
/// #[global_allocator]
/// static HEAP: lmcp_heap::Pieces = lmcp_heap::Pieces;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "programs write it down")]
pub struct Pieces;

thread_local! {
    // Nothing here runs when a thread ends: an allocator cannot rely on that.
    static KEPT: Lists = const { Lists::new() };
}

// SAFETY: all memory comes from `System` and goes back to it with the layout that it was taken with, which `whole` makes of the
// caller's layout in the same way each time. A piece is either in a list or with a caller, never both.
#[expect(unsafe_code, reason = "an allocator cannot be written without it")]
unsafe impl GlobalAlloc for Pieces {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = Size::of(layout) else {
            // SAFETY: the caller promises that the layout has a size.
            return unsafe { System.alloc(layout) };
        };
        match KEPT.with(|kept| kept.take(size)) {
            // SAFETY: the whole of a size is at least one step.
            None => unsafe { System.alloc(size.whole()) },
            Some(piece) => piece,
        }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let Some(size) = Size::of(layout) else {
            // SAFETY: the caller promises that the piece has this layout, and it was taken with it.
            return unsafe { System.dealloc(piece, layout) };
        };
        // SAFETY: the caller gives the piece up, and it was taken for this size.
        let is_kept =
            KEPT.with(|kept| kept.is_of_first_thread() && unsafe { kept.put(size, piece) });
        if !is_kept {
            // SAFETY: every piece of this size was taken with this layout.
            unsafe { System.dealloc(piece, size.whole()) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Size::of(layout).is_none() {
            // SAFETY: the caller promises that the layout has a size.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller promises that the layout has a size.
        let piece = unsafe { self.alloc(layout) };
        if !piece.is_null() {
            // SAFETY: the piece is at least as long as the layout says, and nobody else has it.
            unsafe { ptr::write_bytes(piece, 0, layout.size()) };
        }
        piece
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size is valid for this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Size::of(layout), Size::of(wanted)) {
            (Some(now), Some(then)) if now == then => return piece,
            // SAFETY: the piece was taken from `System` with this layout.
            (None, None) => return unsafe { System.realloc(piece, layout, size) },
            _ => {}
        }
        // SAFETY: the new size is not zero, as the caller promises.
        let grown = unsafe { self.alloc(wanted) };
        if !grown.is_null() {
            let both = layout.size().min(size);
            // SAFETY: both are at least this long, and apart. The caller gives the old piece up.
            unsafe {
                ptr::copy_nonoverlapping(piece, grown, both);
                self.dealloc(piece, layout);
            }
        }
        grown
    }
}

/// The number of steps that a piece takes, less one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Size(usize);

impl Size {
    /// Returns the size of the piece for a layout; nothing for those that are not kept.
    fn of(layout: Layout) -> Option<Self> {
        let fits = layout.size() <= LARGEST && layout.size() > 0 && layout.align() <= ALIGN;
        fits.then(|| Self((layout.size() - 1) / STEP))
    }

    fn whole(self) -> Layout {
        Layout::from_size_align((self.0 + 1) * STEP, ALIGN).expect("both are small")
    }
}

/// The freed pieces of one thread, a list for each size. The first bytes of a piece in a list are the address of the next.
struct Lists {
    heads: [Cell<(*mut u8, u16)>; LARGEST / STEP],
    thread: Cell<Thread>,
}

#[derive(Clone, Copy)]
enum Thread {
    Unknown,
    First,
    Other,
}

impl Lists {
    const fn new() -> Self {
        Self {
            heads: [const { Cell::new((ptr::null_mut(), 0)) }; LARGEST / STEP],
            thread: Cell::new(Thread::Unknown),
        }
    }

    fn is_of_first_thread(&self) -> bool {
        match self.thread.get() {
            Thread::First => true,
            Thread::Other => false,
            Thread::Unknown => {
                let is_first = system::gettid() == system::getpid();
                let thread = if is_first {
                    Thread::First
                } else {
                    Thread::Other
                };
                self.thread.set(thread);
                is_first
            }
        }
    }

    fn take(&self, size: Size) -> Option<*mut u8> {
        let head = self.heads.get(size.0)?;
        let (piece, count) = head.get();
        if piece.is_null() {
            return None;
        }
        #[expect(unsafe_code, reason = "the list is in the pieces themselves")]
        // SAFETY: `put` wrote the address of the next piece there, and nobody has had the piece since.
        let next = unsafe { piece.cast::<*mut u8>().read() };
        head.set((next, count - 1));
        Some(piece)
    }

    /// Keeps a piece, unless there are enough of its size.
    ///
    /// # Safety
    /// The piece was taken for this size, and nobody else uses it.
    #[expect(unsafe_code, reason = "the list is in the pieces themselves")]
    unsafe fn put(&self, size: Size, piece: *mut u8) -> bool {
        let Some(head) = self.heads.get(size.0) else {
            return false;
        };
        let (next, count) = head.get();
        if count == MOST {
            return false;
        }
        // SAFETY: a piece has at least one step, and its alignment is enough for an address.
        unsafe { piece.cast::<*mut u8>().write(next) };
        head.set((piece, count + 1));
        true
    }
}

#[expect(unsafe_code, reason = "there is no other way to name a function of C")]
mod system {
    use super::c_int;

    // SAFETY: the C library declares them like this, and they have no conditions.
    unsafe extern "C" {
        pub(super) safe fn getpid() -> c_int;
        pub(super) safe fn gettid() -> c_int;
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the functions of an allocator are unsafe")]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn freed_pieces_are_given_out_again_the_last_one_first() {
        let lists = Lists::new();
        let size = Size::of(layout(100)).unwrap();
        let mut pieces = Vec::new();
        for _ in 0..MOST {
            // SAFETY: the piece has its own layout, and nobody else has it.
            let piece = unsafe { System.alloc(size.whole()) };
            pieces.push(piece);
            assert!(unsafe { lists.put(size, piece) });
        }
        // SAFETY: as above.
        let more = unsafe { System.alloc(size.whole()) };
        assert!(!unsafe { lists.put(size, more) }, "no more are kept");
        assert_eq!(lists.take(Size::of(layout(200)).unwrap()), None);
        for piece in pieces.iter().rev() {
            assert_eq!(lists.take(size), Some(*piece));
        }
        assert_eq!(lists.take(size), None);
        for piece in pieces.into_iter().chain([more]) {
            // SAFETY: each was taken with this layout.
            unsafe { System.dealloc(piece, size.whole()) };
        }
    }

    #[test]
    fn pieces_of_all_sizes_keep_their_bytes_while_they_grow_and_shrink() {
        // The order of sizes jumps about, and passes the border between kept and other pieces.
        let sizes = (1..400).map(|number| (number * 7919) % 2500 + 1);
        // SAFETY: each layout is that of the piece.
        unsafe {
            let mut size = 1;
            let mut piece = Pieces.alloc_zeroed(layout(size));
            assert_eq!(piece.read(), 0);
            piece.write(7);
            for next in sizes {
                piece = Pieces.realloc(piece, layout(size), next);
                let filled: Vec<u8> = (0..next.min(size)).map(|at| piece.add(at).read()).collect();
                assert!(filled.iter().all(|byte| *byte == 7), "{size} to {next}");
                ptr::write_bytes(piece, 7, next);
                size = next;
            }
            Pieces.dealloc(piece, layout(size));
        }
    }

    #[test]
    fn other_threads_than_the_first_keep_nothing() {
        let lists = Lists::new();
        assert!(
            !lists.is_of_first_thread(),
            "tests run on threads of their own"
        );
    }

    #[test]
    fn large_and_strictly_aligned_pieces_are_those_of_the_system() {
        assert!(Size::of(layout(LARGEST + 1)).is_none());
        assert!(Size::of(Layout::from_size_align(64, 32).unwrap()).is_none());
        assert!(Size::of(layout(LARGEST)).is_some_and(|size| size.whole().size() == LARGEST));
        assert_eq!(Size::of(layout(1)).unwrap().whole().size(), STEP);
    }
}
