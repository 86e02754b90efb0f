//! For whom a caller acts: the name in `_meta` by which a host tells the callers of a hub apart.
//!
//! A hub is one caller to its hosts, and has callers of its own. With every request, the hub sends a name for the caller that
//! the request is for; the name says nothing about that caller. On the host, everything that the request creates belongs to the
//! hub and that name together ([`Caller::owner`]). This also works for hubs behind hubs, because the name is made of the whole
//! owner.

use std::borrow::Cow;

use lmcp_private::{Whose, whose};
use lmcp_wire::{RpcError, limits::BENEFICIARY_BYTES, meta};
use ring::digest::{SHA256, digest};
use serde_json::value::RawValue;

use crate::{caller::Caller, request::string};

impl Caller {
    /// A name for this caller that can be told to a remote server. It is always the same for one [owner](Self::owner), and says
    /// nothing about the owner.
    ///
    /// `None` for the user that this program runs as, and for callers of whom nothing is known: the things that they create on
    /// the remote server belong to this program itself.
    pub fn as_beneficiary(&self) -> Option<String> {
        let is_known = self.principal().is_some()
            || self.role().is_some()
            || self.beneficiary().is_some()
            || self
                .peer()
                .is_some_and(|process| whose(process.uid) != Whose::Ours);
        let digest = is_known.then(|| digest(&SHA256, self.owner().as_bytes()))?;
        let digits = digest.as_ref().iter().take(DIGEST_BYTES);
        Some(digits.map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Reads the name of the caller that a request is for.
///
/// # Errors
/// *Invalid params*: the text is no name. Without the name, the request would act on the caller's own things, so it is refused.
pub(crate) fn read(raw: Option<&RawValue>) -> Result<Option<Cow<'_, str>>, RpcError> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |name: &Cow<'_, str>| {
        (1..=BENEFICIARY_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
    };
    let name = string(raw.get().as_bytes()).filter(is_name);
    name.map(Some).ok_or_else(|| {
        RpcError::invalid_params(format!(
            "`params._meta[\"{}\"]` must be a name of 1 to {BENEFICIARY_BYTES} letters, digits, `-`, `.` and `_`",
            meta::FOR
        ))
    })
}

/// The bytes of the digest that the name is made of. Nobody finds two owners with the same 16 bytes.
const DIGEST_BYTES: usize = 16;

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::geteuid;

    use super::*;
    use crate::{caller::Transport, principal::Principal};

    #[test]
    fn every_known_caller_has_a_name_of_its_own_that_stays() {
        let http = || Caller::new(Transport::Http);
        let own_user = geteuid().as_raw();
        for unknown in [http(), Caller::process(own_user, None)] {
            assert_eq!(unknown.as_beneficiary(), None);
        }
        let names = [
            http().known_as("ann"),
            http().known_as("bob"),
            http().authenticated(Principal::new("ann").role("admin")),
            http().authenticated(Principal::anyone().role("admin")),
            Caller::process(own_user + 1, None),
            http().acting_for("ann"),
            http().known_as("ann").acting_for("bob"),
        ]
        .map(|caller| caller.as_beneficiary().unwrap());
        let apart: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(apart.len(), names.len(), "{names:?}");
        // This name never changes: jobs on hosts are found by it, also by later versions of the hub.
        assert_eq!(names[0], "5ba04ed8e818999cd79513637fd97de8");
        for name in names {
            let json = serde_json::value::to_raw_value(&name).unwrap();
            assert_eq!(read(Some(&json)).unwrap().unwrap(), name);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("\"{}\"", "a".repeat(BENEFICIARY_BYTES + 1));
        for text in [
            "\"\"",
            "1",
            "null",
            "[\"a\"]",
            "\"a/b\"",
            "\"a b\"",
            "\"\\u0000\"",
            &long,
        ] {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            let error = read(Some(raw)).unwrap_err();
            assert!(
                error.message.contains("lmcp/for"),
                "{text}: {}",
                error.message
            );
        }
        assert_eq!(read(None), Ok(None));
    }
}
