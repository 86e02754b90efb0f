//! What all requests of one server share, and the services that its paths lead to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Request, Response, StatusCode};
use lmcp_core::{Endpoint, Limits, Service};
use lmcp_wire::RpcError;

use crate::{
    answer::{Body, refuse},
    carried::Carry,
    headers::Guard,
    legacy_sse::streams::LegacySse,
    session::Sessions,
    upgrade::Upgrade,
    who::Who,
};

/// Who may call, and where.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) guard: Guard,
    pub(crate) who: Who,
    /// What handlers find among the extensions of a request.
    pub(crate) carries: Vec<Carry>,
    /// The only path that is answered; all of them when mounted.
    pub(crate) path: Option<String>,
    /// Services below that path.
    pub(crate) below: Option<Find>,
    /// HTTP+SSE as well.
    pub(crate) legacy_sse: bool,
    /// Where connections go on in another protocol.
    pub(crate) upgrade: Option<Upgrade>,
}

/// A service by its name, or the words that say that there is none.
pub(crate) type Find = Box<dyn Fn(&str) -> Result<Arc<dyn Service>, String> + Send + Sync>;

/// What holds for all paths.
pub(crate) struct Gate {
    pub(crate) guard: Guard,
    pub(crate) who: Who,
    pub(crate) carries: Arc<[Carry]>,
    pub(crate) path: Option<String>,
    below: Option<Find>,
    pub(crate) upgrade: Option<Upgrade>,
}

pub(crate) struct Shared {
    pub(crate) endpoint: Endpoint,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) limits: Limits,
    pub(crate) gate: Arc<Gate>,
    pub(crate) legacy_sse: Option<LegacySse>,
    /// The services below the path that were asked for so far.
    branches: Mutex<HashMap<String, Arc<Self>>>,
}

impl Shared {
    pub(crate) fn new(endpoint: Endpoint, settings: Settings) -> Self {
        let Settings {
            guard,
            who,
            carries,
            path,
            below,
            legacy_sse,
            upgrade,
        } = settings;
        Self {
            sessions: Sessions::new(&endpoint),
            legacy_sse: legacy_sse.then(|| LegacySse::new(endpoint.clone())),
            limits: endpoint.limits().clone(),
            endpoint,
            gate: Arc::new(Gate {
                guard,
                who,
                carries: carries.into(),
                path,
                below,
                upgrade,
            }),
            branches: Mutex::default(),
        }
    }

    /// Ends what would never end by itself.
    pub(crate) fn stop(&self) {
        self.sessions.close_streams();
        for branch in self.branches().values() {
            branch.sessions.close_streams();
        }
        if let Some(legacy_sse) = &self.legacy_sse {
            legacy_sse.close();
        }
    }

    /// The service below our own path that a path leads to; `None`: it is our own. An error says that there is none.
    pub(crate) fn branch(&self, path: &str) -> Result<Option<Arc<Self>>, String> {
        let name = self.gate.rest(path).unwrap_or_default();
        let Some(find) = self.gate.below.as_ref().filter(|_| !name.is_empty()) else {
            return Ok(None);
        };
        let mut branches = self.branches();
        let service = match find(name) {
            Ok(service) => service,
            Err(words) => {
                branches.remove(name);
                return Err(words);
            }
        };
        let branch = branches.entry(name.to_owned()).or_insert_with(|| {
            let endpoint = self.endpoint.beside(service);
            Arc::new(Self {
                sessions: self.sessions.beside(&endpoint, name),
                limits: self.limits.clone(),
                endpoint,
                gate: Arc::clone(&self.gate),
                legacy_sse: None,
                branches: Mutex::default(),
            })
        });
        Ok(Some(Arc::clone(branch)))
    }

    fn branches(&self) -> MutexGuard<'_, HashMap<String, Arc<Self>>> {
        self.branches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// The answer to a request under a name that is not ours, or from a page that we do not know.
    pub(crate) fn refusal<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let checked = self.guard.check(request.uri(), request.headers());
        let error = RpcError::invalid_request(checked.err()?);
        Some(refuse(StatusCode::FORBIDDEN, &error))
    }

    /// What follows our own path in this one: nothing, or the name of a service below it. `None`: it is another path.
    pub(crate) fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        let Some(ours) = &self.path else {
            return Some("");
        };
        let rest = path
            .strip_suffix('/')
            .unwrap_or(path)
            .strip_prefix(&**ours)?;
        match rest.strip_prefix('/') {
            None => rest.is_empty().then_some(""),
            Some(name) => (self.below.is_some() && !name.is_empty()).then_some(name),
        }
    }
}
