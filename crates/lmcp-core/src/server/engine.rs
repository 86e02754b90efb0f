//! The running server behind every [`Handle`](super::Handle) and [`Cx`](crate::Cx).

use std::sync::{Arc, PoisonError, RwLock};

use lmcp_wire::discover::CacheHint;

use super::{
    catalog::{Catalog, ChangedFor, Lists, Views},
    forms::Forms,
    visibility::{Rule, Visibility},
};
use crate::{
    budget::{Account, Budget},
    caller::Caller,
    error::Error,
    layer::Layer,
    limits::Limits,
    premises::Premises,
    present::Presentations,
    request::Request,
    seal::Sealer,
    spawn::Tasks,
    state::States,
    steps::Steps,
    subscribe::Listeners,
    task::TaskStore,
};

/// A function that returns the instructions for a caller's model.
pub(crate) type Instructions = Box<dyn Fn(&Caller) -> String + Send + Sync>;

pub(crate) struct Engine {
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// `serverInfo` as JSON, because every result contains it.
    pub(crate) server_info: Arc<str>,
    pub(crate) instructions: Option<Instructions>,
    pub(crate) list_cache: CacheHint,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) visibility: Option<Rule>,
    pub(crate) presentations: Presentations,
    /// The functions that shape prepared lists and results for each revision.
    pub(crate) forms: &'static Forms,
    /// The surroundings that transports serve it with.
    pub(crate) premises: Arc<Premises>,
    pub(crate) state: States,
    pub(crate) sealer: Sealer,
    pub(crate) listeners: Listeners,
    pub(crate) tasks: TaskStore,
    /// Tasks of the runtime that handlers left running: shielded steps and MCP tasks.
    pub(crate) spawned: Tasks,
    /// Places on threads for steps of handlers that block.
    pub(crate) steps: Steps,
}

impl Engine {
    /// Returns the present offers.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns which offers the caller of a request sees.
    pub(crate) fn visibility<'a>(&'a self, request: &'a Request) -> Visibility<'a> {
        Visibility::new(request.caller(), self.visibility.as_ref())
    }

    /// Returns the memory that the caller of a request occupies. It is counted at the endpoint that the request came to; if
    /// this server stands behind another service, that is the endpoint of the other.
    pub(crate) fn account(&self, request: &Request) -> Account {
        let account = request.account();
        account.unwrap_or_else(|| self.budget.account(&request.caller().payer()))
    }

    /// Returns the numbers for the items that the caller of a request sees and not everybody sees.
    pub(crate) fn views(&self, request: &Request) -> Views {
        self.catalog().views(self.visibility(request))
    }

    /// Publishes a changed catalog, and tells the clients that listen. On an error nothing has changed.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Catalog) -> Result<Lists, Error>,
    ) -> Result<(), Error> {
        let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Catalog::clone(&current);
        let mut changed = change(&mut next)?;
        // The program's own rule may hide any tool.
        if self.visibility.is_some() {
            changed.tools = changed.tools.min(ChangedFor::Few);
        }
        next.mark(changed);
        *current = Arc::new(next);
        drop(current);
        self.listeners.lists_changed(changed);
        Ok(())
    }

    /// Ends subscriptions and tasks. Requests in flight and shielded steps go on.
    pub(crate) fn close(&self) {
        self.listeners.close();
        self.tasks.clear();
    }
}
