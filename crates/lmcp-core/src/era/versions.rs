//! The revisions that are served, and the features of each: facts about versions, and nothing else.

use lmcp_wire::{ClientCapabilities, Object, ProtocolVersion, RpcError, task};

/// The revisions served, newest first.
pub(crate) const SERVED: [ProtocolVersion; 5] = [
    ProtocolVersion::V2026_07_28,
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2024_11_05,
];

/// The revisions in which every request stands alone.
pub(super) const MODERN: [ProtocolVersion; 1] = [ProtocolVersion::V2026_07_28];

/// The revisions with a handshake, newest first.
pub(crate) const LEGACY: [ProtocolVersion; 4] = [
    ProtocolVersion::V2025_11_25,
    ProtocolVersion::V2025_06_18,
    ProtocolVersion::V2025_03_26,
    ProtocolVersion::V2024_11_05,
];

/// The names of the revisions served, newest first.
pub(super) fn names() -> Vec<String> {
    SERVED.iter().map(ToString::to_string).collect()
}

/// Returns the revision of an HTTP request that has no session, by its header. `None`: a revision in which requests stand
/// alone.
pub(crate) fn assumed(header: Option<&str>) -> Result<Option<ProtocolVersion>, RpcError> {
    let Some(header) = header else {
        // The specification names this revision for clients that send no header.
        return Ok(Some(ProtocolVersion::V2025_03_26));
    };
    match header.trim().parse() {
        Ok(version) => Ok(Some(version).filter(|known| LEGACY.contains(known))),
        Err(_) => Err(RpcError::unsupported_version(header, &SERVED)),
    }
}

pub(crate) fn has_priming(version: ProtocolVersion) -> bool {
    version >= ProtocolVersion::V2025_11_25
}

/// Removes capabilities that the revision does not have, whatever a client declares.
pub(crate) fn trim_capabilities(version: ProtocolVersion, capabilities: &mut ClientCapabilities) {
    if version < ProtocolVersion::V2025_06_18 {
        capabilities.elicitation = None;
    }
    if version < ProtocolVersion::V2025_11_25 {
        if let Some(modes) = &mut capabilities.elicitation {
            modes.url = None;
            modes.form = Some(Object::new());
        }
        if let Some(sampling) = &mut capabilities.sampling {
            sampling.tools = None;
        }
    }
    // Tasks in their present form came with 2026-07-28.
    if let Some(extensions) = &mut capabilities.extensions {
        extensions.remove(task::EXTENSION);
    }
}
