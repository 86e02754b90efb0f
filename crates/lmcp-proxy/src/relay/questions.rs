//! Questions of a server to the client, under ids of our own: the next server counts from one again, and must not get
//! answers to what another asked.

use lmcp_wire::RequestId;

#[derive(Debug, Default)]
pub(super) struct Questions(Vec<Question>);

#[derive(Debug)]
struct Question {
    ours: RequestId,
    theirs: RequestId,
    /// As the server wrote it.
    raw: Box<str>,
}

impl Questions {
    pub(super) fn add(&mut self, ours: RequestId, theirs: RequestId, raw: &str) {
        let raw = raw.into();
        self.0.push(Question { ours, theirs, raw });
    }

    /// The client answers one of ours: the id that the server knows it by.
    pub(super) fn answered(&mut self, ours: &RequestId) -> Option<Box<str>> {
        let at = self.0.iter().position(|question| question.ours == *ours)?;
        Some(self.0.remove(at).raw)
    }

    /// The server takes one of its own back: the id that the client knows it by.
    pub(super) fn taken_back(&mut self, theirs: &RequestId) -> Option<RequestId> {
        let at = self
            .0
            .iter()
            .position(|question| question.theirs == *theirs)?;
        Some(self.0.remove(at).ours)
    }

    /// The server is gone: the ids that the client knows its questions by.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.0.drain(..).map(|question| question.ours).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
