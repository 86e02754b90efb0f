//! The state of a host's children, saved for the next host.
//!
//! A host that comes back keeps a record in the folder of each child, so that nothing is lost when it is killed. The record
//! does not contain the token, but only a digest, which is enough to check the token of the child.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lmcp_core::Identity;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    descriptors::Left,
    folder::{self, Folder, SUFFIX},
    member::{Key, Member},
    register,
    stat::{Started, Stat},
};

/// The record in the folder of a child.
const RECORD: &str = "child.json";

/// The state of a host's children: [`Host::export`](crate::Host::export). A program can save it with serde, and the next
/// host at the same path [takes it over](crate::Setup::resume). It holds no secret.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct State {
    pub(crate) children: Vec<ChildState>,
}

/// The state of one child.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ChildState {
    /// The digest of its token.
    token: String,
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) number: u64,
    label: String,
    role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    /// The value that the program stored.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) stored: Value,
    /// Messages that the child has not taken yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inbox: Vec<String>,
    /// Absent until the child is started.
    process: Option<ProcessState>,
    /// The program has left it to the host to wait for the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) watched: bool,
    /// Processes that the child has not started may use its identity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) adopts: bool,
    /// Another child made this one, which ends with that child.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_sub: bool,
    folder: PathBuf,
    /// Open files that the program left for the program that it becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<Left>,
    /// The start time of the process that takes over the child as another program. Absent at a path, where any host takes
    /// over.
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
        let process = member.process();
        Self {
            token: member
                .key
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            id: identity.id,
            number: member.number,
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
            watched: member.is_left_to_host(),
            adopts: member.adopts(),
            is_sub: member.is_sub(),
            folder: folder.to_owned(),
            kept: member.descriptors().left(),
            heir: None,
        }
    }

    /// Leaves the child to the host that this process starts as another program. Until then, connections wait.
    pub(crate) fn bequeath(mut self, heir: Started) -> io::Result<()> {
        self.heir = Some(heir.at);
        self.write()?;
        folder::change_credentials(&self.folder, None)
    }

    /// Takes over a child that the program before this one left: from now on it is the same as a child of this host.
    pub(crate) fn inherit(&self, host_lock: &Path) -> io::Result<()> {
        folder::change_credentials(&self.folder, Some(host_lock))?;
        fs::remove_file(self.folder.join(RECORD))
    }

    /// Returns the state in its folder, if there is one, because the host saved every change there.
    pub(crate) fn latest(self) -> Self {
        match Self::read(&self.folder) {
            Some(found) if found.token == self.token => found,
            _ => self,
        }
    }

    /// Returns the record in a folder, if there is one.
    fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&folder::read(&folder.join(RECORD)).ok()?).ok()
    }

    /// Puts the record into the folder, in one step.
    pub(crate) fn write(&self) -> io::Result<()> {
        folder::replace(&self.folder.join(RECORD), self)
    }

    pub(crate) fn identity(&self) -> Identity {
        let mut identity = Identity::new(&self.id, &self.label, &self.role);
        identity.parent.clone_from(&self.parent);
        identity.fields.clone_from(&self.fields);
        identity
    }

    /// Returns the digest of its token, if the text is a digest.
    pub(crate) fn key(&self) -> Option<Key> {
        let mut key = Key::default();
        let digits = self.token.as_bytes();
        for (at, byte) in key.iter_mut().enumerate() {
            let pair = std::str::from_utf8(digits.get(2 * at..2 * at + 2)?).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        (digits.len() == 2 * key.len()).then_some(key)
    }

    /// Returns its process, if the process can be judged from here. The process may have ended.
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

    /// Sends the child to a host at another socket.
    pub(crate) fn send_to(&self, socket: &Path) -> io::Result<()> {
        folder::move_credentials(&self.folder, socket)
    }

    /// Returns its folder, which belongs to this host from now on. The folder must have been made by a host at this path, or
    /// belong to a child that was sent to this path.
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

    /// Returns whether its credentials name the host at this socket.
    fn is_for(&self, socket: &Path) -> bool {
        let is_name =
            !self.id.is_empty() && self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_name && folder::socket_of(&self.folder).as_deref() == Some(socket)
    }
}

/// Returns the state that the last host at this path left, also if it was killed; or the state that this process left when
/// it was another program.
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
        // A name with a dot belongs to a host whose name begins with the name of this one.
        if child.is_none_or(|child| child.contains('.')) {
            continue;
        }
        match ChildState::read(&entry.path()) {
            Some(child) if child.heir == heir && child.is_for(socket) => state.children.push(child),
            // The host was killed before it had made the child.
            _ if folder::is_left_over(&entry.path()) => {
                let _ = fs::remove_dir_all(entry.path());
            }
            _ => {}
        }
    }
    state
}
