//! Seals the state that a client carries between two rounds: the client can neither read nor change it, nor use it for another
//! request.
//!
//! ChaCha20-Poly1305 under a key of this server. The sealed text contains the expiry, the caller and the request of the state.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lmcp_wire::RpcError;
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    limits::Limits,
    random,
    request::{Request, decode, string},
};

/// Part of every seal: if the key is also used for another purpose, the two cannot be mixed up.
const PURPOSE: &[u8] = b"lmcp request state 1";

/// Seals and opens request state.
pub(crate) struct Sealer(LessSafeKey);

/// The caller and the request that a state is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The caller.
    pub(crate) owner: String,
    /// A digest of method and parameters.
    pub(crate) request: String,
}

impl Subject {
    /// Returns the caller of a request and a digest of its contents.
    pub(crate) fn of(request: &Request) -> Self {
        let arguments = request.arguments().unwrap_or(b"{}");
        // Maps are ordered, so the text does not depend on the order that the client wrote. Arguments that cannot be parsed are
        // taken as they are.
        let arguments = match decode::<Value>(arguments) {
            Ok(value) => value.to_string().into_bytes(),
            Err(_) => arguments.to_vec(),
        };
        let target = request.target().unwrap_or_default();
        let text = [
            request.method().as_bytes(),
            b"\n",
            target.as_bytes(),
            b"\n",
            &arguments,
        ]
        .concat();
        let digest = digest::digest(&digest::SHA256, &text);
        Self {
            owner: request.caller().owner().into_owned(),
            request: URL_SAFE_NO_PAD.encode(digest),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    /// Seconds since 1970.
    expires: u64,
    subject: Subject,
    body: T,
}

impl Sealer {
    /// Makes a sealer with a key that other instances of the server may share.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key)
            .expect("the key has the length of the algorithm");
        Self(LessSafeKey::new(key))
    }

    pub(crate) fn seal<T: Serialize>(
        &self,
        body: &T,
        subject: &Subject,
        limits: &Limits,
    ) -> Result<String, RpcError> {
        let expires = now() + limits.ask_wait.as_secs();
        let state = self.encrypt(&Sealed {
            expires,
            subject: subject.clone(),
            body,
        })?;
        if state.len() > limits.state_bytes {
            let (size, most) = (state.len(), limits.state_bytes);
            let words = format!("the state to carry has {size} bytes; at most {most} are allowed");
            let data = json!({ "limit": "state_bytes", "value": most });
            return Err(RpcError::internal(words).with_data(data));
        }
        Ok(state)
    }

    /// Seals the state of another server. That server decides how long the state lives and how large it may be.
    pub(crate) fn seal_foreign<T: Serialize>(
        &self,
        state: &T,
        subject: Subject,
    ) -> Result<String, RpcError> {
        self.encrypt(&Sealed {
            expires: u64::MAX,
            subject,
            body: state,
        })
    }

    /// Opens the state that a request brings back, if it brings one.
    pub(crate) fn open_of<T: DeserializeOwned>(
        &self,
        request: &Request,
    ) -> Result<Option<T>, RpcError> {
        let Some(state) = request.request_state() else {
            return Ok(None);
        };
        let state = string(state)
            .ok_or_else(|| RpcError::invalid_params("`requestState` must be a string"))?;
        self.open(&state, &Subject::of(request)).map(Some)
    }

    fn encrypt<T: Serialize>(&self, sealed: &Sealed<T>) -> Result<String, RpcError> {
        let mut text = serde_json::to_vec(sealed)
            .map_err(|err| RpcError::internal(format!("the state cannot be written: {err}")))?;
        let nonce = random::bytes::<NONCE_LEN>();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(PURPOSE),
                &mut text,
            )
            .map_err(|_| RpcError::internal("the state cannot be sealed"))?;
        let mut whole = nonce.to_vec();
        whole.append(&mut text);
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Returns the sealed value, if nobody changed it and it belongs to this caller and request.
    pub(crate) fn open<T: DeserializeOwned>(
        &self,
        state: &str,
        subject: &Subject,
    ) -> Result<T, RpcError> {
        let sealed: Sealed<T> = self
            .decrypt(state)
            .ok_or_else(|| refused("was not made by this server"))?;
        if sealed.subject != *subject {
            return Err(refused("belongs to another request"));
        }
        if sealed.expires < now() {
            return Err(refused("has expired; send the request without it"));
        }
        Ok(sealed.body)
    }

    fn decrypt<T: DeserializeOwned>(&self, state: &str) -> Option<T> {
        let mut whole = URL_SAFE_NO_PAD.decode(state).ok()?;
        let (nonce, sealed) = whole.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self
            .0
            .open_in_place(nonce, Aad::from(PURPOSE), sealed)
            .ok()?;
        serde_json::from_str(std::str::from_utf8(text).ok()?).ok()
    }
}

fn refused(why: &str) -> RpcError {
    RpcError::invalid_params(format!("`requestState` {why}"))
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(request: &str) -> Subject {
        Subject {
            owner: "me".into(),
            request: request.into(),
        }
    }

    #[test]
    fn a_state_opens_only_whole_in_time_and_in_its_place() {
        let (sealer, limits) = (Sealer::new(&[7; 32]), Limits::default());
        let state = sealer.seal(&"body", &subject("a"), &limits).unwrap();
        assert_eq!(
            sealer.open::<String>(&state, &subject("a")).unwrap(),
            "body"
        );
        let open = |sealer: &Sealer, state: &str, request: &str| {
            sealer
                .open::<String>(state, &subject(request))
                .unwrap_err()
                .message
                .into_owned()
        };
        assert_eq!(
            open(&sealer, &state, "b"),
            "`requestState` belongs to another request"
        );
        let old = sealer
            .encrypt(&Sealed {
                expires: now() - 1,
                subject: subject("a"),
                body: "body",
            })
            .unwrap();
        assert_eq!(
            open(&sealer, &old, "a"),
            "`requestState` has expired; send the request without it"
        );
        for tampered in [
            format!("{state}-TAMPERED"),
            state[1..].into(),
            String::new(),
            "é".into(),
        ] {
            assert_eq!(
                open(&sealer, &tampered, "a"),
                "`requestState` was not made by this server",
                "{tampered}"
            );
        }
        assert_eq!(
            open(&Sealer::new(&[8; 32]), &state, "a"),
            "`requestState` was not made by this server"
        );
    }

    #[test]
    fn what_a_client_carries_cannot_be_read() {
        let sealer = Sealer::new(&[7; 32]);
        let state = sealer.seal(&"swordfish", &subject("a"), &Limits::default());
        let bytes = URL_SAFE_NO_PAD.decode(state.unwrap()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for word in ["swordfish", "expires", "owner"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_body_comes_back_and_no_changed_byte_passes(body: String, place: usize, change in 1..=255_u8) {
            let sealer = Sealer::new(&[7; 32]);
            let state = sealer.seal(&body, &subject("a"), &Limits::default()).unwrap();
            assert_eq!(sealer.open::<String>(&state, &subject("a")).unwrap(), body);
            let mut bytes = URL_SAFE_NO_PAD.decode(&state).unwrap();
            let place = place % bytes.len();
            bytes[place] ^= change;
            assert!(sealer.open::<String>(&URL_SAFE_NO_PAD.encode(bytes), &subject("a")).is_err());
        }
    }
}
