//! The listeners, found by the lists, resources and tasks that they want. The cost of adding, removing or telling a listener
//! depends on what it watches, and not on the number of other listeners.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use lmcp_client::conversation::{ListWishes, Watched, Wishes};
use lmcp_core::session::SessionState;
use lmcp_wire::{RpcError, method::notification, resource::covers};
use serde_json::value::RawValue;

use crate::{limits::MISSED, news::News, slot::Slot};

/// The notifications that one listener wants.
pub(crate) struct Wanted {
    pub(crate) lists: ListWishes,
    pub(crate) watched: BTreeSet<String>,
    pub(crate) tasks: BTreeSet<String>,
}

/// All listeners.
#[derive(Default)]
pub(crate) struct Listeners {
    all: BTreeMap<u64, Listener>,
    /// Sessions that watch resources. The watched resources are part of the session state, so that they last as long as the
    /// session.
    sessions: BTreeMap<u64, Watching>,
    uris: Watchers,
    tasks: Watchers,
    last: u64,
}

struct Listener {
    wanted: Wanted,
    /// The number of the session whose watched resources count, too.
    session: Option<u64>,
    slot: Arc<Slot>,
    /// The server has confirmed the wishes of this listener.
    is_granted: bool,
}

/// A session, with the resources that it watched at the last look.
struct Watching {
    live: Weak<SessionState>,
    /// The listeners of the session: its streams.
    streams: BTreeSet<u64>,
    watched: BTreeSet<String>,
    /// Resources that changed while the session had no stream: its next stream is told first.
    missed: BTreeSet<String>,
}

impl Listeners {
    /// Adds a listener, and returns its number.
    pub(crate) fn add(
        &mut self,
        wanted: Wanted,
        session: Option<&Weak<SessionState>>,
        slot: Arc<Slot>,
        wishes: &mut Wishes,
    ) -> u64 {
        // The session may have watched resources before this server was reached for it.
        let session = session.map(|live| self.heed(live, wishes));
        if let Some(session) = session {
            self.tell_missed(session, &slot);
        }
        self.last += 1;
        let number = self.last;
        let watching = session.and_then(|session| self.sessions.get_mut(&session));
        if let Some(watching) = watching {
            watching.streams.insert(number);
        }
        self.uris.add(number, &wanted.watched, &mut wishes.watched);
        self.tasks.add(number, &wanted.tasks, &mut wishes.tasks);
        let listener = Listener {
            wanted,
            session,
            slot,
            is_granted: false,
        };
        self.all.insert(number, listener);
        wishes.lists = self.lists();
        number
    }

    pub(crate) fn remove(&mut self, number: u64, wishes: &mut Wishes) {
        if let Some(Listener {
            wanted, session, ..
        }) = self.all.remove(&number)
        {
            let watching = session.and_then(|session| self.sessions.get_mut(&session));
            if let Some(watching) = watching {
                watching.streams.remove(&number);
            }
            let (uris, tasks) = (&wanted.watched, &wanted.tasks);
            self.uris.remove(number, uris, &mut wishes.watched);
            self.tasks.remove(number, tasks, &mut wishes.tasks);
        }
        self.sweep(wishes);
        wishes.lists = self.lists();
    }

    /// Forgets resources that a listener wants, because the server has refused them.
    pub(crate) fn renounce(
        &mut self,
        number: u64,
        refused: &BTreeSet<String>,
        wishes: &mut Wishes,
    ) {
        if let Some(listener) = self.all.get_mut(&number) {
            listener.wanted.watched.retain(|uri| !refused.contains(uri));
            self.uris.remove(number, refused, &mut wishes.watched);
        }
    }

    /// Notes that the server has confirmed the wishes of this listener.
    pub(crate) fn granted(&mut self, number: u64) {
        if let Some(listener) = self.all.get_mut(&number) {
            listener.is_granted = true;
        }
    }

    /// Ends the subscriptions that clients asked for. The stream of a session goes on: its client cannot be told that it will hear
    /// nothing more, and the next server will be told what it watches.
    pub(crate) fn end(&mut self, result: &Result<(), RpcError>, wishes: &mut Wishes) {
        self.end_some(result, wishes, |_| true);
    }

    /// Ends the subscriptions whose wishes the server has not confirmed.
    pub(crate) fn refuse(&mut self, error: RpcError, wishes: &mut Wishes) {
        self.end_some(&Err(error), wishes, |listener| !listener.is_granted);
    }

    fn end_some(
        &mut self,
        result: &Result<(), RpcError>,
        wishes: &mut Wishes,
        is_meant: impl Fn(&Listener) -> bool,
    ) {
        let all = self.all.iter();
        let ended = all.filter(|(_, one)| one.session.is_none() && is_meant(one));
        let ended: Vec<_> = ended.map(|(number, _)| *number).collect();
        for number in ended {
            if let Some(listener) = self.all.get(&number) {
                listener.slot.done(result.clone().map(|()| nothing()));
            }
            self.remove(number, wishes);
        }
    }

