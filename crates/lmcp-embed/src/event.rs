//! The events of the children of a host, for programs that show them.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use crate::member::{ChildHandle, Connection, Ended};

/// The number of events that wait for a slow receiver. If there are more, the oldest are lost, and [`Event::Missed`] says
/// how many.
const MOST_EVENTS: usize = 1024;

/// An event of a child.
///
/// The events of one child arrive in their order, and [`Event::Ended`] is the last one. As text, an event is a line for people:
/// `ann attached`, `ann ended: exit status: 3`.
///
/// ```no_run
/// # fn show(mut events: lmcp::embed::Events) {
/// while let Some(event) = events.wait() {
///     println!("{event}");
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection of a child begins.
    Attached(ChildHandle, Connection),
    /// A connection of a child has ended.
    Detached(ChildHandle, Connection),
    /// A connection was refused.
    Refused {
        /// The process that connected, if the kernel names it.
        process: Option<u32>,
        /// The reason, in the words that the process was told, too.
        why: String,
    },
    /// A child has ended, and connections with its identity are refused from now on.
    Ended(ChildHandle, Ended),
    /// A child has another role now.
    RoleChanged {
        /// The child.
        child: ChildHandle,
        /// The role that it had before.
        from: String,
    },
    /// This number of events was lost, because the receiver was too slow.
    Missed(u64),
}

impl Event {
    /// Returns the child that the event is about: that of every event but [`Event::Refused`] and [`Event::Missed`].
    ///
    /// ```no_run
    /// # use lmcp::embed::{ChildHandle, Events};
    /// # async fn next_of(events: &mut Events, pane: &ChildHandle) {
    /// while let Some(event) = events.next().await {
    ///     if event.child() == Some(pane) {
    ///         println!("{event}");
    ///     }
    /// }
    /// # }
    /// ```
    pub fn child(&self) -> Option<&ChildHandle> {
        match self {
            Self::Attached(child, _)
            | Self::Detached(child, _)
            | Self::Ended(child, _)
            | Self::RoleChanged { child, .. } => Some(child),
            Self::Refused { .. } | Self::Missed(_) => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.child().map(ChildHandle::label).unwrap_or_default();
        match self {
            Self::Attached(..) => write!(f, "{label} attached"),
            Self::Detached(..) => write!(f, "{label} detached"),
            Self::Refused {
                process: Some(process),
                why,
            } => write!(f, "a connection of process {process} was refused: {why}"),
            Self::Refused { process: None, why } => write!(f, "a connection was refused: {why}"),
            Self::Ended(_, how) => write!(f, "{label} ended: {how}"),
            Self::RoleChanged { child, from } => {
                write!(f, "{label} changed from {from} to {}", child.role())
            }
            Self::Missed(count) => write!(f, "events that were not taken in time: {count}"),
        }
    }
}

/// The events of a host from the time when the program [asked](crate::HostHandle::events) for them. Any thread can wait for
/// them.
#[derive(Debug)]
pub struct Events(Option<broadcast::Receiver<Event>>);

impl Events {
    /// Returns the next event; `None` when the host has closed. No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// Waits for the next event on a thread without a runtime, and blocks the thread.
    ///
    /// # Panics
    /// If called from asynchronous code, which it would block.
    pub fn wait(&mut self) -> Option<Event> {
        match self.0.as_mut()?.blocking_recv() {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns the next event if there is one already: for a program that checks whenever it draws.
    pub fn take(&mut self) -> Option<Event> {
        match self.0.as_mut()?.try_recv() {
            Ok(event) => Some(event),
            Err(TryRecvError::Lagged(missed)) => Some(Event::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Sends events to all receivers. If there is no receiver, no event is made.
#[derive(Debug, Default)]
pub(crate) struct Teller(Mutex<Telling>);

#[derive(Debug, Default)]
enum Telling {
    #[default]
    ToNobody,
    /// With events that are kept for the first receiver.
    To(broadcast::Sender<Event>, Option<Events>),
    Closed,
}

impl Teller {
    /// Returns a teller of a host that is gone.
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

    /// Keeps events from now on for the first receiver, because at the start of a host no program can have asked yet.
    pub(crate) fn remember(&self) {
        let events = self.events();
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Telling::To(_, first) = &mut *telling {
            first.get_or_insert(events);
        }
    }

    /// Sends an event. The event is only made if there is a receiver.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        let telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Telling::To(sender, _) = &*telling
            && sender.receiver_count() > 0
        {
            let _ = sender.send(event());
        }
    }

    /// Ends the events: all receivers are told.
    pub(crate) fn close(&self) {
        let mut telling = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *telling = Telling::Closed;
    }
}
