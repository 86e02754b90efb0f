//! `systeminfo`: describes this host and its state, in one shape on every host.
//!
//! Each section has a file here, and is read from `/proc` and `/sys` without other programs. A section that cannot be read
//! is null and says why; the others are not affected.

mod addresses;
mod cgroup;
mod container;
mod cpu;
mod disks;
mod memory;
mod network;
mod os;
mod pressure;
mod processes;
mod render;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use lmcp_core::{Cx, Handler, Tool, ToolResult, WithState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Host, answer::Answer, blocking::blocking, schemas};

use disks::Asked;
use source::{Reading, Source};

pub(crate) fn tool() -> Tool<Host> {
    let asked = Asked::default();
    define(move |_host, args, cx| read(Source::host(), args, cx, asked.clone()))
}

/// Defines the tool as models know it, with the handler that does the work.
pub fn define<S: Send + Sync + 'static>(
    handler: impl Handler<S, Args, ToolResult<Answer<SystemInfo>>, WithState>,
) -> Tool<S> {
    schemas::tool("systeminfo", handler)
        .title("System information")
        .about(
            "One look at this host: system, processors, memory, limits, pressure, disks, network, container; the largest \
             processes on request.",
        )
        .output_schema(shape())
        .also_called(["system_info", "get_system_info", "get_config", "uname"])
        .read_only()
}

/// Arguments of `systeminfo`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Default: all but processes.
    #[serde(default)]
    sections: Vec<Section>,
}

impl Args {
    /// Returns the sections to read, each once, however often it was named.
    fn wanted(self) -> BTreeSet<Section> {
        match &*self.sections {
            [] => USUAL.into(),
            _ => self.sections.into_iter().collect(),
        }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    Os,
    Cpu,
    Memory,
    Cgroup,
    Pressure,
    Disks,
    Network,
    Container,
    Processes,
}

/// The sections that are read if the caller names none.
const USUAL: [Section; 8] = [
    Section::Os,
    Section::Cpu,
    Section::Memory,
    Section::Cgroup,
    Section::Pressure,
    Section::Disks,
    Section::Network,
    Section::Container,
];

/// What was seen. A section is null if it was not asked for, or if `unavailable` has a reason.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SystemInfo {
    /// The operating system, and since when it runs.
    os: Option<os::Os>,
    /// The processors and their load.
    cpu: Option<cpu::Cpu>,
    /// The memory of the whole host.
    memory: Option<memory::Memory>,
    /// The limits that this server and its children run under.
    cgroup: Option<cgroup::Cgroup>,
    /// For how much of the time tasks had to wait.
    pressure: Option<pressure::Pressure>,
    /// File systems on disks and on the network.
    disks: Option<Vec<disks::Disk>>,
    /// The network interfaces.
    network: Option<network::Network>,
    /// The container that this server runs in.
    container: Option<container::Container>,
    /// The processes, the largest by name.
    processes: Option<processes::Processes>,
    /// Sections that could not be read, with the reason.
    unavailable: BTreeMap<Section, String>,
}

/// Does the same for a folder with copies of the files in which another host describes itself.
pub(crate) async fn read_copies(
    folder: &Path,
    args: Args,
    cx: Cx,
) -> ToolResult<Answer<SystemInfo>> {
    let source = Source::copies(folder);
    blocking(&cx, move || {
        let (told, others): (BTreeSet<_>, BTreeSet<_>) = args
            .wanted()
            .into_iter()
            .partition(|section| COPIED.contains(section));
        let mut info = look(&source, &told, &Asked::default());
        let why = "it takes more than reading some files, and this host has no lmcp";
        let others = others.into_iter().map(|section| (section, why.to_owned()));
        info.unavailable.extend(others);
        let text = render::render(&info);
        Ok(Answer::new(info, text))
    })
    .await
}

/// The files from which the `COPIED` sections are read.
pub const FILES_TO_COPY: [&str; 17] = [
    "/.dockerenv",
    "/etc/os-release",
    "/proc/1/cgroup",
    "/proc/1/environ",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/stat",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/uptime",
    "/run/.containerenv",
    "/run/systemd/container",
    "/usr/lib/os-release",
];

/// The sections that can be read from copies of files.
const COPIED: [Section; 5] = [
    Section::Os,
    Section::Cpu,
    Section::Memory,
    Section::Pressure,
    Section::Container,
];

/// Returns the sections and their types. Their full schemas would be longer than those of all other results together.
fn shape() -> Value {
    let section = |name: &str| json!({ "anyOf": [{ "type": name }, { "type": "null" }] });
    let mut properties = json!({ "unavailable": { "type": "object" } });
    for name in [
        "os",
        "cpu",
        "memory",
        "cgroup",
        "pressure",
        "network",
        "container",
        "processes",
    ] {
        properties[name] = section("object");
    }
    properties["disks"] = section("array");
    json!({ "type": "object", "properties": properties })
}

async fn read(source: Source, args: Args, cx: Cx, asked: Asked) -> ToolResult<Answer<SystemInfo>> {
    blocking(&cx, move || {
        let info = look(&source, &args.wanted(), &asked);
        let text = render::render(&info);
        Ok(Answer::new(info, text))
    })
    .await
}

/// Reads the sections one after the other.
fn look(source: &Source, sections: &BTreeSet<Section>, asked: &Asked) -> SystemInfo {
    let mut info = SystemInfo::default();
    for section in sections {
        let reason = match section {
            Section::Os => put(&mut info.os, os::read(source)),
            Section::Cpu => put(&mut info.cpu, cpu::read(source)),
            Section::Memory => put(&mut info.memory, memory::read(source)),
            Section::Cgroup => put(&mut info.cgroup, cgroup::read(source)),
            Section::Pressure => put(&mut info.pressure, pressure::read(source)),
            Section::Disks => put(&mut info.disks, disks::read(source, asked)),
            Section::Network => put(&mut info.network, network::read(source)),
            Section::Container => put(&mut info.container, Ok(container::read(source))),
            Section::Processes => put(&mut info.processes, processes::read(source)),
        };
        if let Err(reason) = reason {
            info.unavailable.insert(*section, reason);
        }
    }
    info
}

fn put<T>(place: &mut Option<T>, read: Reading<T>) -> Reading<()> {
    *place = Some(read?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_that_cannot_be_read_says_why_and_spares_the_others() {
        let (_dir, source) =
            Source::fake(&[("proc/meminfo", "MemTotal: 4 kB\nMemAvailable: 1 kB\n")]);
        let info = look(&source, &USUAL.into(), &Asked::default());
        assert_eq!(info.memory.unwrap().total_bytes, 4096);
        assert!(info.cpu.is_none() && info.os.is_none());
        assert!(info.unavailable[&Section::Pressure].contains("proc/pressure/cpu"));
        assert!(!info.unavailable.contains_key(&Section::Memory));
    }

    /// A call with 20,000 sections once worked for minutes after its caller had gone.
    #[test]
    fn a_section_that_is_named_often_is_read_once() {
        let args = json!({ "sections": vec!["processes"; 20_000] });
        let args: Args = serde_json::from_value(args).unwrap();
        assert_eq!(args.wanted(), [Section::Processes].into());
        assert_eq!(Args::default().wanted(), USUAL.into());
    }
}
