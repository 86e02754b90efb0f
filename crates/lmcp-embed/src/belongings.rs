//! The files of a child: its folder, and the entries of its process in the register.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    folder::Folder,
    register::{Record, Written},
    socket_dir::SocketDir,
    stat::{Started, Stat},
};

/// The folder of a child and its entries in the register. They are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Belongings {
    pub(crate) folder: Folder,
    record: Record,
    registered: Mutex<Registered>,
    /// Where the folder is. After it, so that it is empty.
    _place: Arc<SocketDir>,
}

/// The entries of a child in the register.
#[derive(Debug, Default)]
struct Registered {
    /// Present while the child is about to be started.
    starting: Option<Written>,
    process: Option<(Started, Written)>,
}

impl Belongings {
    pub(crate) fn new(folder: Folder, host_lock: &Path, place: &Arc<SocketDir>) -> Self {
        Self {
            record: Record::new(folder.credentials(), host_lock),
            folder,
            registered: Mutex::default(),
            _place: Arc::clone(place),
        }
    }

    /// Writes into the register that this process is about to start the child.
    pub(crate) fn announce(&self, child: &str) -> io::Result<()> {
        let mut registered = self.registered();
        if registered.starting.is_none() && registered.process.is_none() {
            let host = Stat::of_this_process()?.process;
            registered.starting = Some(self.record.write_starting(host, child)?);
        }
        Ok(())
    }

    /// Removes the note that the child is about to be started.
    pub(crate) fn retract(&self) {
        self.registered().is_started();
    }

    /// Writes the process of the child into the register: for processes below it that have no variables, and for a later
    /// host that cleans up.
    pub(crate) fn register(&self, process: Started) -> io::Result<()> {
        self.folder.note(process)?;
        let written = self.record.write_process(process)?;
        let mut registered = self.registered();
        registered.process = Some((process, written));
        registered.is_started();
        Ok(())
    }

    /// Leaves all files for the next host.
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
        // A process that runs on keeps its record: it had an identity, and processes that it starts must be found to belong
        // to it.
        if let Some((process, written)) = registered.process.take()
            && process.has_ended()
        {
            written.remove();
        }
    }
}

impl Registered {
    /// Removes the note that the child is about to be started.
    fn is_started(&mut self) {
        if let Some(starting) = self.starting.take() {
            starting.remove();
        }
    }
}
