//! The facts about a host that its shell reports first.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

use lmcp_core::{ToolError, ToolResult};
use ring::digest::{SHA256, digest};

use super::{parts::Answer, quote::Coding};

/// The programs and folders of a host.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) coding: Coding,
    /// The folder in which relative paths begin.
    pub(super) start: PathBuf,
    pub(super) home: PathBuf,
    /// Whether the host has a program for checksums.
    pub(super) has_sum: bool,
    pub(super) has_bash: bool,
    has_jobs: bool,
    has_room: bool,
    has_stat: bool,
    has_search: bool,
    has_sessions: bool,
    /// Whether INT and QUIT reach commands.
    pub(super) interrupts: bool,
}

impl Facts {
    pub(super) fn read(answer: &Answer) -> Option<Self> {
        let first = answer.parts().next()?;
        let path = |name: &str| {
            let line = answer.part(name)?.line();
            Some(PathBuf::from(OsStr::from_bytes(line)))
        };
        let control = first.says("control");
        let session = first.value("session")?;
        Some(Self {
            coding: match first.value("coding")? {
                "octal" => Coding::Octal,
                _ => Coding::Base64,
            },
            start: path("start")?,
            home: path("home")?,
            has_sum: first.value("sum")? != "none",
            has_bash: first.says("bash"),
            has_jobs: first.says("jobs"),
            has_room: first.says("tmp"),
            has_stat: first.value("stat")? != "none",
            has_search: first.says("grep"),
            has_sessions: session != "none",
            interrupts: control || matches!(session, "perl" | "python3"),
        })
    }

    /// # Errors
    /// Commands cannot be run and kept on the host.
    pub(super) fn expect_commands(&self) -> ToolResult<()> {
        if !self.has_jobs {
            let words =
                "this host has no folder for commands: ~/.local/state/lmcp cannot be written";
            return Err(ToolError::new(words));
        }
        if !self.has_sessions {
            let words = "this host has neither setsid nor perl nor python3, so commands cannot be ended for certain";
            return Err(ToolError::new(words).hint(PUSH));
        }
        Ok(())
    }

    /// # Errors
    /// The host cannot tell anything about files.
    pub(super) fn expect_stat(&self) -> ToolResult<()> {
        if self.has_stat {
            return Ok(());
        }
        Err(ToolError::new("this host has no stat").hint(PUSH))
    }

    /// # Errors
    /// Files cannot be written on the host.
    pub(super) fn expect_room(&self) -> ToolResult<()> {
        if self.has_room {
            return Ok(());
        }
        Err(ToolError::new(
            "this host has no folder for what is to be written",
        ))
    }

    /// # Errors
    /// Files cannot be searched on the host.
    pub(super) fn expect_search(&self) -> ToolResult<()> {
        if self.has_search {
            return Ok(());
        }
        Err(ToolError::new("this host lacks find, grep or xargs").hint(PUSH))
    }
}

/// Returns the checksum of this content in the form of the host.
pub(super) fn sum(content: &[u8]) -> String {
    let digest = digest(&SHA256, content);
    let bytes = digest.as_ref().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// The hint for a call that a shell cannot do.
pub(super) const PUSH: &str = "`lmcp hub push HOST` puts lmcp there, which can";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_the_program() {
        let sum = sum(b"abc");
        assert!(sum.starts_with("ba7816bf8f01") && sum.ends_with("f20015ad"));
    }
}
