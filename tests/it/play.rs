//! Plays the steps of one transcript over one connection.

use std::cell::Cell;

use serde_json::Value;

use crate::{
    compare, expand,
    expand::{Captures, Outgoing},
    inbox::Inbox,
    link::Link,
    transcript::{Act, Era, Form, HttpPart, Send, Step, Transcript, Transport},
};

/// What came for the expected lines, in the order of the file: for `UPDATE=1`.
pub(crate) type Seen = Vec<Value>;

/// Plays a transcript to its end, or to the first thing that is wrong. `line` tells how far it has got.
pub(crate) async fn play(
    transcript: &Transcript,
    transport: Transport,
    strictness: Strictness,
    line: &Cell<usize>,
) -> Result<Seen, String> {
    let link = Link::open(transport, transcript.era).await?;
    let mut captures = Captures::from([("space".into(), " ".into())]);
    captures.extend(link.host().map(|host| ("host".into(), host.into())));
    let mut player = Player {
        link,
        inbox: Inbox::default(),
        captures,
        again: None,
        strictness,
        era: transcript.era,
    };
    let mut seen = Seen::new();
    for step in &transcript.steps {
        line.set(step.lines.start + 1);
        seen.extend(player.step(step).await?);
    }
    player.finish().await.map(|()| seen)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    Check,
    /// `UPDATE=1`: whatever comes is right.
    Accept,
}

struct Player {
    link: Link,
    inbox: Inbox,
    captures: Captures,
    /// What is sent again until its answer is the expected one.
    again: Option<(Outgoing, HttpPart)>,
    strictness: Strictness,
    era: Era,
}

impl Player {
    async fn step(&mut self, step: &Step) -> Result<Option<Value>, String> {
        match &step.act {
            Act::Send(send) => self.send(send).await.map(|()| None),
            Act::Listen(http) => self.link.listen(http).await.map(|()| None),
            Act::Restart => self.link.restart().await.map(|()| None),
            Act::Expect(text) => self.expect(text).await.map(Some),
            Act::ExpectNothing => self.expect_nothing().await.map(|()| None),
        }
    }

    async fn send(&mut self, send: &Send) -> Result<(), String> {
        for (index, id) in self.link.sessions().iter().enumerate() {
            self.captures
                .insert(format!("session{}", index + 1), id.as_str().into());
            self.captures.insert("session".into(), id.as_str().into());
        }
        let outgoing = expand::outgoing(send, &self.captures)?;
        let mut http = send.http.clone();
        http.fill(|text| expand::filled(text, &self.captures));
        self.again = (send.form == Form::Until).then(|| (outgoing.clone(), http.clone()));
        self.send_out(&outgoing, http).await
    }

    async fn send_out(&mut self, outgoing: &Outgoing, http: HttpPart) -> Result<(), String> {
        if let Some(message) = &outgoing.message {
            self.inbox.sent(message);
        }
        self.link.send(outgoing, http).await
    }

    async fn expect(&mut self, text: &str) -> Result<Value, String> {
        let expected: Option<Value> = match self.strictness {
            Strictness::Accept if text.is_empty() => None,
            Strictness::Accept | Strictness::Check => serde_json::from_str(text)
                .map(Some)
                .map_err(|err| format!("what is expected is no JSON: {err}"))?,
        };
        let full = compare::completed(expected.clone().unwrap_or_default(), self.era);
        let mut tries = 0;
        loop {
            tries += 1;
            let got = self.receive(expected.as_ref()).await?;
            let differences = compare::differences(&full, &got, &mut self.captures);
            let enough = match self.strictness {
                Strictness::Check => differences.is_empty() || tries == MANY,
                Strictness::Accept => tries == FEW,
            };
            match self.again.clone() {
                Some((outgoing, http)) if !enough => self.send_out(&outgoing, http).await?,
                _ => return self.judge(expected, got, &differences),
            }
        }
    }

