//! Protocol revisions, oldest first.

use std::{fmt, str::FromStr};

/// A published revision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05: HTTP+SSE.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches.
    V2025_03_26,
    /// 2025-06-18: structured output, elicitation.
    V2025_06_18,
    /// 2025-11-25: URL elicitation, icons; the last with a handshake.
    V2025_11_25,
    /// 2026-07-28: stateless.
    V2026_07_28,
}

impl ProtocolVersion {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The place of the revision in [`ProtocolVersion::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The newest.
    pub const NEWEST: Self = Self::V2026_07_28;

    /// Whether a conversation opens with `initialize` and has a session. Otherwise every request stands alone.
    pub const fn has_handshake(self) -> bool {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => true,
            Self::V2026_07_28 => false,
        }
    }

    /// Whether several messages may be sent in one array.
    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// The date that names the revision on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or(UnknownVersion)
    }
}

/// The text names no published revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownVersion;

impl fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown protocol version")
    }
}

impl std::error::Error for UnknownVersion {}
