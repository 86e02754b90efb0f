//! The answers to a batch (2025-03-26), kept until all are there and go out as one line.
//!
//! What waits here counts as memory of its caller, small answers too: nothing else bounds how many there are. Each counts
//! as itself and as its part of the line, so that there is room for the line when it is written.

use tokio::sync::mpsc;

use crate::{
    budget::{Account, Reservation},
    message::Message,
};

/// What an answer takes besides its bytes, in either place.
const BESIDES: usize = 256;

/// Where the answers to a batch of so many messages go, and where they are collected.
pub(super) fn collect(messages: usize, account: Account) -> (Sender, Collected) {
    let (sender, coming) = mpsc::channel(messages);
    let collected = Collected {
        coming,
        there: Vec::new(),
    };
    (Sender { sender, account }, collected)
}

/// Takes the answers to the requests of one batch.
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
        // There is a place for every answer.
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
    /// Its part of the line, and what of itself nobody has counted.
    _counted: Reservation,
}

impl Collected {
    /// Is every answer there already?
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

    /// Does nothing want an answer?
    pub(super) fn is_empty(&self) -> bool {
        self.there.is_empty()
    }

    /// Writes what is there as one array. Each answer is let go of as soon as it is written.
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