    /// Takes over the resources that this session watches now. Returns the number of the session.
    pub(crate) fn heed(&mut self, live: &Weak<SessionState>, wishes: &mut Wishes) -> u64 {
        self.sweep(wishes);
        let mut known = self.sessions.iter();
        let number = known.find(|(_, one)| one.live.ptr_eq(live));
        let number = number.map(|(number, _)| *number).unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        let session = self.sessions.entry(number).or_insert_with(|| Watching {
            live: Weak::clone(live),
            streams: BTreeSet::new(),
            watched: BTreeSet::new(),
            missed: BTreeSet::new(),
        });
        let now = live.upgrade().map(|live| live.watched());
        let now: BTreeSet<_> = now.into_iter().flatten().collect();
        let (new, old) = (&now - &session.watched, &session.watched - &now);
        self.uris.add(number, &new, &mut wishes.watched);
        self.uris.remove(number, &old, &mut wishes.watched);
        session.watched = now;
        number
    }

    /// Forgets sessions that have ended.
    fn sweep(&mut self, wishes: &mut Wishes) {
        let uris = &mut self.uris;
        self.sessions.retain(|number, session| {
            let is_over = session.live.strong_count() == 0;
            if is_over {
                uris.remove(*number, &session.watched, &mut wishes.watched);
            }
            !is_over
        });
    }

    /// Ends all streams.
    pub(crate) fn close(&mut self) {
        for listener in self.all.values() {
            listener.slot.done(Ok(nothing()));
        }
    }

    /// Tells all listeners that everything which they watch may have changed: a server is there again, and nobody heard what changed
    /// while it was away. Each listener is told what it watches itself, and nothing of what others watch.
    pub(crate) fn may_have_changed(&mut self) {
        self.tell(&News::list(notification::TOOLS_CHANGED));
        self.tell(&News::list(notification::PROMPTS_CHANGED));
        self.tell(&News::list(notification::RESOURCES_CHANGED));
        for listener in self.all.values() {
            tell_each(&listener.wanted.watched, &listener.slot);
        }
        for session in self.sessions.values_mut() {
            let stream = session.streams.first();
            match stream.and_then(|number| self.all.get(number)) {
                Some(listener) => tell_each(&session.watched, &listener.slot),
                None => {
                    let watched = session.watched.iter().take(MISSED);
                    session.missed = watched.cloned().collect();
                }
            }
        }
    }

    /// Passes a notification to the listeners that want it. `false`: it is another kind of notification.
    pub(crate) fn hear(&mut self, method: &str, params: &RawValue) -> bool {
        match method {
            notification::TOOLS_CHANGED
            | notification::PROMPTS_CHANGED
            | notification::RESOURCES_CHANGED
            | notification::RESOURCE_UPDATED
            | notification::TASKS => {}
            _ => return false,
        }
        let Some(news) = News::read(method, params) else {
            return true;
        };
        match (method, news.about.clone()) {
            (notification::RESOURCE_UPDATED, Some(uri)) => self.tell_of_resource(&uri, &news),
            (notification::TASKS, Some(task)) => {
                for number in self.tasks.of(&task) {
                    if let Some(listener) = self.all.get(number) {
                        listener.slot.notice(news.clone());
                    }
                }
            }
            _ => self.tell(&news),
        }
        true
    }

    /// Tells of a changed list.
    fn tell(&self, news: &News) {
        for listener in self.all.values() {
            let wanted = listener.wanted.lists;
            let is_wanted = match &*news.method {
                notification::TOOLS_CHANGED => wanted.tools,
                notification::PROMPTS_CHANGED => wanted.prompts,
                _ => wanted.resources,
            };
            if is_wanted {
                listener.slot.notice(news.clone());
            }
        }
    }

    fn tell_of_resource(&mut self, uri: &str, news: &News) {
        for number in self.uris.covering(uri) {
            if let Some(listener) = self.all.get(&number) {
                listener.slot.notice(news.clone());
                continue;
            }
            let Some(session) = self.sessions.get_mut(&number) else {
                continue;
            };
            if session.streams.is_empty() {
                if session.missed.len() < MISSED {
                    session.missed.insert(uri.to_owned());
                }
            } else if session.watches(uri) {
                let streams = session.streams.iter();
                for stream in streams.filter_map(|number| self.all.get(number)) {
                    stream.slot.notice(news.clone());
                }
            }
        }
    }

    /// Reports the changes while the session had no stream.
    fn tell_missed(&mut self, session: u64, slot: &Slot) {
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        let mut missed = std::mem::take(&mut session.missed);
        missed.retain(|uri| session.watches(uri));
        tell_each(&missed, slot);
    }

    /// Returns the lists that any listener wants.
    fn lists(&self) -> ListWishes {
        let mut lists = ListWishes::default();
        for wanted in self.all.values().map(|listener| listener.wanted.lists) {
            lists.tools |= wanted.tools;
            lists.prompts |= wanted.prompts;
            lists.resources |= wanted.resources;
        }
        lists
    }
}

impl Watching {
    /// Returns whether the session watches a resource now. It may have changed since the last look.
    fn watches(&self, uri: &str) -> bool {
        self.live.upgrade().is_some_and(|live| live.watches(uri))
    }
}

