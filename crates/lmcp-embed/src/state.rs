//! What a host knows of its children, written down for the next one.
//!
//! A host that comes back keeps a record in the folder of each child, so that nothing is lost when it is killed. There is no
//! token in it: the child has that, and a digest is enough to know it again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lmcp_core::Identity;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    folder::{self, Folder, SUFFIX},
    member::{Key, Life, Member},
    register,
    stat::{Started, Stat},
};

/// The record in the folder of a child.
const RECORD: &str = "child.json";

/// What a host knows of its children: [`Host::export`](crate::Host::export). It can be written down with serde, and
/// [resumed](crate::Setup::resume) by the next host at the same path. It holds no secret.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct State {
    pub(crate) children: Vec<ChildState>,
}

/// One child.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ChildState {
    /// The digest of its token.
    token: String,
    pub(crate) id: String,
    label: String,
    role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    /// What the program stored with it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) stored: Value,
    /// Messages that it has not taken yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inbox: Vec<String>,
    /// Absent until it is started.
    process: Option<ProcessState>,
    /// Processes may be it that it has not started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) adopts: bool,
    /// Another child made it, and it ends with that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_sub: bool,
    folder: PathBuf,
    /// When the process was started that goes on with the child as another program. Absent at a path, where any host does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heir: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct ProcessState {
    pid: i32,
    start: u64,
    namespace: Option<u64>,
}

impl ChildState {
    pub(crate) fn of(member: &Member, folder: &Path, stored: &Value) -> Self {
        let identity = Identity::clone(&member.identity.borrow());
        let process = match member.life() {
            Life::Running(process) => Some(process),
            Life::Expected | Life::Ended(_) => None,
        };
        Self {
            token: member
                .key
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            id: identity.id,
            label: identity.label,
            role: identity.role,
            parent: identity.parent,
            fields: identity.fields,
            stored: stored.clone(),
            inbox: member.inbox().messages(),
            process: process.map(|process| ProcessState {
                pid: process.process.as_raw_pid(),
                start: process.at,
                namespace: register::namespace(),
            }),
            adopts: member.adopts(),
            is_sub: member.is_sub(),
            folder: folder.to_owned(),
            heir: None,
        }
    }

    /// Leaves it to the host that this process starts when it is another program. Until then whoever connects waits.
    pub(crate) fn bequeath(mut self, heir: Started) -> io::Result<()> {
        self.heir = Some(heir.at);
        self.write()?;
        folder::change_credentials(&self.folder, None)
    }

    /// Takes what the program before this one left: from now on it is as if this host had made the child.
    pub(crate) fn inherit(&self, host_lock: &Path) -> io::Result<()> {
        folder::change_credentials(&self.folder, Some(host_lock))?;
        fs::remove_file(self.folder.join(RECORD))
    }

    /// Puts it into the folder, in one step.
    pub(crate) fn write(&self) -> io::Result<()> {
        folder::replace(&self.folder.join(RECORD), self)
    }

    pub(crate) fn identity(&self) -> Identity {
        let mut identity = Identity::new(&self.id, &self.label, &self.role);
        identity.parent.clone_from(&self.parent);
        identity.fields.clone_from(&self.fields);
        identity
    }

    /// The digest of its token, if that is one.
    pub(crate) fn key(&self) -> Option<Key> {
        let mut key = Key::default();
        let digits = self.token.as_bytes();
        for (at, byte) in key.iter_mut().enumerate() {
            let pair = std::str::from_utf8(digits.get(2 * at..2 * at + 2)?).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        (digits.len() == 2 * key.len()).then_some(key)
    }

    /// Its process, if that can be judged from here. Whether it lives is another question.
    pub(crate) fn process(&self) -> Option<Started> {
        let process = self.process?;
        let here = register::namespace();
        let is_judged = here.is_some() && process.namespace == here;
        let started = Started {
            process: Pid::from_raw(process.pid)?,
            at: process.start,
        };
        is_judged.then_some(started)
    }

    /// Sends it to a host at another socket.
    pub(crate) fn send_to(&self, socket: &Path) -> io::Result<()> {
        folder::move_credentials(&self.folder, socket)
    }

    /// Its folder, which belongs to this host from now on. It must be one that a host at this path made, or of a child that was
    /// sent to this path.
    pub(crate) fn reopen(&self, socket: &Path) -> io::Result<Folder> {
        if !self.is_for(socket) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it belongs to a host at another path",
            ));
        }
        let mut folder = Folder::reopen(&self.folder)?;
        let usual = folder::path_for(socket, &self.id);
        if self.folder != usual {
            folder.link(usual)?;
        }
        Ok(folder)
    }

    /// Is the host at this socket the one that its credentials name?
    fn is_for(&self, socket: &Path) -> bool {
        folder::socket_of(&self.folder).as_deref() == Some(socket)
    }
}

/// What the last host at this path knew, be it that it was killed; or what this process left when it was another program.
pub(crate) fn left_at(socket: &Path, returns: bool) -> State {
    let mut state = State::default();
    let heir = if returns {
        None
    } else {
        let Ok(this) = Stat::of_this_process() else {
            return state;
        };
        Some(this.process.at)
    };
    let (Some(folder), Some(stem)) = (socket.parent(), socket.file_stem()) else {
        return state;
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().into_string().unwrap_or_default();
        let child = name
            .strip_suffix(SUFFIX)
            .and_then(|name| name.strip_prefix(stem.to_str()?)?.strip_prefix('.'));
        // One with a dot belongs to a host whose name begins like this one's.
        if child.is_none_or(|child| child.contains('.')) {
            continue;
        }
        let text = fs::read(entry.path().join(RECORD)).unwrap_or_default();
        match serde_json::from_slice::<ChildState>(&text) {
            Ok(child) if child.heir == heir && child.is_for(socket) => state.children.push(child),
            // The host was killed before it had made the child.
            Ok(_) | Err(_) if folder::is_left_over(&entry.path()) => {
                let _ = fs::remove_dir_all(entry.path());
            }
            Ok(_) | Err(_) => {}
        }
    }
    state
}
