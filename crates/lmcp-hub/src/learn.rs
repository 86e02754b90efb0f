//! What a server says that it offers, on its way into the catalogue: kept on disk, and compared with what was first seen of it.

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
    /// Keeps what a server offers for the next run, and compares it with what was first seen. It comes before anybody is told, so
    /// that all that a client saw is kept.
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
                    // Whatever cannot be kept is asked for again.
                    let _ = store.write(&member.name, &member.config(), Some(&listing));
                }
                Review::of(&approvals, &member.name, &listing, is_pinned)
            };
            // A disk that hangs holds up nobody.
            match timeout(KEEP_WAIT, tokio::task::spawn_blocking(work)).await {
                Ok(Ok(review)) => review,
                Ok(Err(_)) | Err(_) => Review::failed(&io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// A server has said what it offers.
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

    /// It is known what a server offers, or that it cannot be asked: nobody waits for it from now on, nor after the next start.
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

    /// Looks whether somebody has approved of something.
    pub(crate) fn heed_approvals(&self) {
        self.review_again(|(name, review)| {
            review.trouble.is_some() || self.approvals.stamp(name) != review.stamp
        });
    }

    /// Compares servers with what was first seen of them once more, where that is due.
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

    /// Compares one server. The catalogue is not held meanwhile: files are read, others may be waited for, and all callers look at
    /// the catalogue.
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
            // It has listed something else meanwhile.
        }
    }

    /// Approves of a server as it is listed now.
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
        // What was approved is known now, whether the server is pinned or not.
        self.review_one(server, true);
        self.look_again();
        Ok(approved)
    }

    /// How a server differs from what was first seen of it.
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
