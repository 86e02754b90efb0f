//! The limits of this server and its children, from both versions of control groups.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source};

/// The limits of this server's control group and those above it; null is no limit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cgroup {
    /// The version of control groups, 1 or 2.
    version: u8,
    /// The group, below where groups are mounted.
    path: String,
    /// The most memory that may be used.
    pub(super) memory_max_bytes: Option<u64>,
    /// The memory in use.
    pub(super) memory_current_bytes: Option<u64>,
    /// The most processor time per time, in processors.
    pub(super) cpu_max_cores: Option<f64>,
    /// The most processes and threads.
    pub(super) pids_max: Option<u64>,
    /// The processes and threads there are.
    pids_current: Option<u64>,
}

/// The least number that means "no limit" in version 1, which writes a number that no machine has.
const NO_LIMIT: u64 = 1 << 60;

pub(super) fn read(source: &Source) -> Reading<Cgroup> {
    let own = source.read("proc/self/cgroup")?;
    let unified = own.lines().find_map(|line| line.strip_prefix("0::"));
    // A host may have both versions mounted, and then the limits are those of version 1.
    let is_mounted = source.has("sys/fs/cgroup/cgroup.controllers");
    if let Some(path) = unified.filter(|_| is_mounted) {
        return Ok(version_2(source, path));
    }
    if source.has("sys/fs/cgroup/memory") || source.has("sys/fs/cgroup/pids") {
        return Ok(version_1(source, &own));
    }
    Err("control groups are not mounted at /sys/fs/cgroup".into())
}

fn version_2(source: &Source, path: &str) -> Cgroup {
    let groups = Groups {
        source,
        mount: "sys/fs/cgroup",
        path,
    };
    Cgroup {
        version: 2,
        path: path.to_owned(),
        memory_max_bytes: groups.least("memory.max", |text| text.parse().ok()),
        memory_current_bytes: groups.own("memory.current"),
        cpu_max_cores: groups.least("cpu.max", |text| {
            let (quota, period) = text.split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        }),
        pids_max: groups.least("pids.max", |text| text.parse().ok()),
        pids_current: groups.own("pids.current"),
    }
}

fn version_1(source: &Source, own: &str) -> Cgroup {
    let path = |controller: &str| {
        let found = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            controllers
                .split(',')
                .any(|name| name == controller)
                .then(|| parts.next())?
        });
        found.unwrap_or("/")
    };
    let groups = |controller: &'static str, mount: &'static str| Groups {
        source,
        mount,
        path: path(controller),
    };
    let memory = groups("memory", "sys/fs/cgroup/memory");
    let pids = groups("pids", "sys/fs/cgroup/pids");
    let cpu = groups("cpu", "sys/fs/cgroup/cpu");
    let period = cpu.own("cpu.cfs_period_us").unwrap_or(100_000_u64);
    Cgroup {
        version: 1,
        path: memory.path.to_owned(),
        memory_max_bytes: memory.least("memory.limit_in_bytes", |text| {
            text.parse().ok().filter(|bytes| *bytes < NO_LIMIT)
        }),
        memory_current_bytes: memory.own("memory.usage_in_bytes"),
        cpu_max_cores: cpu.least("cpu.cfs_quota_us", |text| {
            let quota: f64 = text.parse().ok()?;
            (quota > 0.0 && period > 0).then(|| quota / period as f64)
        }),
        pids_max: pids.least("pids.max", |text| text.parse().ok()),
        pids_current: pids.own("pids.current"),
    }
}

/// A group and those above it.
struct Groups<'a> {
    source: &'a Source,
    mount: &'a str,
    path: &'a str,
}

impl Groups<'_> {
    /// Returns the folders of the group and of those above it. In a container the path may be that of the host, of
    /// which only the end is mounted: then the mount itself is the group.
    fn folders(&self) -> impl Iterator<Item = String> {
        std::iter::successors(Some(self.path.trim_end_matches('/')), |path| {
            path.rfind('/').map(|end| &path[..end])
        })
        .map(|path| format!("{}{path}", self.mount))
    }

    /// Returns the smallest of the limits.
    fn least<T: PartialOrd>(&self, file: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.folders()
            .filter_map(|folder| parse(self.source.read(&format!("{folder}/{file}")).ok()?.trim()))
            .reduce(|a, b| if b < a { b } else { a })
    }

    /// Returns a value of the group itself.
    fn own(&self, file: &str) -> Option<u64> {
        self.folders()
            .find_map(|folder| self.source.value(&format!("{folder}/{file}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_version_2_the_least_limit_on_the_way_up_counts() {
        let (_dir, source) = Source::fake(&[
            ("proc/self/cgroup", "0::/a.slice/b.service\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids"),
            ("sys/fs/cgroup/a.slice/memory.max", "1000\n"),
            ("sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.current", "77\n"),
            ("sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a.slice/b.service/pids.max", "max\n"),
        ]);
        let group = read(&source).unwrap();
        assert_eq!(
            (group.version, group.path.as_str()),
            (2, "/a.slice/b.service")
        );
        assert_eq!(group.memory_max_bytes, Some(1000));
        assert_eq!(group.memory_current_bytes, Some(77));
        assert_eq!(group.cpu_max_cores, Some(1.5));
        assert_eq!(group.pids_max, None);
    }

    #[test]
    fn in_version_1_each_controller_has_its_own_path_and_no_limit_is_a_huge_number() {
        let (_dir, source) = Source::fake(&[
            (
                "proc/self/cgroup",
                "5:pids:/p\n4:cpu,cpuacct:/c\n3:memory:/docker/abc\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n"),
            ("sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/pids/p/pids.max", "12\n"),
        ]);
        let group = read(&source).unwrap();
        assert_eq!(group.version, 1);
        assert_eq!(group.memory_max_bytes, None);
        assert_eq!(group.memory_current_bytes, Some(5));
        assert_eq!(group.cpu_max_cores, Some(0.5));
        assert_eq!(group.pids_max, Some(12));
    }

    #[test]
    fn a_host_without_groups_says_so() {
        let (_dir, source) = Source::fake(&[("proc/self/cgroup", "0::/\n")]);
        assert!(read(&source).unwrap_err().contains("not mounted"));
    }
}
