//! The text of the answer: a dozen lines that a person reads at a glance.

use std::fmt::Write;

use super::{SystemInfo, cgroup::Cgroup, disks::Disk, processes::Process};

pub(super) fn render(info: &SystemInfo) -> String {
    let mut lines = Vec::new();
    if let Some(os) = &info.os {
        let name = os.name.as_deref().unwrap_or("Linux");
        let version = os.version.as_deref().unwrap_or_default();
        let (kernel, arch, host) = (&os.kernel, &os.arch, &os.hostname);
        lines.push(format!(
            "{host}: {name} {version}, kernel {kernel}, {arch}, up {}",
            duration(os.uptime_seconds)
        ));
    }
    if let Some(cpu) = &info.cpu {
        let model = cpu.model.as_deref().unwrap_or("unknown model");
        let (cores, one, five, fifteen) = (cpu.logical_cores, cpu.load_1, cpu.load_5, cpu.load_15);
        lines.push(format!(
            "cpu: {cores} x {model}, load {one} {five} {fifteen}"
        ));
    }
    if let Some(memory) = &info.memory {
        let (free, total) = (size(memory.available_bytes), size(memory.total_bytes));
        let (swap, swap_total) = (size(memory.swap_used_bytes), size(memory.swap_total_bytes));
        lines.push(format!(
            "memory: {free} of {total} available, swap {swap} of {swap_total} used"
        ));
    }
    if let Some(cgroup) = &info.cgroup {
        lines.push(limits(cgroup));
    }
    if let Some(pressure) = &info.pressure {
        let (cpu, memory, io) = (&pressure.cpu.some, &pressure.memory.some, &pressure.io.some);
        lines.push(format!(
            "pressure, 10 s: cpu {}%, memory {}%, io {}%",
            cpu.avg10_percent, memory.avg10_percent, io.avg10_percent
        ));
    }
    lines.extend(info.disks.iter().flatten().map(disk));
    for interface in info.network.iter().flat_map(|network| &network.interfaces) {
        let addresses = [&*interface.ipv4, &*interface.ipv6].concat().join(" ");
        if interface.up && !addresses.is_empty() {
            lines.push(format!("{}: {addresses}", interface.name));
        }
    }
    if let Some(kind) = info
        .container
        .as_ref()
        .and_then(|container| container.kind.as_ref())
    {
        lines.push(format!("container: {kind}"));
    }
    if let Some(all) = &info.processes {
        lines.push(format!("processes: {}", all.count));
        lines.push(top("most memory", &all.top_by_memory, |process| {
            size(process.rss_bytes)
        }));
        lines.push(top("most cpu", &all.top_by_cpu, |process| {
            format!("{:.0} s", process.cpu_seconds)
        }));
    }
    for (section, reason) in &info.unavailable {
        lines.push(format!(
            "{}: {reason}",
            format!("{section:?}").to_lowercase()
        ));
    }
    lines.join("\n")
}

fn limits(cgroup: &Cgroup) -> String {
    let mut text = "limits:".to_owned();
    if let Some(bytes) = cgroup.memory_max_bytes {
        let used = cgroup.memory_current_bytes.map(size).unwrap_or_default();
        let _ = write!(text, " memory {used} of {} used", size(bytes));
    }
    if let Some(cores) = cgroup.cpu_max_cores {
        let _ = write!(text, " cpu {cores} cores");
    }
    if let Some(pids) = cgroup.pids_max {
        let _ = write!(text, " pids {pids}");
    }
    if text.ends_with(':') {
        text.push_str(" none");
    }
    text
}

fn disk(disk: &Disk) -> String {
    let (mount, fs_type) = (&disk.mount, &disk.fs_type);
    match (&disk.space, &disk.problem) {
        (Some(space), _) => {
            let (free, total) = (size(space.available_bytes), size(space.total_bytes));
            format!("{mount}: {free} of {total} available, {fs_type}")
        }
        (None, problem) => format!(
            "{mount}: {}, {fs_type}",
            problem.as_deref().unwrap_or("unknown")
        ),
    }
}

fn top(what: &str, processes: &[Process], size: impl Fn(&Process) -> String) -> String {
    let shown: Vec<_> = processes
        .iter()
        .take(5)
        .map(|process| format!("{} {}", process.name, size(process)))
        .collect();
    format!("{what}: {}", shown.join(", "))
}

/// Returns a size for people.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && size < 100.0);
    format!("{size:.digits$} {}", units[unit])
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(
            [size(0), size(1536), size(1 << 40)],
            ["0 B", "1.5 KiB", "1.0 TiB"]
        );
        assert_eq!(size(500 << 20), "500 MiB");
        assert_eq!(
            [duration(59), duration(3700), duration(90_000)],
            ["0 min", "1 h 1 min", "1 d 1 h"]
        );
    }
}
