//! The memory of the whole host.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source, field};

/// The memory of the whole host. What this server may use of it, `cgroup` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Memory {
    /// All there is.
    pub(super) total_bytes: u64,
    /// What programs can still have without swapping.
    pub(super) available_bytes: u64,
    /// What nobody uses at all.
    free_bytes: Option<u64>,
    /// What holds copies of files, and is given up when somebody needs it.
    cached_bytes: Option<u64>,
    /// Swap space.
    pub(super) swap_total_bytes: u64,
    /// Swap space in use.
    pub(super) swap_used_bytes: u64,
}

pub(super) fn read(source: &Source) -> Reading<Memory> {
    let info = source.read("proc/meminfo")?;
    let bytes = |key: &str| -> Option<u64> {
        let kib: u64 = field(&info, ':', key)?
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    };
    let needed = |key: &str| bytes(key).ok_or(format!("/proc/meminfo does not say {key}"));
    let swap_total_bytes = bytes("SwapTotal").unwrap_or(0);
    Ok(Memory {
        total_bytes: needed("MemTotal")?,
        // Kernels before 3.14 do not have this value.
        available_bytes: needed("MemAvailable").or_else(|_| needed("MemFree"))?,
        free_bytes: bytes("MemFree"),
        cached_bytes: bytes("Cached"),
        swap_total_bytes,
        swap_used_bytes: swap_total_bytes.saturating_sub(bytes("SwapFree").unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_become_bytes_and_swap_is_what_is_used_of_it() {
        let meminfo = "MemTotal:  1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nCached: 50 kB\n\
                       SwapTotal: 10 kB\nSwapFree: 4 kB\n";
        let (_dir, source) = Source::fake(&[("proc/meminfo", meminfo)]);
        let memory = read(&source).unwrap();
        assert_eq!(
            (memory.total_bytes, memory.available_bytes),
            (1_024_000, 614_400)
        );
        assert_eq!(
            (memory.swap_total_bytes, memory.swap_used_bytes),
            (10_240, 6144)
        );
    }

    #[test]
    fn nonsense_is_a_reason_not_a_number() {
        let (_dir, source) = Source::fake(&[("proc/meminfo", "MemTotal: lots\n")]);
        assert!(read(&source).unwrap_err().contains("MemTotal"));
    }
}
