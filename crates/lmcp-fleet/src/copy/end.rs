//! One end of a copy: a host, asked again when the way to it breaks.
//!
//! Every step names the part that it changes, so a step can be repeated. Other calls are never repeated.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lmcp_core::{Reply, Request};
use lmcp_wire::{Content, RpcError, members::Members, meta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use tokio::time::sleep;

use crate::{
    answer,
    failed::Failed,
    host::{Hear, Host},
    limits::{COPY_BYTES, COPY_TRIES, COPY_WAIT, WAIT_PAUSE},
    path::Kind,
};

/// A host at one end of a copy.
pub(super) struct End {
    pub(super) host: Arc<Host>,
    request: Request,
    /// The tool of the host for this end, which is in no list.
    tool: &'static str,
    wait: Duration,
    /// The way on which the last step was sent.
    via: Mutex<Option<Kind>>,
    has_answered: AtomicBool,
}

/// Ignores everything that a step reports before its result.
struct Nobody;

impl Hear for Nobody {
    async fn hear(&self, _reply: Reply) {}
}

impl End {
    /// Returns the end that a copy is read from.
    pub(super) fn source(host: &Arc<Host>, request: &Request, wait: Duration) -> Self {
        Self::new(host, request, "copy_out", wait)
    }

    /// Returns the end that a copy is written to.
    pub(super) fn target(host: &Arc<Host>, request: &Request, wait: Duration) -> Self {
        Self::new(host, request, "copy_in", wait)
    }

    fn new(host: &Arc<Host>, request: &Request, tool: &'static str, wait: Duration) -> Self {
        Self {
            host: Arc::clone(host),
            request: request.clone(),
            tool,
            wait,
            via: Mutex::default(),
            has_answered: AtomicBool::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.host.name
    }

    pub(super) fn via(&self) -> Option<Kind> {
        *self.via.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the host do a step, and repeats the step when the way to the host breaks.
    pub(super) async fn ask<T: DeserializeOwned>(&self, arguments: &Value) -> Result<T, Failed> {
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = match self.ask_once(arguments).await {
                Ok(said) => return Ok(said),
                Err(failed) => failed,
            };
            let has_answered = self.has_answered.load(Ordering::Relaxed);
            let is_worth_it = failed.began.is_some() || failed.is_retriable;
            if !has_answered || !is_worth_it || tries >= COPY_TRIES {
                return Err(self.told(failed));
            }
            let name = self.name();
            tracing::debug!("a step of a copy is made again on {name}: {}", failed.words);
            // The first repeat may find another open way. After that, it takes time until a way opens.
            if tries > 1 {
                sleep(WAIT_PAUSE).await;
            }
        }
    }

    async fn ask_once<T: DeserializeOwned>(&self, arguments: &Value) -> Result<T, Failed> {
        let request = self
            .calling(arguments)
            .map_err(|error| own(&error.message))?;
        // A host that answered before is waited for.
        let wait = match self.has_answered.load(Ordering::Relaxed) {
            true => self.wait.max(COPY_WAIT),
            false => self.wait,
        };
        let answered = self.host.call(request, wait, &Nobody).await;
        if let Some(path) = answered.path {
            *self.via.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
        }
        let outcome = answered.result?;
        self.has_answered.store(true, Ordering::Relaxed);
        // A part, and a short list, fit into the memory that is reserved for the whole copy.
        let account = self.request.account();
        let account = account.filter(|_| outcome.bytes() > COPY_BYTES / 3);
        let (result, _counted) = answer::read(outcome, account.as_ref())?;
        let text = result.content.iter().find_map(Content::as_text);
        let text = text.unwrap_or_default();
        if result.is_error {
            return Err(own(text));
        }
        serde_json::from_str(text)
            .map_err(|err| own(&format!("its answer cannot be understood: {err}")))
    }

    /// Makes the request for a step: with the caller's own details, but without the ability to ask the caller.
    fn calling(&self, arguments: &Value) -> Result<Request, RpcError> {
        let whole: &RawValue = self.request.params()?;
        let whole = whole.to_owned();
        let no_object = |_| RpcError::invalid_params("`params` must be an object");
        let mut params = Members::read(whole.get()).map_err(no_object)?;
        let told = params.take("_meta");
        let told = told.as_ref().map_or("{}", |told| told.get());
        let mut told = Members::read(told).unwrap_or_default();
        if told.take(meta::CLIENT_CAPABILITIES).is_some() {
            told.set(meta::CLIENT_CAPABILITIES, &json!({}));
        }
        params.set("_meta", &told);
        params.set("name", self.tool);
        params.set("arguments", arguments);
        self.request.clone().with_params(&params)
    }

    /// Returns the failure, with words that say what is wrong with the host.
    fn told(&self, failed: Failed) -> Failed {
        let is_unknown = failed.words.contains(&format!("`{}`", self.tool));
        match failed.began.is_none() && is_unknown {
            true => own(&format!(
                "lmcp there knows no copies: it is too old, or does not offer `{}`",
                match self.tool {
                    "copy_in" => "write_file",
                    _ => "read_file",
                }
            )),
            false => failed,
        }
    }
}

/// Makes a failure that a repeated step would have, too.
pub(super) fn own(words: &str) -> Failed {
    Failed {
        words: words.to_owned(),
        began: None,
        is_retriable: false,
    }
}
