//! `remote_copy`: a file or folder from one host to others, through the hub and never whole in its memory.
//!
//! Each end is a tool of the host that is in no list (`copy_out`, `copy_in` of `lmcp-tools`). The tool obeys the roots of
//! its server, exists wherever `read_file` and `write_file` exist, and is done by a shell on a host without lmcp.
//!
//! | file | what lives there |
//! |---|---|
//! | `plan` | the parts of a copy, and the place where an interrupted copy goes on. No I/O |
//! | `end` | one end: a host, asked again when the way to it breaks |
//! | `carry` | carries parts from one end to the other |

mod carry;
mod end;
mod plan;
#[cfg(test)]
mod tests;

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use lmcp_core::{Outcome, Request, Reservation, Say};
use lmcp_tools::elsewhere::copy::Kind;
use lmcp_wire::{CallToolResult, Content, RpcError, Tool, members::Members};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    answer,
    call::{allowed, audit_line, choices, number, own_argument},
    failed::Failed,
    fan::{Teller, Work, spread},
    host::{Hear, Host},
    inner,
    limits::{COPY_BYTES, COPY_PARALLEL, MOST_PARALLEL, MOST_WAIT, SILENCE},
    path::Kind as Way,
    select::{Selected, select},
    summary::{self, Said, summary},
    tools::{COPY, PREFIX},
};

use carry::{Carry, Copied, Fault, Progress};
use end::{End, own};

/// Returns the tool as rights and read-only hosts see it: a tool that changes something.
pub(crate) fn tool() -> Tool {
    Tool::new(COPY.trim_start_matches(PREFIX), json!({}))
}

/// A call, after its arguments were read.
pub(crate) struct Plan {
    source: Arc<Host>,
    one: Option<Arc<Host>>,
    several: Vec<Arc<Host>>,
    wish: Wish,
    to_path: String,
    parallel: usize,
    wait: Duration,
}

/// The arguments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    host: Value,
    path: String,
    to_host: Value,
    to_path: Option<String>,
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    parents: bool,
    #[serde(default)]
    parallel: Value,
    #[serde(default)]
    host_wait: Value,
}

impl Plan {
    pub(crate) fn read(params: &str, hosts: &[Arc<Host>]) -> Result<Self, String> {
        let params = Members::read(params).unwrap_or_default();
        let wish = own_argument("arguments", params.get("arguments"))?;
        let unfit = |err| format!("the arguments of `{COPY}` do not fit: {err}");
        let mut wish: Wish = serde_json::from_value(wish).map_err(unfit)?;
        if wish.path.len() > 1 {
            wish.path = wish.path.trim_end_matches('/').to_owned();
        }
        let parallel = number(&wish.parallel, "parallel", 1.0, MOST_PARALLEL as f64)?;
        let wait = number(&wish.host_wait, "host_wait", 0.0, MOST_WAIT.as_secs_f64())?;
        let find = |name: &String| find(hosts, name);
        let choices = choices(hosts);
        let source = match select(&wish.host, &choices)? {
            Selected::One(name) => find(&name)?,
            Selected::Several(_) => {
                return Err("a copy comes from one host: name one in `host`".to_owned());
            }
        };
        let to = |words: String| words.replace("`host`", "`to_host`");
        let (one, several) = match select(&wish.to_host, &choices).map_err(to)? {
            Selected::One(name) => (Some(find(&name)?), Vec::new()),
            Selected::Several(names) => (None, names.iter().map(find).collect::<Result<_, _>>()?),
        };
        let to_path = plan::target(&wish.path, wish.to_path.as_deref())?;
        Ok(Self {
            source,
            one,
            several,
            wish,
            to_path,
            parallel: parallel.map_or(COPY_PARALLEL, |count| count as usize),
            wait: Duration::from_secs_f64(wait.unwrap_or_default()),
        })
    }
}

/// Returns the host with this name. Hosts of another hub are refused: parts of files pass through one hub, and not through
/// two.
fn find(hosts: &[Arc<Host>], name: &str) -> Result<Arc<Host>, String> {
    let outer = name.split('/').next().unwrap_or(name);
    match inner::named(hosts, outer).ok_or_else(|| format!("there is no host `{name}`"))? {
        host if host.config.hub => Err(format!(
            "`{name}` is a host of another hub, and `{COPY}` copies only between hosts of one hub: call `{COPY}` of the hub `{outer}`"
        )),
        host => Ok(Arc::clone(host)),
    }
}

/// Copies, to one host or to several.
pub(crate) async fn run(plan: Plan, request: Request, say: Say) -> Result<Outcome, RpcError> {
    let plan = Arc::new(plan);
    if let Some(target) = &plan.one {
        let done = one(&plan, target, &request, &say).await;
        return Ok(match done.result {
            Ok(result) => result.into(),
            Err(failed) => answer::refusal(&target.name, done.path, &failed).into(),
        });
    }
    let works = plan.several.iter().map(|target| -> Work {
        let (plan, target, request) = (Arc::clone(&plan), Arc::clone(target), request.clone());
        let name = Arc::clone(&target.name);
        let work = move |teller: Teller| -> Pin<Box<dyn Future<Output = summary::Part> + Send>> {
            Box::pin(async move {
                let done = one(&plan, &target, &request, &teller).await;
                let hosts = plan.several.len();
                let said = done.result.and_then(|result| Said::of(result, hosts, None));
                summary::Part {
                    host: target.name.to_string(),
                    path: done.path,
                    result: said,
                    seconds: done.seconds,
                }
            })
        };
        (name, Box::new(work))
    });
    let parts = spread(works.collect(), plan.parallel, &say).await;
    Ok(summary(parts).into())
}

