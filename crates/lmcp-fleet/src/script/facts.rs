//! What is known of a host since the first word of its shell.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use lmcp_core::{ToolError, ToolResult};
use ring::digest::{SHA256, digest};

use super::{parts::Answer, quote::Coding};

/// What a host has, and where.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) coding: Coding,
    /// Where relative paths begin.
    pub(super) start: PathBuf,
    pub(super) home: PathBuf,
    sum: Sum,
    has_jobs: bool,
    has_room: bool,
    has_stat: bool,
    has_search: bool,
    has_sessions: bool,
    /// Do INT and QUIT reach commands?
    pub(super) interrupts: bool,
}

/// How contents are compared there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sum {
    Sha256,
    /// What every POSIX host has.
    #[default]
    Cksum,
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
            sum: match first.value("sum")? {
                "cksum" => Sum::Cksum,
                _ => Sum::Sha256,
            },
            has_jobs: first.says("jobs"),
            has_room: first.says("tmp"),
            has_stat: first.value("stat")? != "none",
            has_search: first.says("grep"),
            has_sessions: session != "none",
            interrupts: control || matches!(session, "perl" | "python3"),
        })
    }

    /// What the host says of a file with this content.
    pub(super) fn sum(&self, content: &[u8]) -> String {
        match self.sum {
            Sum::Sha256 => {
                let digest = digest(&SHA256, content);
                digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
            }
            Sum::Cksum => format!("{} {}", cksum(content), content.len()),
        }
    }

    /// # Errors
    /// Commands cannot be run and kept there.
    pub(super) fn expect_commands(&self) -> ToolResult<()> {
        if !self.has_jobs {
            let words = "this host has no folder for commands: ~/.local/state/lmcp cannot be written";
            return Err(ToolError::new(words));
        }
        if !self.has_sessions {
            let words = "this host has neither setsid nor perl nor python3, so commands cannot be ended for certain";
            return Err(ToolError::new(words).hint(PUSH));
        }
        Ok(())
    }

    /// # Errors
    /// Nothing can be known of files there.
    pub(super) fn expect_stat(&self) -> ToolResult<()> {
        if self.has_stat {
            return Ok(());
        }
        Err(ToolError::new("this host has no stat").hint(PUSH))
    }

    /// # Errors
    /// Nothing can be written there.
    pub(super) fn expect_room(&self) -> ToolResult<()> {
        if self.has_room {
            return Ok(());
        }
        Err(ToolError::new("this host has no folder for what is to be written"))
    }

    /// # Errors
    /// Nothing can be searched there.
    pub(super) fn expect_search(&self) -> ToolResult<()> {
        if self.has_search {
            return Ok(());
        }
        Err(ToolError::new("this host lacks find, grep or xargs").hint(PUSH))
    }
}

/// The way out where a shell does not go far enough.
pub(super) const PUSH: &str = "`lmcp hub push HOST` puts lmcp there, which can";

/// The checksum of POSIX `cksum`.
fn cksum(content: &[u8]) -> u32 {
    let mut sum = 0_u32;
    let mut add = |byte: u8| {
        sum ^= u32::from(byte) << 24;
        for _ in 0..8 {
            let is_set = sum >> 31 == 1;
            sum <<= 1;
            if is_set {
                sum ^= 0x04c1_1db7;
            }
        }
    };
    content.iter().for_each(|byte| add(*byte));
    let mut length = content.len();
    while length > 0 {
        add(u8::try_from(length & 0xff).unwrap_or_default());
        length >>= 8;
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_programs() {
        assert_eq!(cksum(b""), 4_294_967_295);
        assert_eq!(cksum(b"hello\n"), 3_015_617_425);
        let facts = Facts {
            sum: Sum::Sha256,
            ..Facts::default()
        };
        assert!(facts.sum(b"abc").starts_with("ba7816bf8f01"));
    }
}
