//! The answers to a batch (2025-03-26), which are kept until all are there, and go out as one line.
//!
//! Waiting answers count as memory of their caller, also small ones: nothing else limits their number. Each answer is counted
//! for itself and for its part of the line, so that there is room for the line when it is written.

use tokio::sync::mpsc;

use crate::{
    budget::{Account, Reservation},
    message::Message,
};

/// The bytes that an answer takes besides its text, here and in the line.
const BESIDES: usize = 256;

/// Returns the sender for the answers to a batch of this many messages, and their collection.
pub(super) fn collect(messages: usize, account: Account) -> (Sender, Collected) {
    let (sender, coming) = mpsc::channel(messages);
    let collected = Collected {
        coming,
        there: Vec::new(),
    };
    (Sender { sender, account }, collected)
}

/// Sends the answers to the requests of one batch to their collection.
#[derive(Clone)]
pub(super) struct Sender {
    sender: mpsc::Sender<Answer>,
    account: Account,
}

impl Sender {
    pub(super) fn send(&self, message: Message) {
        let answer = Answer {
            _counted: self.account.take(message.bytes_with_copy() + BESIDES),
            message,
        };
        // The channel has a place for every answer.
        let _ = self.sender.try_send(answer);
    }
}

/// The answers to one batch.
pub(crate) struct Collected {
    /// Closed when every request has been answered or cancelled.
    coming: mpsc::Receiver<Answer>,
    there: Vec<Answer>,
}

struct Answer {
    message: Message,
    /// The memory of its part of the line, and of the message itself if that is not counted yet.
    _counted: Reservation,
}

impl Collected {
    /// Whether every answer is there already.
    pub(super) fn is_whole(&mut self) -> bool {
        loop {
            match self.coming.try_recv() {
                Ok(answer) => self.there.push(answer),
                Err(mpsc::error::TryRecvError::Empty) => return false,
                Err(mpsc::error::TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// Waits until every answer is there.
    pub(super) async fn complete(&mut self) {
        while let Some(answer) = self.coming.recv().await {
            self.there.push(answer);
        }
    }

    /// Whether the batch has no answers.
    pub(super) fn is_empty(&self) -> bool {
        self.there.is_empty()
    }

    /// Writes the answers as one array. Each answer is dropped as soon as it is written.
    pub(super) fn write(&mut self, line: &mut Vec<u8>) {
        let lengths = self
            .there
            .iter()
            .map(|answer| answer.message.json().len() + 1);
        line.reserve_exact(lengths.sum::<usize>() + 2);
        for (at, answer) in self.there.drain(..).enumerate() {
            line.push(if at == 0 { b'[' } else { b',' });
            line.extend_from_slice(answer.message.json());
        }
        line.push(b']');
    }
}