    /// What `UPDATE=1` writes down, or what is wrong.
    fn judge(
        &self,
        expected: Option<Value>,
        got: Value,
        differences: &[String],
    ) -> Result<Value, String> {
        if self.strictness == Strictness::Check && !differences.is_empty() {
            let differences = differences.join("\n  ");
            let got: String = got.to_string().chars().take(SHOWN).collect();
            return Err(format!("{differences}\n  the message begins: {got}"));
        }
        let expected = expected.unwrap_or_default();
        Ok(compare::merged(
            &expected,
            &compare::shortened(got, self.era),
        ))
    }

    async fn expect_nothing(&mut self) -> Result<(), String> {
        self.inbox.extend(self.link.settle().await?);
        match self.inbox.first() {
            Some(message) => Err(format!(
                "there should be nothing more, but there is {message}"
            )),
            None => Ok(()),
        }
    }

    async fn finish(mut self) -> Result<(), String> {
        if let Some(id) = self.inbox.unanswered() {
            return Err(format!("at the end, no line expects the answer to {id}"));
        }
        self.inbox.extend(self.link.finish().await?);
        match self.inbox.first() {
            Some(message) => Err(format!("at the end, no line expects {message}")),
            None => Ok(()),
        }
    }

    /// The next message of what the expected one belongs to.
    async fn receive(&mut self, expected: Option<&Value>) -> Result<Value, String> {
        let expected = expected.map(|expected| expand::resolved(expected, &self.captures));
        loop {
            let message = match &expected {
                Some(expected) => self.inbox.take_like(expected),
                None => self.inbox.take(),
            };
            if let Some(message) = message {
                return Ok(message);
            }
            match self.link.next().await? {
                Some(message) => self.inbox.extend([message]),
                None => return Err("the connection ended before this message".into()),
            }
        }
    }
}

/// Characters of a message in a report.
const SHOWN: usize = 800;
/// How often a `>until` line is sent again: enough for any scheduler, and an end to a test that cannot pass.
const MANY: usize = 10_000;
/// How often `UPDATE=1` does so, which cannot know what it waits for.
const FEW: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    async fn played(transport: Transport, text: &str) -> Result<Seen, String> {
        let transcript =
            Transcript::parse(&format!("title: a test of the player\n{text}")).unwrap();
        play(&transcript, transport, Strictness::Check, &Cell::new(0)).await
    }

    const STEPS: &str = r#"> {"id":1,"method":"tools/call","params":{"name":"steps","arguments":{"done":[1]},
  "$meta":{"progressToken":1}}}
"#;
    const PROGRESS: &str = r#"< {"method":"notifications/progress","params":{"progressToken":1,"progress":1.0,
  "total":1.0,"message":"step 1"}}
"#;
    const DONE: &str = r#"< {"id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}
"#;

    #[tokio::test]
    async fn what_is_as_expected_passes() {
        for transport in Transport::ALL {
            let text = format!("{STEPS}{PROGRESS}{DONE}< (nothing)");
            let seen = played(transport, &text).await;
            assert_eq!(seen.map(|seen| seen.len()), Ok(2), "{transport:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_as_expected_fails() {
        for transport in Transport::ALL {
            for (text, expected) in [
                (format!("{STEPS}{DONE}{PROGRESS}"), "is not expected"),
                (
                    format!("{STEPS}{PROGRESS}"),
                    "no line expects the answer to 1",
                ),
                (format!("{STEPS}< (nothing)"), ""),
                (format!("{STEPS}{}", DONE.replace("done", "other")), ""),
                (
                    format!("{STEPS}{PROGRESS}{}", DONE.replace("done", "other")),
                    "should be \"other\"",
                ),
            ] {
                let err = played(transport, &text).await.expect_err(&text);
                assert!(err.contains(expected), "{transport:?}\n{text}\n{err}");
            }
        }
    }

    #[tokio::test]
    async fn another_status_or_header_fails() {
        for (wish, expected) in [
            ("@status 404", "the status should be 404"),
            ("@got Allow: POST", "header `Allow`"),
        ] {
            let text = format!("@header -Accept\n{STEPS}{wish}\n{DONE}");
            let err = played(Transport::Http, &text).await.expect_err(wish);
            assert!(err.contains(expected), "{err}");
        }
    }
}
