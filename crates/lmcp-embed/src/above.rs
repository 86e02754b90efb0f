//! Whose child this process is, as `/proc` and the register say and without any variable of its own.

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
    /// This is the file with its credentials. It is not there any more if the identity has ended.
    Identity(PathBuf),
    /// None has.
    Nobody,
    /// It cannot be told, and this process could belong to a host.
    Unknown(String),
}

/// As long as a connection to a host waits to hear which process its child is.
const WAIT: Duration = Duration::from_secs(10);

/// How often to look whether a host has started its child.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// The first namespace of a system. From there every process can be seen.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Looks for the nearest process with an identity: this one, the one that started it, and so on.
///
/// It is what a program asks that was started with hardly any environment, and must not take itself for nobody's child.
/// A child that is quicker than its host waits here, for 10 s at most, and holds its thread meanwhile.
pub fn above() -> Above {
    let until = Instant::now() + WAIT;
    loop {
        match look() {
            Look::Found(above) => return above,
            // Without a runtime, there is nobody else who could be held up.
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
    /// A host above is about to say which process its child is.
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
                // The child may have been started since, and then another file tells of it.
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
    // Once more: in place of a file that has gone by now, another may have come.
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