/// The result of a copy to one host.
struct Done {
    path: Option<Way>,
    result: Result<CallToolResult, Failed>,
    seconds: f64,
}

/// Copies to one host.
async fn one(plan: &Plan, target: &Arc<Host>, request: &Request, teller: &impl Hear) -> Done {
    let began = Instant::now();
    let from = End::source(&plan.source, request, plan.wait);
    let to = End::target(target, request, plan.wait);
    let copied = match allowed(target, &tool()) {
        Ok(()) => carried(plan, &from, &to, request, teller).await,
        Err(failed) => Err(Fault::Target(failed)),
    };
    let caller = request.caller().owner();
    let how = |is_its: bool| match &copied {
        Err(Fault::Source(failed) | Fault::Target(failed)) if is_its => {
            format!("{:?}", failed.words)
        }
        Err(_) => "the other host failed".to_owned(),
        Ok(_) => "ok".to_owned(),
    };
    let is_source = matches!(&copied, Err(Fault::Source(_)));
    audit_line(
        COPY,
        (from.name(), from.via()),
        &how(is_source),
        began,
        &caller,
    );
    audit_line(
        COPY,
        (to.name(), to.via()),
        &how(!is_source),
        began,
        &caller,
    );
    Done {
        path: to.via(),
        result: match copied {
            Ok(copied) => Ok(told(&copied, plan, &from, &to, began)),
            Err(Fault::Target(failed)) => Err(failed),
            Err(Fault::Source(failed)) => Err(Failed {
                words: format!("at the source, {}: {}", from.name(), failed.words),
                ..failed
            }),
        },
        seconds: began.elapsed().as_secs_f64(),
    }
}

async fn carried(
    plan: &Plan,
    from: &End,
    to: &End,
    request: &Request,
    teller: &impl Hear,
) -> Result<Copied, Fault> {
    let _memory = memory(request).await.map_err(Fault::Target)?;
    let carry = Carry {
        from,
        to,
        path: &plan.wish.path,
        to_path: &plan.to_path,
        overwrite: plan.wish.overwrite,
        parents: plan.wish.parents,
        teller,
        account: request.account(),
        progress: Mutex::new(Progress {
            done: 0,
            total: 0,
            said: Instant::now(),
        }),
    };
    let copied = carry.run().await;
    copied.map_err(|fault| match fault {
        Fault::Source(failed) => Fault::Source(resumable(failed)),
        Fault::Target(failed) => Fault::Target(resumable(failed)),
    })
}

/// Waits for memory for the parts of the copy.
async fn memory(request: &Request) -> Result<Option<Reservation>, Failed> {
    let Some(account) = request.account() else {
        return Ok(None);
    };
    let reserved = account.reserve(COPY_BYTES, SILENCE).await;
    reserved
        .map(Some)
        .map_err(|no_room| own(&RpcError::from(no_room).message))
}

/// Says in the failure that the copy can go on. A broken way leaves no doubt, because no file has its name before it is
/// complete.
fn resumable(failed: Failed) -> Failed {
    match failed.began {
        Some(true) => Failed {
            words: format!(
                "{}; what has arrived is kept under a name of its own, and the same call goes on from there",
                failed.words
            ),
            began: None,
            is_retriable: true,
        },
        Some(false) | None => failed,
    }
}

fn told(copied: &Copied, plan: &Plan, from: &End, to: &End, began: Instant) -> CallToolResult {
    let what = match copied.kind {
        Kind::Folder => format!(
            "{} files, {} folders, {} links, ",
            copied.files, copied.folders, copied.links
        ),
        _ => String::new(),
    };
    let resumed = match copied.resumed {
        0 => String::new(),
        bytes => format!(", {bytes} of them by an earlier call"),
    };
    let hash = copied.sha256.as_ref();
    let hash = hash.map_or_else(String::new, |hash| format!(", sha256 {hash}"));
    let seconds = began.elapsed().as_secs_f64();
    let source = answer::shown(from.name(), from.via());
    let target = answer::shown(to.name(), to.via());
    let text = format!(
        "copied `{}` ({source}) to `{}` ({target}): {what}{} bytes{resumed}{hash}, {seconds:.1} s",
        plan.wish.path, copied.path, copied.bytes
    );
    let mut result = CallToolResult::new(vec![Content::text(text)]);
    let word = |end: &End| end.via().map(|path| path.word());
    let mut value = json!({
        "host": from.name(), "via": word(from), "path": plan.wish.path,
        "to_host": to.name(), "to_via": word(to), "to_path": copied.path,
        "kind": copied.kind, "files": copied.files, "folders": copied.folders, "links": copied.links,
        "bytes": copied.bytes, "resumed_bytes": copied.resumed,
        "duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    if let Some(hash) = &copied.sha256 {
        value["sha256"] = hash.as_str().into();
    }
    result.structured_content = Some(value);
    result
}
