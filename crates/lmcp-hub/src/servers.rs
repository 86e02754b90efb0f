//! The servers and groups of a hub, by its configuration: makes each server, and starts the task beside it.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use lmcp_core::{Owned, OwnerKey};
use lmcp_upstream::{Health, PerClient, Upstream};

use crate::{
    config::{Isolate, ServerConfig, Servers},
    inner::{Inner, Kept},
    keep::keep,
    member::{Made, Make, Member},
    review::{Known, Review},
    scope::{Groups, Scope},
    store::Memory,
};

impl Inner {
    pub(crate) fn set_groups(&self, new: &Groups) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|name, scope| {
            let stays = new.contains_key(name);
            if !stays {
                scope.set(&[]);
                scope
                    .changes
                    .send_modify(|versions| versions.is_closed = true);
            }
            stays
        });
        for (name, servers) in new {
            match groups.get(name) {
                Some(scope) => scope.set(servers),
                None => {
                    groups.insert(name.clone(), Scope::of(servers));
                }
            }
        }
        drop(groups);
        self.have_others();
    }

    pub(crate) fn set(self: &Arc<Self>, servers: &Servers) {
        let (mut new, mut old) = (Vec::new(), Vec::new());
        let mut pins_have_changed = false;
        for member in self.members() {
            if !member.is_mounted && !servers.contains_key(&*member.name) {
                old.push(Arc::clone(&member.name));
            }
        }
        for (name, config) in servers {
            match self.member(name).filter(|member| !member.is_mounted) {
                Some(member) if member.config().runs_as(config) => {
                    pins_have_changed |= member.config().pin != config.pin;
                    member.reconfigure(config.clone());
                }
                Some(member) if member.config().reach == config.reach => new.push((name, config)),
                Some(member) => {
                    self.catalog().known.remove(&member.name);
                    new.push((name, config));
                }
                None => new.push((name, config)),
            }
        }
        for name in old {
            self.write_members().remove(&name);
            self.catalog().known.remove(&name);
        }
        for (name, config) in new {
            self.start(name, config.clone());
        }
        self.review_again(|_| pins_have_changed);
        self.have_others();
    }

    fn start(self: &Arc<Self>, name: &str, config: ServerConfig) {
        let store = self.store.as_ref();
        let memory = store.map_or(Memory::Nothing, |store| store.read(name, &config));
        let made = config.clone();
        let (key, of) = (self.owner_key(), name.to_owned());
        let make: Make = Box::new(move |health: &Arc<Health>| {
            let upstream = Upstream::builder(made.route()?).health(Arc::clone(health));
            let idle_stop = made.idle_stop;
            Ok(match made.isolate {
                Isolate::None => {
                    let upstream = upstream.build();
                    let counted = upstream.clone();
                    Made {
                        service: Arc::new(upstream.owned(&key, &of)),
                        times_opened: Arc::new(move || counted.times_opened()),
                    }
                }
                Isolate::Caller => {
                    let servers = PerClient::built_per_caller(upstream).idle_stop(idle_stop);
                    Made::once(Arc::new(servers.owned(&key, &of)))
                }
                Isolate::Session => {
                    let servers = PerClient::built(upstream).idle_stop(idle_stop);
                    Made::once(Arc::new(servers.owned(&key, &of)))
                }
            })
        });
        let member = Member::new(name, config, false, make);
        let was_tried = !matches!(memory, Memory::Nothing);
        member.is_tried.store(was_tried, Ordering::Release);
        if let Memory::Listing(listing) = memory {
            let is_pinned = self.is_pinned(&member);
            let review = Review::of(&self.approvals, name, &listing, is_pinned);
            let listing = Arc::new(listing);
            let known = Arc::new(Known { listing, review });
            self.catalog().known.insert(Arc::clone(&member.name), known);
        }
        self.add(member);
    }

    fn owner_key(&self) -> OwnerKey {
        self.key.get_or_init(OwnerKey::random).clone()
    }

    /// Lets each caller of a mounted service reach only its own tasks and states.
    pub(crate) fn owned(&self, name: &str, make: Make) -> Make {
        let (key, name) = (self.owner_key(), name.to_owned());
        Box::new(move |health| {
            let made = make(health)?;
            Ok(Made {
                service: Arc::new(Owned::new(made.service, &key, &name)),
                ..made
            })
        })
    }

    pub(crate) fn add(self: &Arc<Self>, member: Member) {
        let member = Arc::new(member);
        let keeper = match member.is_disabled() {
            true => self.keepers.spawn(async {}),
            false => {
                let hub = Arc::downgrade(self);
                self.keepers.spawn(keep(Arc::clone(&member), hub))
            }
        };
        let name = Arc::clone(&member.name);
        self.write_members().insert(name, Kept { member, keeper });
    }
}
