//! Classifies an HTTP response that is not simply an answer, and describes what went wrong.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use lmcp_wire::{RequestId, RpcError, error::METHOD_NOT_FOUND};

use crate::{
    answer::{self, Said},
    failures,
    stream::kind,
};

/// A response, and the message that it is for.
pub(crate) struct Case<'a> {
    pub(crate) server: &'a str,
    pub(crate) method: &'a str,
    /// The requests that wait for an answer. If it is empty and `wants_answer` is set, the message could not be read.
    pub(crate) pending: &'a [RequestId],
    pub(crate) wants_answer: bool,
    pub(crate) is_handshake: bool,
    /// The message was sent in a session.
    pub(crate) has_session: bool,
    /// The server did not know the session in which the message was sent before.
    pub(crate) is_second: bool,
    /// The server has spoken MCP before.
    pub(crate) is_proven: bool,
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
}

/// The result of the classification.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The body holds the answer; if no answer was expected, there is nothing to do.
    Fine,
    /// The session is not known any more, and the server did not look at the message.
    SessionOver(String),
    /// The server wants a token, and got none, or one that it does not accept.
    Unauthorized(String),
    /// Another try would have the same result.
    Refused(String),
    /// The server is not there, or not ready for a handshake.
    Gone(String),
    /// This message has failed.
    Failed(RpcError),
}

impl Case<'_> {
    pub(crate) fn judge(&self) -> Verdict {
        let answers = self.answers();
        match self.status {
            StatusCode::UNAUTHORIZED => return self.unauthorized(),
            StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED if !answers => {
                return self.refused("not allowed there; is it the right token?");
            }
            status if status.is_redirection() => return self.redirected(),
            _ => {}
        }
        let denies_session = self.denies_session();
        if denies_session && !self.is_second {
            return Verdict::SessionOver(self.words("the session is not known any more"));
        }
        if !self.wants_answer || answers {
            return Verdict::Fine;
        }
        if denies_session {
            let how = format!("{}, in two sessions one after the other", self.status);
            return Verdict::Failed(failures::unanswered(self.server, self.method, &how));
        }
        if self.status.is_success() {
            return self.not_mcp(&self.strange_body());
        }
        if self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED
            || self.status == StatusCode::TOO_MANY_REQUESTS
            || self.status == StatusCode::REQUEST_TIMEOUT
        {
            return self.troubled();
        }
        match self.status {
            StatusCode::NOT_FOUND => {
                self.not_mcp("there is nothing at this path; servers often use `/mcp`")
            }
            StatusCode::METHOD_NOT_ALLOWED => self.not_mcp(
                "it takes no POST, so it does not speak Streamable HTTP; servers often use `/mcp`",
            ),
            _ => self.not_mcp("this does not look like an MCP server"),
        }
    }

    /// Returns whether something in the body answers the requests.
    fn answers(&self) -> bool {
        let line = answer::one_line(self.body);
        answer::messages(&line).iter().any(|message| {
            match answer::read(message) {
                Some(Said::Answer(Some(id))) => {
                    self.pending.is_empty() || self.pending.contains(&id)
                }
                // An error without an id; 403 and similar responses have such errors, too.
                Some(Said::Answer(None)) => self.status != StatusCode::FORBIDDEN,
                Some(Said::Own) | None => false,
            }
        })
    }

    /// Returns whether the server says that it does not know the session.
    fn denies_session(&self) -> bool {
        self.has_session
            && match self.status {
                StatusCode::NOT_FOUND => !self.is_unknown_method(),
                // Many servers send this instead.
                StatusCode::BAD_REQUEST => self.complains_of_session(),
                _ => false,
            }
    }

    /// Returns whether the method is not known, which is a 404, too.
    fn is_unknown_method(&self) -> bool {
        answer::error(self.body).is_some_and(|error| error.code == METHOD_NOT_FOUND)
    }

    fn complains_of_session(&self) -> bool {
        answer::error(self.body).is_some_and(|error| {
            let words = error.message.to_ascii_lowercase();
            words.contains("session") || words.contains("not initialized")
        })
    }

    fn unauthorized(&self) -> Verdict {
        let said = match answer::error(self.body) {
            Some(error) => quoted(error.message.as_bytes()),
            None => self.excerpt(),
        };
        let why = format!("it wants a token, and got none that it knows{said}");
        Verdict::Unauthorized(self.words(&why))
    }

    fn redirected(&self) -> Verdict {
        let place = self.headers.get(header::LOCATION);
        let place = place
            .and_then(|place| place.to_str().ok())
            .unwrap_or("nowhere");
        let place = place.split(['?', '#']).next().unwrap_or_default();
        self.refused(&format!("it points to `{place}`; use that if you trust it"))
    }

    fn refused(&self, why: &str) -> Verdict {
        Verdict::Refused(self.words(why))
    }

    /// The response does not look like MCP. If the server spoke MCP before, that may pass.
    fn not_mcp(&self, why: &str) -> Verdict {
        let words = self.words(why);
        if !self.is_proven {
            Verdict::Refused(words)
        } else if self.is_handshake {
            Verdict::Gone(words)
        } else {
            let how = format!("{}, {why}", self.status);
            Verdict::Failed(failures::unanswered(self.server, self.method, &how))
        }
    }

    /// The server, or a proxy in front of it, is broken.
    fn troubled(&self) -> Verdict {
        let how = format!("{}{}", self.status, self.excerpt());
        if self.is_handshake || !self.is_proven {
            return Verdict::Gone(format!("`{}` is in trouble: {how}", self.server));
        }
        Verdict::Failed(failures::troubled(self.server, self.method, &how))
    }

    fn words(&self, why: &str) -> String {
        format!("`{}` answered {}: {why}", self.server, self.status)
    }

    fn strange_body(&self) -> String {
        let kind = kind(self.headers);
        if self.headers.contains_key(header::CONTENT_ENCODING) {
            return "its answer is compressed, which was not asked for".to_owned();
        }
        if self.body.trim_ascii().is_empty() {
            return "its answer is empty".to_owned();
        }
        if kind.eq_ignore_ascii_case("application/json") {
            return format!("its answer is not one to this request{}", self.excerpt());
        }
        let kind = if kind.is_empty() { "something" } else { kind };
        format!("its answer is `{kind}`, which is not MCP; is it the right path?")
    }

    /// Returns the beginning of a short text. HTML pages are left out: their beginning says nothing.
    fn excerpt(&self) -> String {
        quoted(self.body)
    }
}

