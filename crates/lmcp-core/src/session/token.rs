//! Session ids that contain the session.
//!
//! An id is the agreement and 128 random bits, signed with a key of this server. So the server stores nothing for it, every
//! instance with the key accepts it, and nobody can make or change one. The signature also covers the owner: the id is not
//! valid for a caller with other credentials.

use std::sync::{Arc, Mutex, PoisonError};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lmcp_wire::ProtocolVersion;
use ring::hmac;

use super::Agreement;
use crate::{caller::Caller, random, secret::equal};

/// The random part of a session id, which no other session has.
pub type SessionId = [u8; 16];

/// The longest profile in an id. It fits into a header everywhere, with room for other headers.
const MOST_PROFILE: usize = 1536;

/// The first half of SHA-256 is enough: nobody guesses 128 bits.
const SIGNATURE: usize = 16;

/// The number of recently opened ids that are kept, so that they need not be checked again.
const RECENT: usize = 32;

/// Signs session ids.
#[derive(Clone)]
pub struct SessionKey {
    key: hmac::Key,
    /// The recently opened ids. The beginning of an id decides its place.
    recent: Arc<Mutex<[Option<Opened>; RECENT]>>,
}

/// An id that was opened, and the caller that showed it.
struct Opened {
    text: Box<str>,
    owner: Box<str>,
    session: (SessionId, Agreement),
}

impl SessionKey {
    /// Derives the key from a server's key, which also has other uses.
    pub(crate) fn derive(key: &[u8; 32]) -> Self {
        let own = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, key),
            b"lmcp session ids 1",
        );
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()),
            recent: Arc::default(),
        }
    }

    /// Derives a key for ids of another kind: no id of one kind is valid as the other.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Self {
        let own = hmac::sign(&self.key, purpose.as_bytes());
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()),
            recent: Arc::default(),
        }
    }

    /// Makes a new session for a caller. Returns its id, and the text that the client carries.
    pub fn issue(&self, agreement: &Agreement, caller: &Caller) -> (SessionId, String) {
        let id = random::bytes::<16>();
        let mut whole = Vec::with_capacity(SIGNATURE + 25 + agreement.profile.len());
        whole.extend_from_slice(&[0; SIGNATURE]);
        whole.extend_from_slice(&id);
        whole.extend_from_slice(&agreement.made.to_be_bytes());
        whole.push(number(agreement.version));
        if agreement.profile.len() <= MOST_PROFILE {
            whole.extend_from_slice(agreement.profile.as_bytes());
        }
        let signature = self.sign(&whole[SIGNATURE..], caller);
        whole[..SIGNATURE].copy_from_slice(&signature.as_ref()[..SIGNATURE]);
        (id, URL_SAFE_NO_PAD.encode(whole))
    }

    /// Returns the session that an id stands for. `None`: this server did not make the id, or not for this caller.
    pub fn open(&self, text: &str, caller: &Caller) -> Option<(SessionId, Agreement)> {
        let owner = caller.owner();
        let place = text.bytes().take(8).fold(0_usize, |place, byte| {
            place.wrapping_mul(31).wrapping_add(usize::from(byte))
        }) % RECENT;
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &recent()[place]
            && equal(opened.text.as_bytes(), text.as_bytes())
            && *opened.owner == *owner
        {
            return Some(opened.session.clone());
        }
        let session = self.check(text, caller)?;
        recent()[place] = Some(Opened {
            text: text.into(),
            owner: owner.into(),
            session: session.clone(),
        });
        Some(session)
    }

    fn check(&self, text: &str, caller: &Caller) -> Option<(SessionId, Agreement)> {
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signature, body) = whole.split_at_checked(SIGNATURE)?;
        let expected = self.sign(body, caller);
        if !equal(signature, &expected.as_ref()[..SIGNATURE]) {
            return None;
        }
        let (id, rest) = body.split_first_chunk::<16>()?;
        let (made, rest) = rest.split_first_chunk::<8>()?;
        let (version, profile) = rest.split_first()?;
        let version = *ProtocolVersion::ALL.get(usize::from(*version))?;
        let profile = std::str::from_utf8(profile).ok()?.into();
        let made = u64::from_be_bytes(*made);
        Some((
            *id,
            Agreement {
                version,
                made,
                can_ask: true,
                profile,
            },
        ))
    }

    fn sign(&self, body: &[u8], caller: &Caller) -> hmac::Tag {
        let mut signing = hmac::Context::with_key(&self.key);
        let owner = caller.owner();
        // The length separates the owner from the body.
        signing.update(&owner.len().to_be_bytes());
        signing.update(owner.as_bytes());
        signing.update(body);
        signing.sign()
    }
}

/// Returns the number of a revision in the list of all.
fn number(version: ProtocolVersion) -> u8 {
    let place = ProtocolVersion::ALL
        .iter()
        .position(|known| *known == version);
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Transport;

    fn agreement() -> Agreement {
        Agreement {
            version: ProtocolVersion::V2025_06_18,
            made: 5,
            can_ask: true,
            profile: r#"{"capabilities":{}}"#.into(),
        }
    }

    #[test]
    fn an_id_opens_with_its_key_for_its_caller_and_unchanged() {
        let (key, other) = (SessionKey::derive(&[7; 32]), SessionKey::derive(&[8; 32]));
        let anyone = Caller::new(Transport::Http);
        let ann = anyone.clone().known_as("ann");
        let (id, text) = key.issue(&agreement(), &ann);
        let (same, opened) = SessionKey::derive(&[7; 32]).open(&text, &ann).unwrap();
        assert_eq!((same, opened.version), (id, ProtocolVersion::V2025_06_18));
        assert_eq!(opened.made, 5);
        assert_eq!(opened.profile, agreement().profile);
        assert!(other.open(&text, &ann).is_none(), "another key");
        assert!(key.open(&text, &anyone).is_none(), "no credentials");
        let bob = anyone.known_as("bob");
        assert!(key.open(&text, &bob).is_none(), "other credentials");
        for changed in ["", "x", &text[1..], &format!("{text}AA"), "é"] {
            assert!(key.open(changed, &ann).is_none(), "{changed}");
        }
    }

    #[test]
    fn ids_are_visible_ascii_and_never_the_same() {
        let key = SessionKey::derive(&[7; 32]);
        let caller = Caller::new(Transport::Http);
        let ids: std::collections::HashSet<String> = (0..1000)
            .map(|_| key.issue(&agreement(), &caller).1)
            .inspect(|id| assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))))
            .collect();
        assert_eq!(ids.len(), 1000);
    }

    #[test]
    fn a_profile_that_fits_no_header_is_left_out() {
        let key = SessionKey::derive(&[7; 32]);
        let caller = Caller::new(Transport::Http);
        let mut large = agreement();
        large.profile = "x".repeat(MOST_PROFILE + 1).into();
        let (_, text) = key.issue(&large, &caller);
        assert_eq!(&*key.open(&text, &caller).unwrap().1.profile, "");
    }

    proptest::proptest! {
        #[test]
        fn no_changed_byte_passes(place: usize, change in 1..=255_u8) {
            let key = SessionKey::derive(&[7; 32]);
            let caller = Caller::new(Transport::Http);
            let (_, text) = key.issue(&agreement(), &caller);
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            let place = place % bytes.len();
            bytes[place] ^= change;
            assert!(key.open(&URL_SAFE_NO_PAD.encode(bytes), &caller).is_none());
        }
    }
}
