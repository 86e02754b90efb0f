//! The start of a command on a host: the script that starts it, and the record about it. Also `shell_bg`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::{Cx, ToolError, ToolResult};
use lmcp_tools::{
    Answer,
    elsewhere::{Command, new_id, quiet, shell_bg, started},
};
use serde::{Deserialize, Serialize};

use super::{
    Far,
    copies::{Copies, brought},
    facts::{Facts, PUSH},
    link::Call,
    pool::Lease,
    quote::{line, word},
};
use crate::limits::{DAYS_KEPT, GRACE, JOBS_KEPT};

/// The record about a job, beside the facts that its shell knows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) owner: String,
    pub(super) command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// Whether a call that waits for the job started it.
    pub(super) is_call: bool,
    /// The time limit in seconds, as `sleep` takes them; 0 means no limit.
    pub(super) limit: String,
}

impl About {
    pub(super) fn of(command: &Command, is_call: bool, cx: &Cx) -> Self {
        Self {
            owner: cx.caller().owner().into_owned(),
            command: command.shown(),
            session: cx.session_name(),
            is_call,
            limit: command
                .timeout
                // Every `sleep` takes whole seconds, and some do not take fractions.
                .map_or(0, |limit| {
                    limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
                })
                .to_string(),
        }
    }

    pub(super) fn json(&self) -> ToolResult<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }
}

pub(super) async fn shell_bg(
    far: Arc<Far>,
    args: shell_bg::Args,
    cx: Cx,
) -> ToolResult<Answer<shell_bg::Started>> {
    let command = Command::of_background(args)?;
    let mut lease = far.pool.lease(&cx).await?;
    let folder = prepare(&mut lease, &command, &cx).await?;
    let id = new_id();
    let run = script(&id, &command, folder.as_deref(), &lease.facts());
    let about = About::of(&command, false, &cx);
    let pid = start(&mut lease, &id, "far_start", &about, Some(run.as_bytes())).await?;
    let prune = format!("far_prune {JOBS_KEPT} {DAYS_KEPT} >/dev/null 2>&1 </dev/null &\n");
    lease.link.tell(&prune).await?;
    lease.done();
    Ok(started(&id, pid, None))
}

/// Starts a job, and returns the number of its first process. For `far_again`, the first word is the old job.
pub(super) async fn start(
    lease: &mut Lease<'_>,
    id: &str,
    function: &str,
    about: &About,
    run: Option<&[u8]>,
) -> ToolResult<i32> {
    let json = about.json()?;
    let mut taken = vec![("about", json.as_slice())];
    taken.extend(run.map(|run| ("run", run)));
    let grace = GRACE.as_secs().to_string();
    let mut words: Vec<&str> = function.split(' ').skip(1).collect();
    words.push(id);
    if run.is_some() {
        words.push("job");
    }
    words.extend([about.limit.as_str(), grace.as_str()]);
    let answer = lease
        .call(&Call {
            taken,
            function: function.split(' ').next().unwrap_or_default(),
            words,
            ..Call::default()
        })
        .await?;
    let pid = answer.part("pid").and_then(|part| part.number(1));
    pid.ok_or_else(|| ToolError::new("the command could not be started"))
}

/// Checks that a command can be run as requested. Returns its folder.
///
/// # Errors
/// The command cannot be run; the error has a hint.
pub(super) async fn prepare(
    lease: &mut Lease<'_>,
    command: &Command,
    cx: &Cx,
) -> ToolResult<Option<PathBuf>> {
    let facts = lease.facts();
    facts.expect_commands()?;
    let refused = |what: &str| Err(ToolError::new(format!("{what} over a shell")).hint(PUSH));
    if command.tty {
        return refused("there are no terminals");
    }
    if command.log.is_some() {
        return Err(ToolError::new("there is no `log` over a shell")
            .hint("let the command write it: `COMMAND 2>&1 | tee -a FILE`"));
    }
    if command.end_with_session {
        return refused("no job ends with its session");
    }
    let Some(cwd) = &command.cwd else {
        return Ok(None);
    };
    let mut copies = Copies::new(&facts)?;
    let path = copies.mirror.path_there(cwd, cx).await?;
    let answer = lease
        .call(&Call {
            function: "far_fetch",
            words: vec!["0", path.to_str().unwrap_or_default()],
            ..Call::default()
        })
        .await?;
    for found in brought(&answer) {
        copies.put(&path, "work in", &found)?;
    }
    copies.mirror.expect_folder(cwd, cx).await?;
    Ok(Some(path))
}

/// Returns the script that starts a command. Its first line names the job that the processes belong to.
pub(super) fn script(id: &str, command: &Command, folder: Option<&Path>, facts: &Facts) -> String {
    let mut text =
        format!("export LMCP_SCRIPT_JOB={id}\nunset LMCP_SCRIPT_GUARD LMCP_SCRIPT_LINK\n");
    text.push_str("if [ -z \"${LANG:-}${LC_ALL:-}\" ]; then export LANG=C.UTF-8; fi\n");
    let folder = folder.unwrap_or(&facts.start);
    let folder = word(folder.to_str().unwrap_or_default());
    text.push_str(&format!("cd {folder} || exit 126\n"));
    // People often write lines that need bash without knowing it.
    let shell = if facts.has_bash { "bash" } else { "sh" };
    let words = match &command.line {
        Some(line) if line.len() > LONGEST_ARGUMENT => {
            text.push_str(&as_file(id, line));
            vec![shell, "-c", "eval \"$(command -p cat <&4)\" 4<&-"]
        }
        Some(line) => vec![shell, "-c", line],
        None => command.words.iter().map(String::as_str).collect(),
    };
    if command.line.is_none() {
        let program = word(words.first().copied().unwrap_or_default());
        // The record says that nothing has run.
        let tell = "{ : >\"${0%/run}/not_run\"; exit 127; }";
        text.push_str(&format!("command -v {program} >/dev/null || {tell}\n"));
    }
    let variables = quiet().map(|(name, value)| format!("{name}={value}"));
    let added = command
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let variables: Vec<_> = variables.chain(added).collect();
    let all = ["env"]
        .into_iter()
        .chain(variables.iter().map(String::as_str));
    text.push_str(&line("exec", all.chain(words)));
    text
}

/// Opens descriptor 4, from which a shell reads a line that is too long for an argument.
fn as_file(id: &str, line: &str) -> String {
    // `$(…)` drops line ends at the end, and the meaning of a line may depend on them. This comment keeps them.
    let last = if line.ends_with('\n') { "#" } else { "" };
    // The identifier was drawn by lot, so the line does not contain this one.
    format!("exec 4<<'end-{id}'\n{line}{last}\nend-{id}\n")
}

/// The kernel accepts arguments of up to 128 KiB.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
