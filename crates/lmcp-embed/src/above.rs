//! Whose child this process is, as `/proc` and the register say and without any variable of its own.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::event::{Timespec, poll};

use crate::{
    ancestry,
    lock::is_held,
    register::{self, Kind, Name, Record},
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
    let register = match register::read() {
        Ok(register) => register,
        Err(err) => return Look::Found(Above::Unknown(err.to_string())),
    };
    let line = ancestry::above_this();
    let mut trouble = None;
    for stat in &line.processes {
        let of_it = |name: &Name| name.started == stat.process;
        let mut known = register.iter().filter(|(name, _)| of_it(name));
        if let Some((_, record)) = known.clone().find(|(name, _)| name.kind == Kind::Process) {
            return Look::Found(Above::Identity(record.identity_file.clone()));
        }
        match view::variable(stat.process.process) {
            Ok(Some(file)) => return Look::Found(Above::Identity(file)),
            Ok(None) => {}
            Err(hidden) => {
                trouble.get_or_insert(hidden);
            }
        }
        if known.any(|(_, record)| is_held(&record.host_lock)) {
            return Look::Starting;
        }
    }
    if let Some(hidden) = trouble {
        return unknown(hidden.words());
    }
    let here = register::namespace();
    let sees_all = line.is_whole && here == Some(FIRST_NAMESPACE);
    let may_be_above = |record: &Record| {
        let is_judged = line.is_whole && here.is_some() && record.namespace == here;
        !is_judged && is_held(&record.host_lock)
    };
    if !sees_all && register.iter().any(|(_, record)| may_be_above(record)) {
        return unknown("not all processes above this one can be seen from here");
    }
    Look::Found(Above::Nobody)
}