/// Reports a change of each of these resources.
fn tell_each(uris: &BTreeSet<String>, slot: &Slot) {
    for uri in uris {
        slot.notice(News::updated(uri));
    }
}

fn nothing() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
}

/// The watchers of each name.
#[derive(Default)]
struct Watchers(HashMap<String, BTreeSet<u64>>);

impl Watchers {
    fn add(&mut self, number: u64, names: &BTreeSet<String>, wished: &mut Watched) {
        for name in names {
            wished.insert(name);
            self.0.entry(name.clone()).or_default().insert(number);
        }
    }

    fn remove(&mut self, number: u64, names: &BTreeSet<String>, wished: &mut Watched) {
        for name in names {
            let Some(watchers) = self.0.get_mut(name) else {
                continue;
            };
            watchers.remove(&number);
            if watchers.is_empty() {
                self.0.remove(name);
                wished.remove(name);
            }
        }
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &u64> {
        self.0.get(name).into_iter().flatten()
    }

    /// Returns the watchers of a resource, or of one above it.
    fn covering(&self, uri: &str) -> BTreeSet<u64> {
        let parts = || uri.match_indices('/').map(|(at, _)| at);
        if parts().count() > PARTS {
            let all = self.0.iter().filter(|(watched, _)| covers(watched, uri));
            return all.flat_map(|(_, watchers)| watchers).copied().collect();
        }
        let above = parts().flat_map(|at| [&uri[..at], &uri[..=at]]);
        let names = above.filter(|name| name.len() < uri.len()).chain([uri]);
        names.flat_map(|name| self.of(name)).copied().collect()
    }
}

/// The number of parts of a URI that are looked up one by one. For a URI with more parts, going through all watched names is
/// faster.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use lmcp_client::conversation::{Conversation, Ids, Profile};
    use lmcp_wire::Implementation;

    use super::*;
    use crate::slot::Room;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn wanted(watched: &[&str]) -> Wanted {
        Wanted {
            lists: ListWishes::default(),
            watched: names(watched),
            tasks: names(&["t"]),
        }
    }

    #[test]
    fn what_is_watched_is_wished_for_until_the_last_watcher_goes() {
        let profile = Profile::new(Implementation::new("x", "1"));
        let mut conversation = Conversation::new(profile, Ids::default());
        let (wishes, mut listeners) = (conversation.wishes(), Listeners::default());
        let slot = || Arc::new(Slot::new(Room::default()));
        let one = listeners.add(wanted(&["a:1", "a:2"]), None, slot(), wishes);
        let other = listeners.add(wanted(&["a:2", "a:3"]), None, slot(), wishes);
        assert_eq!(listeners.uris.0.len(), 3);
        listeners.remove(one, wishes);
        listeners.remove(one, wishes);
        assert_eq!(listeners.uris.of("a:1").count(), 0);
        assert_eq!(listeners.uris.of("a:2").count(), 1);
        assert!(!wishes.is_empty());
        listeners.remove(other, wishes);
        assert!(wishes.is_empty(), "{wishes:?}");
        assert!(listeners.uris.0.is_empty() && listeners.tasks.0.is_empty());
    }

    #[test]
    fn all_who_watch_share_one_short_text() {
        let (mut wishes, mut listeners) = (Wishes::default(), Listeners::default());
        let slots = [(); 3].map(|()| Arc::new(Slot::new(Room::default())));
        for slot in &slots {
            listeners.add(wanted(&["a:1"]), None, Arc::clone(slot), &mut wishes);
        }
        let params = format!(r#"{{"uri":"a:1","x":"{}"}}"#, "x".repeat(100_000));
        let params = RawValue::from_string(params).unwrap();
        assert!(listeners.hear(notification::RESOURCE_UPDATED, &params));
        let told: Vec<_> = slots.iter().flat_map(|slot| slot.notices()).collect();
        let texts = told.iter().map(|news| news.params.get());
        assert_eq!(texts.collect::<Vec<_>>(), [r#"{"uri":"a:1"}"#; 3]);
        let is_shared = |news: &News| Arc::ptr_eq(&news.params, &told[0].params);
        assert!(told.iter().all(is_shared));
    }

    #[test]
    fn whoever_watches_a_resource_is_found_by_its_uri() {
        let deep = format!("a://{}", "b/".repeat(100));
        let all = [
            "", "/", "a:", "a:/", "a://", "a://b", "a://b/", "a://b/c", "a://b/c/", &deep,
        ];
        let mut watchers = Watchers::default();
        for (number, name) in (0..).zip(all) {
            watchers.add(number, &names(&[name]), &mut Watched::default());
        }
        for uri in [
            "",
            "/",
            "/x",
            "a://bc",
            "a://b",
            "a://b/",
            "a://b/c/d",
            "x",
            &deep,
            "a://b//c",
        ] {
            let numbered = (0_u64..).zip(all);
            let expected: BTreeSet<_> = numbered
                .filter_map(|(number, watched)| covers(watched, uri).then_some(number))
                .collect();
            assert_eq!(watchers.covering(uri), expected, "{uri}");
        }
    }
}
