//! The processors.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source, field};

/// The processors and their load.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cpu {
    /// The name its maker gives it, where it tells.
    pub(super) model: Option<String>,
    /// Processors that the system sees.
    pub(super) logical_cores: usize,
    /// Cores that there are, where the system tells.
    physical_cores: Option<usize>,
    /// Tasks that run or wait, on average over 1 minute.
    pub(super) load_1: f64,
    /// The same over 5 minutes.
    pub(super) load_5: f64,
    /// The same over 15 minutes.
    pub(super) load_15: f64,
    /// What all processors together did since the start.
    times: Option<Times>,
}

/// Where the time of all processors went.
#[derive(Debug, Serialize, JsonSchema)]
struct Times {
    /// In programs.
    user_seconds: f64,
    /// In the kernel for them.
    system_seconds: f64,
    /// Nowhere.
    idle_seconds: f64,
    /// Nowhere, with somebody waiting for a disk.
    iowait_seconds: f64,
    /// In other virtual machines on the same hardware.
    steal_seconds: f64,
}

pub(super) fn read(source: &Source) -> Reading<Cpu> {
    let info = source.read("proc/cpuinfo")?;
    let processors: Vec<_> = info
        .split("\n\n")
        .filter(|text| field(text, ':', "processor").is_some())
        .collect();
    let cores: BTreeSet<_> = processors
        .iter()
        .filter_map(|text| {
            Some((
                field(text, ':', "physical id")?,
                field(text, ':', "core id")?,
            ))
        })
        .collect();
    let model = ["model name", "Model", "cpu model", "uarch", "cpu"]
        .iter()
        .find_map(|key| field(&info, ':', key));
    let load = source.read("proc/loadavg")?;
    let mut load = load.split(' ').map_while(|number| number.parse().ok());
    let mut next = || load.next().ok_or("cannot make sense of /proc/loadavg");
    Ok(Cpu {
        model: model.map(str::to_owned),
        logical_cores: processors.len(),
        physical_cores: Some(cores.len()).filter(|count| *count > 0),
        load_1: next()?,
        load_5: next()?,
        load_15: next()?,
        times: source.read("proc/stat").ok().and_then(|stat| times(&stat)),
    })
}

fn times(stat: &str) -> Option<Times> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let times: Vec<_> = line
        .split_whitespace()
        .map_while(|ticks| ticks.parse::<f64>().ok())
        .map(|ticks| ticks / per_second)
        .collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = times[..] else {
        return None;
    };
    Some(Times {
        user_seconds: user + nice,
        system_seconds: system + irq + softirq,
        idle_seconds: idle,
        iowait_seconds: iowait,
        steal_seconds: steal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_cores_and_load_are_counted() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast One\nphysical id\t: 0\ncore id\t\t: 0\n\n\
                       processor\t: 1\nmodel name\t: Fast One\nphysical id\t: 0\ncore id\t\t: 0\n\n\
                       processor\t: 2\nmodel name\t: Fast One\nphysical id\t: 1\ncore id\t\t: 0\n\n";
        let (_dir, source) = Source::fake(&[
            ("proc/cpuinfo", cpuinfo),
            ("proc/loadavg", "0.50 1.25 2.00 1/100 4242\n"),
            (
                "proc/stat",
                "cpu  200 100 100 500 50 0 0 25 0 0\ncpu0 1 1 1\n",
            ),
        ]);
        let cpu = read(&source).unwrap();
        assert_eq!(cpu.model.as_deref(), Some("Fast One"));
        assert_eq!((cpu.logical_cores, cpu.physical_cores), (3, Some(2)));
        assert_eq!((cpu.load_1, cpu.load_5, cpu.load_15), (0.5, 1.25, 2.0));
        let times = cpu.times.unwrap();
        assert_eq!(times.user_seconds / times.steal_seconds, 12.0);
    }

    #[test]
    fn a_processor_that_does_not_tell_its_name_or_cores_has_none() {
        let cpuinfo = "processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nBogoMIPS\t: 50.00\n";
        let (_dir, source) =
            Source::fake(&[("proc/cpuinfo", cpuinfo), ("proc/loadavg", "0 0 0 1/1 1")]);
        let cpu = read(&source).unwrap();
        assert_eq!(
            (cpu.logical_cores, cpu.physical_cores, cpu.model),
            (2, None, None)
        );
    }
}
