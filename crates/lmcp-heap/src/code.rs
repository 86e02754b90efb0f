//! Finds where this program's code is mapped, and frees its pages.

use std::{
    ffi::{c_int, c_void},
    fs,
    ops::Range,
};

const DONT_NEED: c_int = 4;

#[expect(unsafe_code, reason = "there is no other way to name a function of C")]
// SAFETY: the C library declares the function like this.
unsafe extern "C" {
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
}

#[expect(
    unsafe_code,
    reason = "only a promise says that these addresses are code"
)]
pub(crate) fn let_go() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        return;
    };
    let here = let_go as fn() as usize;
    for part in unwritten(&maps, here) {
        // SAFETY: the range is a part of a file that nobody can have written to. When the bytes are needed, the system reads
        // the same ones again, at the same addresses.
        let _ = unsafe { madvise(part.start as *mut c_void, part.len(), DONT_NEED) };
    }
}

/// Returns the mapping that contains this address, and those of the same file below it, if they belong to a file and nobody can
/// write to them.
///
/// Linkers put constants below the code. A mapping above the code may have been written to before it was closed to writers.
fn unwritten(maps: &str, address: usize) -> Vec<Range<usize>> {
    let mut found: Vec<(&str, Range<usize>)> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights), Some(_), Some(_), Some(inode)) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) else {
            continue;
        };
        let Some(range) = range_of(range) else {
            continue;
        };
        if inode == "0" || !matches!(rights, "r-xp" | "r--p") {
            continue;
        }
        let is_it = range.contains(&address);
        found.push((inode, range));
        if is_it {
            found.retain(|(other, _)| *other == inode);
            return found.into_iter().map(|(_, range)| range).collect();
        }
    }
    Vec::new()
}

fn range_of(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::{let_go, unwritten};

    const MAPS: &str = "\
        00200000-00400000 r--p 00000000 fe:00 77    /usr/bin/lmcp\n\
        00401000-00901000 r-xp 00200000 fe:00 77    /usr/bin/lmcp\n\
        00902000-00950000 r--p 00700000 fe:00 77    /usr/bin/lmcp\n\
        00951000-00960000 rw-p 00750000 fe:00 77    /usr/bin/lmcp\n\
        01000000-01100000 rw-p 00000000 00:00 0     [heap]\n\
        7f000000-7f100000 r-xp 00000000 fe:00 78    /usr/lib/libc.so\n";

    #[test]
    fn constants_and_code_are_let_go_and_nothing_above_them() {
        let found = unwritten(MAPS, 0x0050_0000);
        assert_eq!(found, [0x20_0000..0x40_0000, 0x40_1000..0x90_1000]);
        assert_eq!(unwritten(MAPS, 0x0105_0000), []);
        assert_eq!(unwritten(MAPS, 0x0095_5000), []);
        assert_eq!(unwritten("nonsense\n1-2\n", 1), []);
    }

    /// Constants that no other code reads, many times as large as the part that the system maps around a touched page.
    static CONSTANTS: [u8; 4 << 20] = [7; 4 << 20];

    #[test]
    fn a_program_goes_on_without_its_pages() {
        let middle = &CONSTANTS[CONSTANTS.len() / 2];
        assert_eq!(std::hint::black_box(*middle), 7);
        assert!(is_mapped(middle), "the page was just read");
        let_go();
        assert!(!is_mapped(middle), "the page is let go of");
        assert_eq!(std::hint::black_box(*middle), 7);
        assert!(is_mapped(middle), "the page was read again");
    }

    /// Whether this process has the page of this byte in memory, by `/proc/self/pagemap`.
    ///
    /// The number of all pages would not do: other tests of this program run at the same time and touch their pages.
    fn is_mapped(byte: &u8) -> bool {
        use std::os::unix::fs::FileExt as _;
        let page = std::ptr::from_ref(byte).addr() as u64 / rustix::param::page_size() as u64;
        let mut entry = [0; 8];
        std::fs::File::open("/proc/self/pagemap")
            .and_then(|map| map.read_exact_at(&mut entry, page * 8))
            .expect("the system tells which pages are in memory");
        u64::from_ne_bytes(entry) >> 63 == 1
    }
}
