//! Questions of a server to the client, under ids of our own: the next server begins with the same ids, and must not get
//! answers to questions of another server.

use lmcp_wire::RequestId;

#[derive(Debug, Default)]
pub(super) struct Questions(Vec<Question>);

#[derive(Debug)]
struct Question {
    ours: RequestId,
    theirs: RequestId,
    /// The id as the server wrote it.
    raw: Box<str>,
}

impl Questions {
    pub(super) fn add(&mut self, ours: RequestId, theirs: RequestId, raw: &str) {
        let raw = raw.into();
        self.0.push(Question { ours, theirs, raw });
    }

    /// Removes a question that the client has answered. Returns the server's id.
    pub(super) fn answered(&mut self, ours: &RequestId) -> Option<Box<str>> {
        let at = self.0.iter().position(|question| question.ours == *ours)?;
        Some(self.0.remove(at).raw)
    }

    /// Removes a question that the server has cancelled. Returns the client's id.
    pub(super) fn taken_back(&mut self, theirs: &RequestId) -> Option<RequestId> {
        let at = self
            .0
            .iter()
            .position(|question| question.theirs == *theirs)?;
        Some(self.0.remove(at).ours)
    }

    /// Removes all questions, because the server is gone. Returns the client's ids.
    pub(super) fn take_all(&mut self) -> Vec<RequestId> {
        self.0.drain(..).map(|question| question.ours).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
