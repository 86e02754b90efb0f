//! A connection to a server that goes on in another protocol.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use lmcp_outbound::{Stream, Upgrade};
use serde::Deserialize;

use crate::{Endpoint, Error};

impl Endpoint {
    /// Asks the server to switch to another protocol, on a new connection. Returns the headers of the answer, and the
    /// connection.
    ///
    /// # Errors
    /// The server cannot be reached, is not the expected one, or refuses: then with its own words.
    pub async fn upgrade(&self, protocol: &'static str) -> Result<(HeaderMap, Stream), Error> {
        let name = self.0.name();
        let (status, said) = match self.0.ask_for(HeaderValue::from_static(protocol)).await? {
            Upgrade::Agreed(headers, stream) => {
                let agreed = headers.get(header::UPGRADE);
                if agreed.is_some_and(|agreed| agreed.as_bytes() == protocol.as_bytes()) {
                    return Ok((headers, stream));
                }
                let words = format!("`{name}` goes on in another protocol than `{protocol}`");
                return Err(Error::Refused(words));
            }
            Upgrade::Declined(status, said) => (status, said),
            _ => return Err(Error::Unreachable(format!("`{name}` gave no answer"))),
        };
        let why = words(&said).unwrap_or_else(|| format!("it does not speak `{protocol}`"));
        let words = format!("`{name}` answers {}: {why}", status.as_u16());
        Err(
            match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                true => Error::Unreachable(words),
                false => Error::Refused(words),
            },
        )
    }
}

/// Returns the words of a refusal, if it comes from a server of ours.
fn words(said: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Said {
        error: Told,
    }
    #[derive(Deserialize)]
    struct Told {
        message: String,
    }
    let said: Said = serde_json::from_slice(said).ok()?;
    // The words come from another machine and are shown on a terminal, so control characters are removed.
    let plain = said.error.message.chars();
    Some(plain.filter(|letter| !letter.is_control()).collect())
}
