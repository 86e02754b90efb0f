//! The operating system.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source, field};

/// The operating system, and since when it runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Os {
    /// Its name for people, such as `Debian GNU/Linux`.
    pub(super) name: Option<String>,
    /// Its version for people, such as `12 (bookworm)`.
    pub(super) version: Option<String>,
    /// Its name for programs, such as `debian`.
    id: Option<String>,
    /// The release of the kernel.
    pub(super) kernel: String,
    /// What the processors understand, such as `x86_64`.
    pub(super) arch: String,
    /// The name of the host.
    pub(super) hostname: String,
    /// For how long it runs.
    pub(super) uptime_seconds: u64,
    /// When it started, since 1970.
    boot_time_unix_seconds: Option<u64>,
}

pub(super) fn read(source: &Source) -> Reading<Os> {
    let release = ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|path| source.read(path).ok())
        .unwrap_or_default();
    let said = |key: &str| {
        let value = field(&release, '=', key)?.trim_matches(['"', '\'']);
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    let uptime = source.read("proc/uptime")?;
    let seconds = uptime.split(['.', ' ']).next().unwrap_or_default();
    let stat = source.read("proc/stat").unwrap_or_default();
    let boot_time = stat.lines().find_map(|line| line.strip_prefix("btime "));
    Ok(Os {
        name: said("NAME"),
        version: said("VERSION").or_else(|| said("VERSION_ID")),
        id: said("ID"),
        kernel: source.read("proc/sys/kernel/osrelease")?.trim().to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        hostname: source.read("proc/sys/kernel/hostname")?.trim().to_owned(),
        uptime_seconds: seconds
            .parse()
            .map_err(|_| format!("/proc/uptime says `{}`", uptime.trim()))?,
        boot_time_unix_seconds: boot_time.and_then(|time| time.trim().parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_the_kernel_and_the_uptime_are_read() {
        let (_dir, source) = Source::fake(&[
            (
                "usr/lib/os-release",
                "NAME=\"Some Linux\"\nID=some\nVERSION_ID='3.1'\n",
            ),
            ("proc/uptime", "12345.67 99.0\n"),
            ("proc/stat", "cpu 1 2 3\nbtime 1700000000\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/hostname", "box\n"),
        ]);
        let os = read(&source).unwrap();
        assert_eq!(os.name.as_deref(), Some("Some Linux"));
        assert_eq!(os.version.as_deref(), Some("3.1"));
        assert_eq!(os.id.as_deref(), Some("some"));
        assert_eq!((os.kernel.as_str(), os.hostname.as_str()), ("6.1.0", "box"));
        assert_eq!(os.uptime_seconds, 12345);
        assert_eq!(os.boot_time_unix_seconds, Some(1_700_000_000));
    }
}
