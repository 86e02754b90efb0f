//! What there is of a child in the file system: its folder, and what the register says of its process.

use std::{
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    folder::Folder,
    register::{Record, Written},
    stat::{Started, Stat},
};

/// The folder of a child and its entries in the register. They go with this value.
#[derive(Debug)]
pub(crate) struct Belongings {
    pub(crate) folder: Folder,
    record: Record,
    registered: Mutex<Registered>,
}

/// What the register says of a child.
#[derive(Debug, Default)]
struct Registered {
    /// It is about to be started.
    starting: Option<Written>,
    process: Option<(Started, Written)>,
}

impl Belongings {
    pub(crate) fn new(folder: Folder, host_lock: &Path) -> Self {
        Self {
            record: Record::new(folder.credentials(), host_lock),
            folder,
            registered: Mutex::default(),
        }
    }

    /// Notes that the child is about to be started by this process.
    pub(crate) fn announce(&self, child: &str) -> io::Result<()> {
        let mut registered = self.registered();
        if registered.starting.is_none() && registered.process.is_none() {
            let host = Stat::of_this_process()?.process;
            registered.starting = Some(self.record.write_starting(host, child)?);
        }
        Ok(())
    }

    /// It is about to be started no longer.
    pub(crate) fn retract(&self) {
        self.registered().is_started();
    }

    /// Notes which process it is, for those below it that were told nothing, and for whoever cleans up some day.
    pub(crate) fn register(&self, process: Started) -> io::Result<()> {
        self.folder.note(process)?;
        let written = self.record.write_process(process)?;
        let mut registered = self.registered();
        registered.process = Some((process, written));
        registered.is_started();
        Ok(())
    }

    /// Leaves all of it for the next host.
    pub(crate) fn leave(mut self) {
        self.folder.stays = true;
        let registered = self.registered.get_mut();
        *registered.unwrap_or_else(PoisonError::into_inner) = Registered::default();
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        let registered = self.registered.lock();
        registered.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Belongings {
    fn drop(&mut self) {
        let mut registered = self.registered();
        registered.is_started();
        // A process that goes on keeps its record: it had an identity, and what it starts must not pass for nobody's.
        if let Some((process, written)) = registered.process.take()
            && process.has_ended()
        {
            written.remove();
        }
    }
}

impl Registered {
    /// It is no longer about to be started.
    fn is_started(&mut self) {
        if let Some(starting) = self.starting.take() {
            starting.remove();
        }
    }
}
