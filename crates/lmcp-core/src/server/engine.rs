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

/// What a caller's model is told of the server.
pub(crate) type Instructions = Box<dyn Fn(&Caller) -> String + Send + Sync>;

pub(crate) struct Engine {
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// `serverInfo`, as JSON: it stands in every result.
    pub(crate) server_info: Arc<str>,
    pub(crate) instructions: Option<Instructions>,
    pub(crate) list_cache: CacheHint,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) visibility: Option<Rule>,
    pub(crate) presentations: Presentations,
    /// How what is written ahead looks in each revision.
    pub(crate) forms: &'static Forms,
    /// What transports serve it with.
    pub(crate) premises: Arc<Premises>,
    pub(crate) state: States,
    pub(crate) sealer: Sealer,
    pub(crate) listeners: Listeners,
    pub(crate) tasks: TaskStore,
    /// What handlers left running: shielded steps and tasks.
    pub(crate) spawned: Tasks,
    /// Threads for steps of handlers that block.
    pub(crate) steps: Steps,
}

impl Engine {
    /// What is on offer now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the caller of a request sees.
    pub(crate) fn visibility<'a>(&'a self, request: &'a Request) -> Visibility<'a> {
        Visibility::new(request.caller(), self.visibility.as_ref())
    }

    /// The memory that the caller of a request occupies: of the endpoint that the request came to, which is another server's
    /// where this one stands behind it.
    pub(crate) fn account(&self, request: &Request) -> Account {
        let account = request.account();
        account.unwrap_or_else(|| self.budget.account(&request.caller().payer()))
    }

    /// What the caller of a request sees of that which not everybody sees.
    pub(crate) fn views(&self, request: &Request) -> Views {
        self.catalog().views(self.visibility(request))
    }

    /// Publishes a changed catalog, and tells who listens. On an error nothing has changed.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Catalog) -> Result<Lists, Error>,
    ) -> Result<(), Error> {
        let mut current = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Catalog::clone(&current);
        let mut changed = change(&mut next)?;
        // A rule of the program's own may hide any tool.
        if self.visibility.is_some() {
            changed.tools = changed.tools.min(ChangedFor::Few);
        }
        next.mark(changed);
        *current = Arc::new(next);
        drop(current);
        self.listeners.lists_changed(changed);
        Ok(())
    }

    /// Ends subscriptions and tasks. Requests in flight belong to their transports, and shielded steps to nobody.
    pub(crate) fn close(&self) {
        self.listeners.close();
        self.tasks.clear();
    }
}
