//! What is the same for every call: arguments that are for the fleet itself, hosts to choose from, whether a host may do it,
//! and a line in the log.

use std::sync::Arc;

use lmcp_wire::Tool;
use serde_json::{Value, value::RawValue};
use tokio::{task::spawn_blocking, time::Instant};

use crate::{
    failed::Failed,
    host::{Answered, Host},
    limits::{OWN_ARGUMENT_BYTES, SMALL_FLEET},
    path::Kind,
    select::Choice,
    tools,
};

/// An argument that is for the fleet itself.
///
/// # Errors
/// It is too long to be one.
pub(crate) fn own_argument(name: &str, raw: Option<&RawValue>) -> Result<Value, String> {
    match raw {
        Some(raw) if raw.get().len() > OWN_ARGUMENT_BYTES => {
            Err(format!("`{name}` has at most {OWN_ARGUMENT_BYTES} bytes"))
        }
        Some(raw) => Ok(serde_json::from_str(raw.get()).unwrap_or_default()),
        None => Ok(Value::Null),
    }
}

/// Does work on the names or states of so many hosts: beside the thread that all callers share, unless there are few.
pub(crate) async fn beside<T: Send + 'static>(
    hosts: usize,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match hosts <= SMALL_FLEET {
        true => work(),
        false => {
            let done = spawn_blocking(work).await;
            done.unwrap_or_else(|_| Err("the hosts cannot be looked through".to_owned()))
        }
    }
}

/// A number, or a text that is one.
pub(crate) fn number(
    value: &Value,
    name: &str,
    least: f64,
    most: f64,
) -> Result<Option<f64>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let number = number.filter(|number| (least..=most).contains(number));
    let words = || format!("`{name}` is a number from {least} to {most}");
    number.map(Some).ok_or_else(words)
}

/// Refuses to change anything where nothing may be changed, whatever way leads there.
pub(crate) fn allowed(host: &Host, local: &Tool) -> Result<(), Failed> {
    match host.config.read_only && !tools::is_read_only(local) {
        true => Err(Failed {
            words: format!(
                "the host is read-only, and `{}` may change something",
                local.name
            ),
            began: Some(false),
            is_retriable: false,
        }),
        false => Ok(()),
    }
}

/// One line in the log for each host and call.
pub(crate) fn audit(tool: &str, host: &str, answered: &Answered, began: Instant, caller: &str) {
    let how = match &answered.result {
        Ok(outcome) => outcome.to_string(),
        Err(failed) => format!("{:?}", failed.words),
    };
    audit_line(tool, (host, answered.path), &how, began, caller);
}

/// The same of a call that came to its end in another way.
pub(crate) fn audit_line(
    tool: &str,
    (host, path): (&str, Option<Kind>),
    how: &str,
    began: Instant,
    caller: &str,
) {
    let milliseconds = began.elapsed().as_millis();
    let path = path.map_or("no way", |path| path.word());
    tracing::info!("{tool} on {host} via {path}: {how} ({milliseconds} ms, {caller})");
}

pub(crate) fn choices(hosts: &[Arc<Host>]) -> Vec<Choice<'_>> {
    hosts.iter().map(|host| choice(host)).collect()
}

/// A host, for whoever chooses among hosts.
pub(crate) fn choice(host: &Host) -> Choice<'_> {
    Choice {
        name: &host.name,
        groups: &host.config.groups,
        is_disabled: host.config.disabled,
        is_hub: host.config.hub,
    }
}