/// Quotes the beginning of what a server said, in one line.
fn quoted(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(&said[..said.len().min(200)]);
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let text = text.trim();
    if text.is_empty() || text.starts_with('<') {
        return String::new();
    }
    format!(" (`{text}`)")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use lmcp_wire::error::INVALID_PARAMS;

    use super::*;

    fn judge(
        status: u16,
        kind: &'static str,
        body: &str,
        change: impl Fn(&mut Case<'_>),
    ) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(
            header::LOCATION,
            HeaderValue::from_static("https://there.example/mcp?key=s3cret"),
        );
        let (pending, body) = (
            [RequestId::from(1)],
            Bytes::copy_from_slice(body.as_bytes()),
        );
        let mut case = Case {
            server: "http://here/mcp",
            method: "tools/call",
            pending: &pending,
            wants_answer: true,
            is_handshake: false,
            has_session: false,
            is_second: false,
            is_proven: false,
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers,
            body: &body,
        };
        change(&mut case);
        format!("{:?}", case.judge())
    }

    fn error(id: &str, code: i64, words: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{words}"}}}}"#)
    }

    fn answer() -> String {
        error("1", INVALID_PARAMS, "no")
    }

    fn unknown() -> String {
        error("1", METHOD_NOT_FOUND, "no")
    }

    fn nameless() -> String {
        error("null", 1, "No valid session")
    }

    const JSON: &str = "application/json";
    const HTML: &str = "<html>hello</html>";

    #[test]
    fn what_comes_back_is_taken_for_what_it_is() {
        let (answer, unknown, nameless) = (&*answer(), &*unknown(), &*nameless());
        for (status, kind, body, expected) in [
            (200, JSON, answer, "Fine"),
            (400, JSON, answer, "Fine"),
            (404, JSON, unknown, "Fine"),
            (500, JSON, answer, "Fine"),
            (400, JSON, nameless, "Fine"),
            (403, JSON, answer, "Fine"),
            (401, JSON, answer, "Unauthorized"),
            (401, "text/plain", "", "Unauthorized"),
            (403, JSON, nameless, "Refused"),
            (302, "text/html", HTML, "Refused"),
            (200, "text/html", HTML, "Refused"),
            (200, JSON, "{}", "Refused"),
            (200, JSON, "", "Refused"),
            (202, "", "", "Refused"),
            (404, "text/html", HTML, "Refused"),
            (405, "text/html", HTML, "Refused"),
            (502, "text/html", HTML, "Gone"),
            (429, "text/plain", "slow down", "Gone"),
        ] {
            let found = judge(status, kind, body, |_| {});
            assert!(found.starts_with(expected), "{status} {body}: {found}");
        }
    }

    #[test]
    fn a_server_that_spoke_mcp_before_is_in_trouble_and_not_another() {
        let proven = |case: &mut Case<'_>| case.is_proven = true;
        let handshake = |case: &mut Case<'_>| (case.is_proven, case.is_handshake) = (true, true);
        for (status, kind, body) in [
            (200, "text/html", HTML),
            (404, "text/html", HTML),
            (503, "", ""),
        ] {
            assert!(
                judge(status, kind, body, proven).starts_with("Failed"),
                "{status}"
            );
            assert!(
                judge(status, kind, body, handshake).starts_with("Gone"),
                "{status}"
            );
        }
        assert!(judge(401, "", "", proven).starts_with("Unauthorized"));
    }

    #[test]
    fn a_session_that_is_over_is_told_from_a_method_that_is_not_known() {
        let (answer, unknown, nameless) = (&*answer(), &*unknown(), &*nameless());
        let member = |case: &mut Case<'_>| (case.is_proven, case.has_session) = (true, true);
        let telling = |case: &mut Case<'_>| {
            member(case);
            (case.pending, case.wants_answer) = (&[], false);
        };
        assert!(judge(404, JSON, answer, member).starts_with("SessionOver"));
        assert!(judge(404, "text/html", HTML, telling).starts_with("SessionOver"));
        assert!(judge(404, JSON, unknown, member).starts_with("Fine"));
        assert!(judge(400, JSON, nameless, member).starts_with("SessionOver"));
        assert!(judge(400, JSON, answer, member).starts_with("Fine"));
        for status in [200, 202, 400, 405, 500] {
            assert!(
                judge(status, "text/html", HTML, telling).starts_with("Fine"),
                "{status}"
            );
        }
    }

    #[test]
    fn a_second_session_that_is_not_known_is_an_error_and_no_third_one_is_tried() {
        let (answer, nameless) = (&*answer(), &*nameless());
        let second = |case: &mut Case<'_>| {
            (case.is_proven, case.has_session, case.is_second) = (true, true, true);
        };
        let found = judge(404, "text/html", HTML, second);
        assert!(
            found.starts_with("Failed") && found.contains("http://here/mcp"),
            "{found}"
        );
        // The server's words about the request itself are its answer.
        assert!(judge(404, JSON, answer, second).starts_with("Fine"));
        assert!(judge(400, JSON, nameless, second).starts_with("Fine"));
        let telling = |case: &mut Case<'_>| {
            second(case);
            (case.pending, case.wants_answer) = (&[], false);
        };
        assert!(judge(404, "text/html", HTML, telling).starts_with("Fine"));
    }

    #[test]
    fn people_are_told_where_it_points_without_its_secrets() {
        let words = judge(307, "", "", |_| {});
        assert!(
            words.contains("`https://there.example/mcp`") && !words.contains("s3cret"),
            "{words}"
        );
        let words = judge(503, "text/plain", "over\nloaded", |case| {
            case.is_proven = true
        });
        assert!(words.contains("(`over loaded`)"), "{words}");
    }
}
