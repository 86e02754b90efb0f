//! The first line on a socket that asks who calls, and the last line of a host that closes. They are not part of MCP: they come
//! before and after it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The first line of a client: the token that it was given.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Greeting {
    /// A secret. Programs that use the older name of this member get no [`Welcome`].
    #[serde(rename = "lmcp_identity", skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(rename = "patterm_identity", skip_serializing)]
    older_identity: Option<String>,
}

/// The answer of the server to a client that it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Welcome {
    /// The identity of the client.
    #[serde(rename = "lmcp_welcome")]
    pub caller: Named,
}

/// A client that the server knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Named {
    /// The id of the client, which no other client has.
    pub id: String,
    /// The name of the client, for people.
    pub label: String,
    /// The role of the client.
    pub role: String,
    /// Further facts about the client.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Greeting {
    /// Makes the greeting with this token.
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            identity: Some(token.into()),
            older_identity: None,
        }
    }

    /// Reads a line. `None`: the line is no greeting.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?.trim();
        // serde would read an array as the members in their order.
        let text = text.starts_with('{').then_some(text)?;
        let greeting: Self = serde_json::from_str(text).ok()?;
        // With both members or none, the meaning is not clear.
        (greeting.identity.is_some() != greeting.older_identity.is_some()).then_some(greeting)
    }

    /// The secret.
    pub fn token(&self) -> &str {
        let either = self.identity.as_ref().or(self.older_identity.as_ref());
        either.map_or("", String::as_str)
    }

    /// Whether the client waits for a [`Welcome`].
    pub fn wants_welcome(&self) -> bool {
        self.identity.is_some()
    }

    /// The line, without its line end.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Welcome {
    /// Makes the welcome of a client.
    pub fn new(id: impl Into<String>, label: impl Into<String>, role: impl Into<String>) -> Self {
        Self {
            caller: Named {
                id: id.into(),
                label: label.into(),
                role: role.into(),
                fields: Map::new(),
            },
        }
    }

    /// Adds further facts. They never replace the members that all welcomes have.
    #[must_use]
    pub fn with(mut self, fields: &Map<String, Value>) -> Self {
        let more = fields.iter();
        let more = more.filter(|(name, _)| !["id", "label", "role"].contains(&name.as_str()));
        self.caller
            .fields
            .extend(more.map(|(name, value)| (name.clone(), value.clone())));
        self
    }
}

/// The last message of a host before it closes: the parameters of a notification
/// ([`GOODBYE`](crate::method::notification::GOODBYE)). Clients that do not know it ignore it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Goodbye {
    /// What the client should do next.
    pub then: Then,
    /// The socket of another host that goes on with the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
}

/// What a client should do when a host has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Then {
    /// Wait: the host, or another one that knows the client, comes back at the same place.
    Wait,
    /// Connect elsewhere: a host that knows the client is, or soon will be, at [another socket](Goodbye::socket). The credentials of
    /// the client name it, too.
    Elsewhere,
    /// Leave: no host that knows the client will come.
    Gone,
}

impl Goodbye {
    /// Makes a last message with this advice.
    pub fn new(then: Then) -> Self {
        Self { then, socket: None }
    }

    /// Makes the last message for a client that another host goes on with, at this socket.
    pub fn elsewhere(socket: impl Into<String>) -> Self {
        Self {
            then: Then::Elsewhere,
            socket: Some(socket.into()),
        }
    }
}

impl std::fmt::Debug for Greeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Greeting")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_the_token_are_read_and_one_is_written() {
        let greeting = Greeting::new("abc");
        assert_eq!(greeting.to_line(), r#"{"lmcp_identity":"abc"}"#);
        let older = br#"{"patterm_identity": "abc", "project_key": "k"}"#;
        for (line, waits) in [
            (greeting.to_line().as_bytes(), true),
            (older.as_slice(), false),
        ] {
            let read = Greeting::parse(line).unwrap();
            assert_eq!((read.token(), read.wants_welcome()), ("abc", waits));
        }
    }

    #[test]
    fn anything_else_is_no_greeting() {
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let twice = br#"{"lmcp_identity":"a","patterm_identity":"b"}"#;
        let array = br#"["a", null]"#;
        for line in [request.as_slice(), twice, array, b"", b"{}", b"[]", b"\xff"] {
            assert!(Greeting::parse(line).is_none());
        }
    }
}
