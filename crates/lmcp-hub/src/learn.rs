//! Takes the listing of a server into the catalogue: keeps it on disk, and compares it with what was first seen of the
//! server.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use tokio::time::timeout;

use crate::{
    inner::Inner,
    limits::{KEEP_WAIT, LONG_ANSWER},
    listing::Listing,
    member::Member,
    pins::Change,
    review::{Known, Review},
    status::ToolChange,
};

impl Inner {
    /// Keeps a listing for the next run, and compares it with what was first seen. This happens before clients are told, so
    /// that everything that a client saw is kept.
    pub(crate) fn keep(
        &self,
        member: &Arc<Member>,
        listing: &Arc<Listing>,
    ) -> impl Future<Output = Review> + use<> {
        let is_pinned = self.is_pinned(member);
        let (store, approvals) = (self.store.clone(), Arc::clone(&self.approvals));
        let (member, listing) = (Arc::clone(member), Arc::clone(listing));
        async move {
            if member.is_mounted {
                return Review::default();
            }
            let is_short = listing.bytes() <= LONG_ANSWER;
            if store.is_none() && is_short {
                return Review::of(&approvals, &member.name, &listing, is_pinned);
            }
            let work = move || {
                if let Some(store) = store {
                    // A listing that cannot be kept is asked for again in the next run.
                    let _ = store.write(&member.name, &member.config(), Some(&listing));
                }
                Review::of(&approvals, &member.name, &listing, is_pinned)
            };
            // A disk that hangs delays nobody.
            match timeout(KEEP_WAIT, tokio::task::spawn_blocking(work)).await {
                Ok(Ok(review)) => review,
                Ok(Err(_)) | Err(_) => Review::failed(&io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Takes a new listing of a server into the catalogue.
    pub(crate) fn learn(&self, member: &Arc<Member>, listing: Arc<Listing>, review: Review) {
        let is_its = self
            .member(&member.name)
            .is_some_and(|now| Arc::ptr_eq(&now, member));
        if !is_its {
            return;
        }
        let name = Arc::clone(&member.name);
        let known = Known { listing, review };
        self.catalog().known.insert(name, Arc::new(known));
        self.look_again();
    }

    /// Notes that a server has listed its items, or cannot be asked. Nobody waits for this server from now on, also not
    /// after the next start of the hub.
    pub(crate) fn was_tried(&self, member: &Arc<Member>) {
        let was_tried = member.is_tried.swap(true, Ordering::AcqRel);
        self.nudge();
        self.settled.notify_one();
        if was_tried || member.is_mounted || self.knows(&member.name) {
            return;
        }
        if let Some(store) = self.store.clone() {
            let member = Arc::clone(member);
            let write = move || store.write(&member.name, &member.config(), None);
            self.keepers.spawn(async move {
                let _ = tokio::task::spawn_blocking(write).await;
            });
        }
    }

    /// Checks whether somebody has approved something.
    pub(crate) fn heed_approvals(&self) {
        self.review_again(|(name, review)| {
            review.trouble.is_some() || self.approvals.stamp(name) != review.stamp
        });
    }

    /// Compares servers again with what was first seen of them, where `is_due` says so.
    pub(crate) fn review_again(&self, is_due: impl Fn((&str, &Review)) -> bool) {
        let mut has_changed = false;
        for member in self.members().iter().filter(|member| !member.is_mounted) {
            let known = self.known(&member.name);
            if known.is_some_and(|known| is_due((&member.name, &known.review))) {
                self.review_one(&member.name, self.is_pinned(member));
                has_changed = true;
            }
        }
        if has_changed {
            self.look_again();
        }
    }

    /// Compares one server. The catalogue is not locked meanwhile: files are read, another process may hold the lock, and
    /// all callers need the catalogue.
    fn review_one(&self, server: &str, is_pinned: bool) {
        while let Some(known) = self.known(server) {
            let review = Review::of(&self.approvals, server, &known.listing, is_pinned);
            let mut catalog = self.catalog();
            let held = catalog.known.get_mut(server);
            if let Some(held) = held.filter(|held| Arc::ptr_eq(held, &known)) {
                let listing = Arc::clone(&known.listing);
                *held = Arc::new(Known { listing, review });
                return;
            }
            // The server was listed again meanwhile.
        }
    }

    /// Approves the current listing of a server.
    pub(crate) fn approve(
        &self,
        server: &str,
        tools: Option<&[String]>,
    ) -> io::Result<Vec<Change>> {
        let Some(known) = self.known(server) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("nothing is known of server `{server}`"),
            ));
        };
        let approved = self.approvals.approve_as(server, &known.listing, tools)?;
        // The approved definitions are known now, whether the server is pinned or not.
        self.review_one(server, true);
        self.look_again();
        Ok(approved)
    }

    /// Returns how a server differs from what was first seen of it.
    pub(crate) fn changes_of(&self, member: &Arc<Member>) -> Vec<ToolChange> {
        let is_pinned = self.is_pinned(member);
        let catalog = self.catalog();
        let changes = catalog
            .known
            .get(&member.name)
            .map(|known| &known.review.changes);
        let changes = changes.into_iter().flatten().cloned();
        let held = changes.map(|change| ToolChange {
            held: is_pinned,
            ..change
        });
        held.collect()
    }
}
