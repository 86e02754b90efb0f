//! What happens to the children of a host, for programs that show it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use crate::member::{ChildHandle, Connection, Ended};

/// Events that wait for one who is slow to take them. Beyond that the oldest are lost, and [`Event::Missed`] says how many.
const MOST_EVENTS: usize = 1024;

/// Something happened to a child.
///
/// Those of one child come in the order in which they happened; [`Event::Ended`] is its last.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection of a child begins.
    Attached(ChildHandle, Connection),
    /// A connection of a child has ended.
    Detached(ChildHandle, Connection),
    /// Somebody was not let in.
    Refused {
        /// The process that connected, as far as the kernel tells.
        process: Option<i32>,
        /// The reason, in the words that the process was told, too.
        why: String,
    },
    /// A child has ended, and nobody comes in as it any more.
    Ended(ChildHandle, Ended),
    /// A child has another role now.
    RoleChanged {
        /// Whose.
        child: ChildHandle,
        /// The role that it had before.
        from: String,
    },
    /// So many events were lost, because they were not taken in time.
    Missed(u64),
}

/// The events of a host from when it was [asked](crate::HostHandle::events) for them. It can be waited for on any thread.
#[derive(Debug)]
pub struct Events(Option<broadcast::Receiver<Event>>);

impl Events {
    /// The next event; `None` when the host has closed. Losing the future loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The same for a thread without a runtime: it waits.
    ///
    /// # Panics
    /// Called from asynchronous code, which it would hold up.
    pub fn wait(&mut self) -> Option<Event> {
        match self.0.as_mut()?.blocking_recv() {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event, if there is one already: for a program that looks whenever it draws.
    pub fn take(&mut self) -> Option<Event> {
        match self.0.as_mut()?.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Tells events to all who asked for them. Costs nothing while nobody has.
#[derive(Debug, Default)]
pub(crate) struct Teller(Mutex<Telling>);

#[derive(Debug, Default)]
enum Telling {
    #[default]
    ToNobody,
    /// With those that the first one who asks is still to hear.
    To(broadcast::Sender<Event>, Option<Events>),
    Closed,
}

impl Teller {
    /// Of a host that is gone.
    pub(crate) fn closed() -> Self {
        Self(Mutex::new(Telling::Closed))
    }

    pub(crate) fn events(&self) -> Events {
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *telling {
            Telling::To(sender, first) => {
                let first = first.take();
                first.unwrap_or_else(|| Events(Some(sender.subscribe())))
            }
            Telling::Closed => Events(None),
            Telling::ToNobody => {
                let (sender, events) = broadcast::channel(MOST_EVENTS);
                *telling = Telling::To(sender, None);
                Events(Some(events))
            }
        }
    }

    /// From now on events are kept for the first who asks: at the start of a host nobody can have asked yet.
    pub(crate) fn remember(&self) {
        let events = self.events();
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Telling::To(_, first) = &mut *telling {
            first.get_or_insert(events);
        }
    }

    /// The event is made only if somebody hears it.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        let telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Telling::To(sender, _) = &*telling
            && sender.receiver_count() > 0
        {
            let _ = sender.send(event());
        }
    }

    /// No more events come: whoever waits hears that.
    pub(crate) fn close(&self) {
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *telling = Telling::Closed;
    }
}
