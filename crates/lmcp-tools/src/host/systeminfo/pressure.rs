//! Pressure stall information: for how much of the time tasks had to wait.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::{Reading, Source};

/// For how much of the time tasks had to wait for something.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Pressure {
    /// For a processor.
    pub(super) cpu: Waits,
    /// For memory.
    pub(super) memory: Waits,
    /// For a disk.
    pub(super) io: Waits,
}

/// Waiting for one thing.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Waits {
    /// The time in which some task waited.
    pub(super) some: Averages,
    /// The time in which all tasks waited at once, where the kernel says it.
    full: Option<Averages>,
}

/// Shares of the time, in percent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Averages {
    /// Of the last 10 seconds.
    pub(super) avg10_percent: f64,
    /// Of the last minute.
    avg60_percent: f64,
    /// Of the last 5 minutes.
    avg300_percent: f64,
}

pub(super) fn read(source: &Source) -> Reading<Pressure> {
    let waits = |what: &str| {
        let path = format!("proc/pressure/{what}");
        let text = source.read(&path)?;
        let some = averages(&text, "some ").ok_or(format!("cannot make sense of /{path}"))?;
        Reading::Ok(Waits {
            some,
            full: averages(&text, "full "),
        })
    };
    Ok(Pressure {
        cpu: waits("cpu")?,
        memory: waits("memory")?,
        io: waits("io")?,
    })
}

fn averages(text: &str, kind: &str) -> Option<Averages> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    let average = |key: &str| {
        let value = line.split(' ').find_map(|part| part.strip_prefix(key))?;
        value.parse().ok()
    };
    Some(Averages {
        avg10_percent: average("avg10=")?,
        avg60_percent: average("avg60=")?,
        avg300_percent: average("avg300=")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_read_and_full_may_be_missing() {
        let some = "some avg10=1.50 avg60=2.00 avg300=3.25 total=12\n";
        let both = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=9.00 avg60=8.00 avg300=7.00 total=1\n";
        let (_dir, source) = Source::fake(&[
            ("proc/pressure/cpu", some),
            ("proc/pressure/memory", both),
            ("proc/pressure/io", both),
        ]);
        let pressure = read(&source).unwrap();
        assert_eq!(pressure.cpu.some.avg10_percent, 1.5);
        assert!(pressure.cpu.full.is_none());
        assert_eq!(pressure.io.full.unwrap().avg300_percent, 7.0);
    }
}
