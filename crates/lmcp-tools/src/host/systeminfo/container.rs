//! The container that this server runs in, by the traces that containers leave.

use schemars::JsonSchema;
use serde::Serialize;

use super::source::Source;

/// The container that this server runs in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Container {
    /// `kubernetes`, `docker`, `podman`, `lxc`, `systemd-nspawn`, `wsl` or another name it gives itself; null: none
    /// was noticed.
    pub(super) kind: Option<String>,
    /// What it was noticed by.
    found_by: Option<String>,
}

/// Files that containers leave, in the order in which they are believed: a pod is also a container of some engine.
const FILES: [(&str, &str); 3] = [
    ("var/run/secrets/kubernetes.io", "kubernetes"),
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
];
/// Names of the first process's control group in containers.
const GROUPS: [(&str, &str); 5] = [
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
];

pub(super) fn read(source: &Source) -> Container {
    let (kind, found_by) = find(source).unzip();
    Container { kind, found_by }
}

fn find(source: &Source) -> Option<(String, String)> {
    let by_file = FILES.iter().find(|(path, _)| source.has(path));
    if let Some((path, kind)) = by_file {
        return Some(((*kind).to_owned(), format!("/{path}")));
    }
    // The container's manager writes this file.
    if let Ok(kind) = source.read("run/systemd/container")
        && !kind.trim().is_empty()
    {
        return Some((kind.trim().to_owned(), "/run/systemd/container".to_owned()));
    }
    // Only the same user can read this file.
    let environment = source.read("proc/1/environ").unwrap_or_default();
    let said = environment
        .split('\0')
        .find_map(|variable| variable.strip_prefix("container="));
    if let Some(kind) = said {
        return Some((kind.to_owned(), "`container` in /proc/1/environ".to_owned()));
    }
    let release = source.read("proc/sys/kernel/osrelease").unwrap_or_default();
    if release.to_lowercase().contains("microsoft") {
        return Some(("wsl".to_owned(), "/proc/sys/kernel/osrelease".to_owned()));
    }
    let group = source.read("proc/1/cgroup").unwrap_or_default();
    let by_group = GROUPS.iter().find(|(trace, _)| group.contains(trace));
    by_group.map(|(_, kind)| ((*kind).to_owned(), "/proc/1/cgroup".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files<'a> = &'a [(&'a str, &'a str)];

    fn kind(files: Files<'_>) -> Option<String> {
        let (_dir, source) = Source::fake(files);
        let container = read(&source);
        assert_eq!(container.kind.is_some(), container.found_by.is_some());
        container.kind
    }

    #[test]
    fn each_kind_is_known_by_its_trace() {
        let cases: [(Files<'_>, Option<&str>); 9] = [
            (&[(".dockerenv", "")], Some("docker")),
            (&[("run/.containerenv", "")], Some("podman")),
            (
                &[
                    (".dockerenv", ""),
                    ("var/run/secrets/kubernetes.io/token", ""),
                ],
                Some("kubernetes"),
            ),
            (
                &[("run/systemd/container", "systemd-nspawn\n")],
                Some("systemd-nspawn"),
            ),
            (&[("proc/1/environ", "A=b\0container=lxc\0")], Some("lxc")),
            (
                &[(
                    "proc/sys/kernel/osrelease",
                    "5.15.90.1-microsoft-standard-WSL2",
                )],
                Some("wsl"),
            ),
            (
                &[("proc/1/cgroup", "3:cpu:/kubepods/pod1\n")],
                Some("kubernetes"),
            ),
            (&[("proc/1/cgroup", "3:cpu:/lxc/x\n")], Some("lxc")),
            (&[("proc/1/cgroup", "0::/init.scope\n")], None),
        ];
        for (files, expected) in cases {
            assert_eq!(kind(files).as_deref(), expected, "{files:?}");
        }
    }
}
