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
    stat::Started,
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
    /// Absent until it is started.
    process: Option<ProcessState>,
    /// Processes may be it that it has not started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) adopts: bool,
    /// Another child made it, and it ends with that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_sub: bool,
    folder: PathBuf,
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
            process: process.map(|process| ProcessState {
                pid: process.process.as_raw_pid(),
                start: process.at,
                namespace: register::namespace(),
            }),
            adopts: member.adopts(),
            is_sub: member.is_sub(),
            folder: folder.to_owned(),
        }
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

    /// Its folder, which belongs to this host from now on. It must be one that a host at this path made.
    pub(crate) fn reopen(&self, socket: &Path) -> io::Result<Folder> {
        if self.folder != folder::path_for(socket, &self.id) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it belongs to a host at another path",
            ));
        }
        Folder::reopen(&self.folder)
    }
}

/// What the last host at this path knew, be it that it was killed.
pub(crate) fn left_at(socket: &Path) -> State {
    let mut state = State::default();
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
            Ok(child) => state.children.push(child),
            // The host was killed before it had made the child.
            Err(_) if folder::is_left_over(&entry.path()) => {
                let _ = fs::remove_dir_all(entry.path());
            }
            Err(_) => {}
        }
    }
    state
}
