//! Finds the child that this process belongs to, from `/proc` and the register, without any variable of its own.

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::event::{Timespec, poll};

use crate::{
    ancestry,
    lock::is_held,
    register::{self, Kind, Listed, Said},
    view,
};

/// Whether a process above this one has an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Above {
    /// The file with the credentials of the process. The file is removed when the identity ends.
    Identity(PathBuf),
    /// No process above has an identity.
    Nobody,
    /// The search failed, and this process could belong to a host.
    Unknown(String),
}

/// The same time as a connection to a host waits to hear which process its child is.
const WAIT: Duration = Duration::from_secs(10);

/// How often to check whether a host has started its child.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// The first namespace of a system. From there every process can be seen.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Looks for the nearest process with an identity: this one, the one that started it, and so on.
///
/// Use it in a program that was started with hardly any environment, and may be the child of a host without knowing it. If
/// the host has not yet said which process its child is, this call waits for at most 10 s, and blocks its thread meanwhile.
pub fn above() -> Above {
    let until = Instant::now() + WAIT;
    loop {
        match look() {
            Look::Found(above) => return above,
            // The thread has no runtime, so blocking it delays nobody else.
            Look::Starting if Instant::now() < until => drop(poll(&mut [], Some(&LOOK))),
            Look::Starting => {
                return Above::Unknown(
                    "the program above is about to start somebody, and does not say whom".into(),
                );
            }
        }
    }
}

enum Look {
    Found(Above),
    /// A host above has not yet said which process its child is.
    Starting,
}

fn look() -> Look {
    let unknown = |why: &str| Look::Found(Above::Unknown(why.to_owned()));
    if !lmcp_private::knows_own_user() {
        return unknown("the user of this process has no number in its user namespace");
    }
    let found = register::list().and_then(|register| look_in(&register));
    found.unwrap_or_else(|err| unknown(&err.to_string()))
}

fn look_in(register: &[Listed]) -> io::Result<Look> {
    let unknown = |why: &str| Ok(Look::Found(Above::Unknown(why.to_owned())));
    let line = ancestry::above_this();
    let mut trouble = None;
    for stat in &line.processes {
        let mut is_starting = false;
        for listed in register
            .iter()
            .filter(|listed| listed.name.started == stat.process)
        {
            is_starting |= match (listed.read()?, listed.name.kind) {
                (Said::Record(record), Kind::Process) => {
                    return Ok(Look::Found(Above::Identity(record.identity_file)));
                }
                (Said::Record(record), Kind::Starting) => is_held(&record.host_lock),
                (Said::Nothing, _) => false,
                // The child may have been started since then, and then another file names it.
                (Said::Gone, _) => true,
            };
        }
        match view::variable(stat.process.process) {
            Ok(Some(file)) => return Ok(Look::Found(Above::Identity(file))),
            Ok(None) => {}
            Err(hidden) => {
                trouble.get_or_insert(hidden);
            }
        }
        if is_starting {
            return Ok(Look::Starting);
        }
    }
    if let Some(hidden) = trouble {
        return unknown(hidden.words());
    }
    let here = register::namespace();
    if line.is_whole && here == Some(FIRST_NAMESPACE) {
        return Ok(Look::Found(Above::Nobody));
    }
    // The register is listed again: a file that is gone by now may have been replaced by another.
    for listed in register.iter().chain(&register::list()?) {
        let Said::Record(record) = listed.read()? else {
            continue;
        };
        let is_judged = line.is_whole && here.is_some() && record.namespace == here;
        if !is_judged && is_held(&record.host_lock) {
            return unknown("not all processes above this one can be seen from here");
        }
    }
    Ok(Look::Found(Above::Nobody))
}
