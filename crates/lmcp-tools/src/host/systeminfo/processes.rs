//! The processes, by name only: command lines hold secrets.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source};

/// The processes, the largest by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Processes {
    /// How many there are.
    pub(super) count: usize,
    /// Their threads, together.
    threads: u64,
    /// Those that have ended and that nobody looks after.
    zombies: usize,
    /// Those with the most memory.
    pub(super) top_by_memory: Vec<Process>,
    /// Those with the most processor time since they started.
    pub(super) top_by_cpu: Vec<Process>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Process {
    /// Its number.
    pid: u32,
    /// The name of its program, up to 15 bytes of it.
    pub(super) name: String,
    /// Its memory, with what it shares.
    pub(super) rss_bytes: u64,
    /// Its processor time since it started.
    pub(super) cpu_seconds: f64,
}

/// How many processes of each kind are shown.
const TOP: usize = 10;

pub(super) fn read(source: &Source) -> Reading<Processes> {
    let mut all = Processes {
        count: 0,
        threads: 0,
        zombies: 0,
        top_by_memory: Vec::new(),
        top_by_cpu: Vec::new(),
    };
    let pids = source.names("proc")?.filter_map(|name| name.parse().ok());
    for pid in pids {
        // A process that has ended meanwhile is not counted.
        let Ok(stat) = source.read(&format!("proc/{pid}/stat")) else {
            continue;
        };
        let Some((process, threads, state)) = parse(pid, &stat) else {
            continue;
        };
        all.count += 1;
        all.threads += threads;
        all.zombies += usize::from(state == "Z");
        keep(&mut all.top_by_memory, &process, |process| {
            process.rss_bytes as f64
        });
        keep(&mut all.top_by_cpu, &process, |process| process.cpu_seconds);
    }
    if all.count == 0 {
        return Err("/proc shows no processes".into());
    }
    Ok(all)
}

/// Reads `/proc/PID/stat`. The name stands in brackets and may hold any character, brackets too.
fn parse(pid: u32, stat: &str) -> Option<(Process, u64, &str)> {
    let (start, end) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<_> = stat.get(end + 1..)?.split_whitespace().collect();
    // Fields are numbered as in proc(5), where the state is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    let process = Process {
        pid,
        name: stat.get(start + 1..end)?.to_owned(),
        rss_bytes: field(24)?.saturating_mul(rustix::param::page_size() as u64),
        cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    };
    Some((process, field(20)?, fields.first()?))
}

/// Inserts a process into the list of the largest, if it belongs there.
fn keep(top: &mut Vec<Process>, process: &Process, size: impl Fn(&Process) -> f64) {
    let place = top.partition_point(|other| size(other) >= size(process));
    if place < TOP && size(process) > 0.0 {
        top.insert(place, process.clone());
        top.truncate(TOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, ticks: u64, threads: u64, pages: u64) -> String {
        format!(
            "1 ({name}) {state} 0 1 1 0 -1 4194560 1 1 1 1 {ticks} 0 0 0 20 0 {threads} 0 5 9999 {pages} 1 1"
        )
    }

    #[test]
    fn the_largest_are_found_and_names_may_hold_anything() {
        let files: Vec<_> = (1..=15_u64)
            .map(|pid| {
                (
                    format!("proc/{pid}/stat"),
                    stat("a) (b", "S", pid * 100, 2, 100 - pid),
                )
            })
            .chain([("proc/99/stat".to_owned(), stat("gone", "Z", 0, 1, 0))])
            .chain([("proc/self/stat".to_owned(), "not a process".to_owned())])
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let (_dir, source) = Source::fake(&files);
        let all = read(&source).unwrap();
        assert_eq!((all.count, all.threads, all.zombies), (16, 31, 1));
        let pids = |top: &[Process]| top.iter().map(|process| process.pid).collect::<Vec<_>>();
        assert_eq!(pids(&all.top_by_memory), (1..=10).collect::<Vec<_>>());
        assert_eq!(pids(&all.top_by_cpu), (6..=15).rev().collect::<Vec<_>>());
        assert_eq!(all.top_by_cpu[0].name, "a) (b");
    }
}
