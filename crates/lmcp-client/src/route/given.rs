//! A connection that another program has made, and that can be used only once.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use lmcp_outbound::Stream;

/// A connection that the other side has made: if it is lost, only the other side can make another.
#[derive(Clone)]
pub struct Given {
    name: Arc<str>,
    /// `None` when it was taken.
    stream: Arc<Mutex<Option<Stream>>>,
}

impl Given {
    /// Wraps the connection, with the name of its maker for people.
    pub fn new(name: &str, stream: Stream) -> Self {
        Self {
            name: name.into(),
            stream: Arc::new(Mutex::new(Some(stream))),
        }
    }

    /// Takes the connection. `None`: it was taken before, and is lost.
    pub(super) fn take(&self) -> Option<Stream> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.take()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Given").field(&self.name).finish()
    }
}
