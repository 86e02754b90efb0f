//! Middleware: functions around every request, to log, to limit, to authorise.

use std::sync::Arc;

use crate::{request::Request, server::Engine, service::Replies};

/// A function around every request: it answers itself, or hands the request on with [`Next::call`].
pub(crate) type Layer = Arc<dyn Fn(Request, Next<'_>) -> Replies + Send + Sync>;

/// What is behind a layer.
pub struct Next<'a> {
    layers: &'a [Layer],
    engine: &'a Arc<Engine>,
}

impl<'a> Next<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>) -> Self {
        Self {
            layers: &engine.layers,
            engine,
        }
    }

    /// Hands the request on.
    pub fn call(self, request: Request) -> Replies {
        match self.layers.split_first() {
            Some((layer, layers)) => layer(request, Next { layers, ..self }),
            None => self.engine.dispatch(request),
        }
    }
}

impl std::fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Next")
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}
