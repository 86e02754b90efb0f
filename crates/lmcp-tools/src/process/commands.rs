//! Starts commands: a caller's wish becomes an order, and an order becomes a guard with a folder of its own.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use lmcp_core::{CallerTransport, Cx, Error, ToolError, ToolResult};
use rustix::fs::OFlags;

use super::{
    attend::Guards,
    dir, environment, fence,
    follow::{Following, Follows},
    helper::Helper,
    link::Link,
    long,
    owner::Owner,
    places::{CommandPlace, Places},
    protocol::{Ask, End, Folder, Order, Size, Stdin, Word},
    reach,
    reads::Reads,
    remove::remove_tree,
    rights::Rights,
    rules::{self, Line, Request},
    store::{About, Job, Kept, Store, Whose, random_name},
};
use crate::{Host, blocking::housekeeping, settings::Settings};

/// The state about commands that outlives one call.
#[derive(Debug)]
pub(crate) struct Commands {
    helper: Helper,
    pub(crate) store: Arc<Store>,
    rights: Rights,
    /// Places for commands that a caller waits for.
    places: Arc<Places>,
    /// Places for jobs that are just being started. Running jobs are counted from their records, because they outlive the
    /// server.
    job_places: Arc<Places>,
    /// Lets one job after the other be counted and started, so that no count misses one.
    job_turn: tokio::sync::Mutex<()>,
    /// The guards. Dropping them ends every command but the jobs.
    guards: Guards,
    follows: Follows,
    /// The position up to which each caller has read the output of each job.
    pub(crate) reads: Reads,
}

/// The command that a caller wants to run.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) command: Option<String>,
    pub(crate) argv: Option<Vec<String>>,
    pub(crate) cwd: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: Input,
    pub(crate) tty: Option<Size>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) keep: Keep,
    pub(crate) log: Option<String>,
}

/// The fate of a command that no caller waits for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The command ends.
    No,
    /// The command is a job, and goes on.
    Job,
    /// The command is a job, and ends with the conversation in which it was started.
    SessionJob,
}

/// The standard input of a command.
#[derive(Debug)]
pub(crate) enum Input {
    Closed,
    /// This text, then the end of the input.
    Text(String),
    /// Text that callers send later.
    Open,
}

/// A running command. Dropping it ends the command, and the guard removes the command's folder.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    pub(crate) id: String,
    pub(crate) pid: i32,
    pub(crate) link: Link,
    pub(crate) about: About,
    /// The order with which the command was started. Its environment holds only the variables that the caller added.
    pub(crate) order: Order,
    /// Freed when the command has ended; for a job, once the job is recorded as running.
    _place: CommandPlace,
}

/// The folder of a command that has no guard yet. Dropping this removes the folder, unless the command got a guard.
#[derive(Debug)]
struct RecordDir(Option<PathBuf>);

impl Commands {
    pub(crate) fn new(
        helper: Helper,
        settings: &Settings,
        roots: &[PathBuf],
        rights: Rights,
    ) -> Result<Self, Error> {
        if !roots.is_empty() && !fence::is_supported() {
            return Err(Error::config(
                "this kernel cannot confine commands to the roots (it has no Landlock, or an old one)",
            ));
        }
        let shell = settings.shell.as_deref().map(Path::new);
        if let Some(path) = shell.filter(|path| path.is_absolute() && !path.exists()) {
            let words = format!("the shell {} is not there", path.display());
            return Err(Error::config(words));
        }
        let kept = Kept {
            jobs: settings.jobs_kept,
            bytes: settings.job_bytes_kept,
            age: settings.jobs_kept_for,
        };
        let store = Store::open(settings.state_dir.as_deref(), kept, rights.clone())?;
        let named = roots.iter().chain(&settings.also_read);
        let system = fence::system().map(Path::to_owned);
        let mut readable = named.cloned().chain(system);
        // Without roots commands read everything anyway.
        let readable = readable.find(|it| !roots.is_empty() && store.is_below(it));
        if let Some(folder) = readable {
            return Err(Error::config(format!(
                "jobs cannot be kept below {}: commands could see or change how they are guarded",
                folder.display()
            )));
        }
        let guards = Guards::new(settings.adopt_orphans)
            .map_err(|err| Error::io("cannot adopt orphans of guards", err))?;
        Ok(Self {
            helper,
            store: Arc::new(store),
            rights,
            places: Places::new("commands", settings.commands_at_once),
            job_places: Places::new("jobs", settings.jobs_at_once),
            job_turn: tokio::sync::Mutex::default(),
            guards,
            follows: Follows::default(),
            reads: Reads::default(),
        })
    }

    /// Starts a command, once the rules let it through.
    pub(crate) async fn start(
        &self,
        host: &Host,
        mut wanted: Wanted,
        cx: &Cx,
    ) -> ToolResult<RunningCommand> {
        let is_line = wanted.command.is_some();
        let argv = words(host, &mut wanted)?;
        long::check(&argv, is_line, &wanted.env)?;
        let line = match argv.last() {
            Some(line) if is_line => Line::Shell(line),
            _ => Line::Words(&argv),
        };
        let request = Request {
            line,
            env: &wanted.env,
            stdin: match &wanted.stdin {
                Input::Text(text) => Some(text),
                Input::Closed | Input::Open => None,
            },
        };
        rules::admit(&host.settings.rules, &request, cx).await?;
        if wanted.keep == Keep::SessionJob && cx.caller().transport() == CallerTransport::Http {
            let words = "over HTTP nobody can tell when a session ends";
            return Err(
                ToolError::new(words).hint("leave out `end_with_session`, and use job_stop")
            );
        }
        let place = if wanted.keep != Keep::No {
            self.job_place(cx).await?
        } else {
            self.places.take(cx)?
        };
        let cwd = working_dir(host, wanted.cwd.as_deref(), cx).await?;
        let (log, log_path) = match &wanted.log {
            Some(path) => open_log(host, path, cx)
                .await
                .map(|(file, path)| (Some(file), Some(path)))?,
            None => (None, None),
        };
        let created = if wanted.keep != Keep::No {
            self.store.create()
        } else {
            self.store.create_if_there_is_room()
        };
        let (id, dir) = created.map_err(no_record)?;
        let folder = RecordDir(Some(dir.clone()));
        let (stdin, input) = match wanted.stdin {
            Input::Closed => (Stdin::Closed, None),
            Input::Text(text) => (Stdin::Given, Some(text)),
            Input::Open => (Stdin::Open, None),
        };
        let order = Order {
            dir,
            argv,
            is_line,
            line_follows: None,
            env: wanted.env,
            session: tool_chain(host, cx),
            umask: cx.caller().umask(),
            cwd,
            stdin,
            tty: wanted.tty,
            timeout_ms: wanted.timeout_ms,
            grace_ms: host.settings.grace_ms,
            keep: wanted.keep != Keep::No,
            passing: self.is_passing(cx) || wanted.keep == Keep::SessionJob,
            with_session: wanted.keep == Keep::SessionJob,
            spool_bytes: host.settings.output_bytes_kept,
            rights: Rights::default(),
            program_mode: None,
            fence: None,
            key: random_name(),
            log: log.is_some(),
        };
        let _copies = match long::copied_bytes(&order) {
            0 => None,
            bytes => Some(cx.reserve(bytes).await?),
        };
        let about = self.about(cx, log_path, &order);
        let owner = Owner::of(cx.caller());
        self.run(id, (about, owner), order, (log, input), (folder, place))
            .await
    }

    /// Takes a place for a job of this caller. The caller holds it until the job is recorded as running.
    pub(crate) async fn job_place(&self, cx: &Cx) -> ToolResult<CommandPlace> {
        let store = Arc::clone(&self.store);
        // The call does not wait for this: the removed records may be large.
        drop(tokio::task::spawn_blocking(move || store.prune()));
        let store = Arc::clone(&self.store);
        let _turn = self.job_turn.lock().await;
        let mut all = self.job_places.taken();
        let running = housekeeping(move || Ok(store.running()));
        for (owner, count) in running.await? {
            *all.entry(owner).or_default() += count;
        }
        self.job_places.take_beside(cx, &all)
    }

    /// Runs the command of a job once more, as a new job, with the rights of this server. The rights of the old job are no
    /// wider, or this server would not have found that job.
    pub(crate) async fn start_again(
        &self,
        host: &Host,
        log: Option<&Path>,
        mut order: Order,
        cx: &Cx,
    ) -> ToolResult<RunningCommand> {
        let line = match order.argv.last() {
            Some(line) if order.is_line => Line::Shell(line),
            _ => Line::Words(&order.argv),
        };
        let request = Request {
            line,
            env: &order.env,
            stdin: None,
        };
        rules::admit(&host.settings.rules, &request, cx).await?;
        let place = self.job_place(cx).await?;
        let (log, log_path) = match log {
            Some(path) => {
                let (file, path) = open_log(host, &path.to_string_lossy(), cx).await?;
                (Some(file), Some(path))
            }
            None => (None, None),
        };
        let (id, dir) = self.store.create().map_err(no_record)?;
        let folder = RecordDir(Some(dir.clone()));
        order.dir = dir;
        order.session = order.session.filter(|_| host.settings.rules.is_empty());
        order.keep = true;
        order.passing = self.is_passing(cx) || order.with_session;
        order.key = random_name();
        let about = self.about(cx, log_path, &order);
        let owner = Owner::of(cx.caller());
        self.run(id, (about, owner), order, (log, None), (folder, place))
            .await
    }

    /// Returns the record of a command: it belongs to the caller, and has the rights of this server.
    fn about(&self, cx: &Cx, log: Option<PathBuf>, order: &Order) -> About {
        About::new(Whose::of(cx), self.rights.clone(), log, order)
    }

    /// Starts a guard. `log` is the file that the guard writes to, `input` the text that it gives to the command.
    async fn run(
        &self,
        id: String,
        (about, owner): (About, Owner),
        mut order: Order,
        (log, input): (Option<File>, Option<String>),
        (mut folder, place): (RecordDir, CommandPlace),
    ) -> ToolResult<RunningCommand> {
        if order.keep {
            about.write(&order).map_err(no_record)?;
        }
        let line = order.take_long_line();
        let complete = self.complete(&order).map_err(no_record)?;
        let told = (&complete, line.as_deref());
        let mut link = Link::start(&self.guards, &self.helper, told, owner, (log, input))
            .await
            .map_err(|err| ToolError::new("the server cannot start commands").source(err))?;
        if let Some(line) = line {
            order.put_line(line);
        }
        let pid = match link.next().await {
            Some(Word::Started { pid }) => pid,
            Some(Word::Failed { error }) => {
                return Err(ToolError::new(format!(
                    "cannot run `{}`: {error}",
                    about.command
                )));
            }
            _ => return Err(ToolError::new("the guard of the command is gone")),
        };
        folder.0 = None;
        Ok(RunningCommand {
            id,
            pid,
            link,
            about,
            order,
            _place: place,
        })
    }

    /// Returns a hint for a command that ended with this code and this output, if the fence may have kept something from
    /// it.
    pub(crate) fn hint(
        &self,
        order: Option<&Order>,
        exit_code: Option<i32>,
        output: &str,
    ) -> Option<String> {
        let fence = self.rights.fence()?;
        let session = order.and_then(|order| order.session.as_ref());
        let added = order.map(|order| order.env.clone()).unwrap_or_default();
        let env = environment::of(session, &added, false);
        let path = env.get("PATH").map_or("", String::as_str);
        reach::hint(fence, exit_code, output, path)
    }

    /// Returns whether the job cannot be found again later. A caller that is known in person does not come back as the
    /// same caller.
    fn is_passing(&self, cx: &Cx) -> bool {
        self.store.is_passing() || cx.caller().identity().is_some()
    }

    /// Completes the order with the parts that are the same for every command and are not recorded: the environment, the
    /// fence.
    fn complete(&self, order: &Order) -> io::Result<Order> {
        let mut order = order.clone();
        order.rights = self.rights.clone();
        order.program_mode = self.helper.starts().mode();
        let session = order.session.take();
        order.env = environment::of(session.as_ref(), &order.env, order.tty.is_some());
        if let Some(fence) = self.rights.fence() {
            let mut fence = fence.clone();
            if let Some(scratch) = scratch(&order.dir)? {
                let path = scratch.path.to_string_lossy().into_owned();
                order.env.insert("TMPDIR".into(), path);
                fence.scratch = Some(scratch);
            }
            if rustix::process::geteuid().is_root() {
                // Run by root, tar restores owners, which no process can do inside a fence.
                let options = order.env.entry("TAR_OPTIONS".into());
                options.or_insert_with(|| "--no-same-owner".into());
            }
            order.fence = Some(fence);
        }
        Ok(order)
    }

    /// Lets a job go on although no caller waits for it. A job that cannot be found again (`passing`) is still held: until
    /// its caller or the server is gone, or until the conversation ends if the job is to end with it.
    pub(crate) fn let_go(&self, job: RunningCommand, cx: &Cx) {
        if job.order.passing {
            let (gone, hung_up) = (cx.caller().gone(), cx.caller().hung_up());
            let (mut link, with_session) = (job.link, job.order.with_session);
            self.guards.hold(async move {
                tokio::select! {
                    () = async { while link.next().await.is_some() {} } => {}
                    () = gone => {}
                    () = hung_up, if with_session => {}
                }
            });
        } else {
            job.link.let_go();
        }
    }

    /// Keeps the link until everything that a command left behind is gone. If the server ends first, the rest is ended,
    /// too.
    fn look_after(&self, mut link: Link) {
        self.guards
            .hold(async move { while link.next().await.is_some() {} });
    }

    /// Follows a running job. All followers share one connection to its guard.
    pub(crate) fn follow(&self, job: &Job) -> Following {
        let (following, work) = self.follows.follow(job);
        if let Some(work) = work {
            self.guards.hold(work);
        }
        following
    }
}

impl RunningCommand {
    pub(crate) fn dir(&self) -> &Path {
        &self.order.dir
    }

    /// Makes the command a job: it goes on without the server, and is listed.
    pub(crate) async fn keep(&mut self) -> ToolResult<()> {
        self.about.write(&self.order).map_err(no_record)?;
        let kept = self.link.ask(&Ask::Keep).await;
        kept.map_err(|err| ToolError::new("the command cannot be kept").source(err))
    }

    /// Records a command that has ended, so that its output can still be read.
    pub(crate) fn keep_record(&mut self, end: &End) -> io::Result<()> {
        self.about.is_answered = true;
        self.about.write(&self.order)?;
        dir::write_whole(self.dir(), dir::END, &serde_json::to_vec(end)?)?;
        dir::write_whole(self.dir(), dir::KEPT, self.pid.to_string().as_bytes())
    }

    /// Lists a command that has ended and left processes behind, so that they can be stopped. Returns the command if all
    /// of them are gone by now.
    pub(crate) async fn list_rest(mut self, commands: &Commands) -> Option<Self> {
        self.about.is_answered = true;
        let written = self.about.write(&self.order).is_ok();
        if !written || self.link.ask(&Ask::Open).await.is_err() {
            return Some(self);
        }
        commands.look_after(self.link);
        None
    }
}

impl Drop for RecordDir {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            // No command has put anything there yet.
            let _ = remove_tree(dir);
        }
    }
}

/// Makes a folder for the scratch files of a confined command. Returns `None` if the disk is full.
fn scratch(dir: &Path) -> io::Result<Option<Folder>> {
    let scratch = dir.join(dir::SCRATCH);
    match dir::create_private(&scratch) {
        Err(err) if dir::is_full(&err) => Ok(None),
        made => made.and_then(|()| dir::insist(&scratch, || Folder::at(&scratch)).map(Some)),
    }
}

/// Returns the words to run.
fn words(host: &Host, wanted: &mut Wanted) -> ToolResult<Vec<String>> {
    words_for(host.shell_path(), wanted.command.take(), wanted.argv.take())
}

/// Returns the words that run a line in this shell, or the given words.
///
/// # Errors
/// Both or none of the two are given, or the given one is empty.
pub(crate) fn words_for(
    shell: String,
    command: Option<String>,
    argv: Option<Vec<String>>,
) -> ToolResult<Vec<String>> {
    let refused = |words: &'static str| Err(ToolError::new(words));
    Ok(match (command, argv) {
        (Some(_), Some(_)) => return refused("give `command` or `argv`, not both"),
        (None, None) => {
            return refused(
                "give `command`, a line for a shell, or `argv`, a program and its arguments",
            );
        }
        (Some(line), None) if line.trim().is_empty() => return refused("`command` is empty"),
        (None, Some(words)) if words.first().is_none_or(String::is_empty) => {
            return refused("`argv` is empty");
        }
        (Some(line), None) => {
            vec![shell, "-c".into(), line]
        }
        (None, Some(words)) => words,
    })
}

impl Host {
    /// Returns the shell that runs lines.
    pub(crate) fn shell_path(&self) -> String {
        self.settings.shell.clone().unwrap_or_else(default_shell)
    }
}

fn default_shell() -> String {
    // Most lines that people write are lines for bash.
    let bash = ["/bin/bash", "/usr/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    bash.unwrap_or("/bin/sh").to_owned()
}

async fn working_dir(host: &Host, path: Option<&str>, cx: &Cx) -> ToolResult<PathBuf> {
    let Some(path) = path else {
        return host.folder(cx).await;
    };
    let here = host.here(cx, [path]).await?;
    let place = host.roots.find(&here, path)?;
    place
        .open_dir()
        .map_err(|err| place.failed("work in", err))?;
    Ok(place.shown().to_owned())
}

/// Returns the tool chain that commands of a session find. Where rules say which programs may run, commands find the
/// server's: a `PATH` of the session could turn any program into another.
fn tool_chain(host: &Host, cx: &Cx) -> Option<BTreeMap<String, String>> {
    let variables = cx.caller().variables();
    variables
        .filter(|_| host.settings.rules.is_empty())
        .cloned()
}

async fn open_log(host: &Host, path: &str, cx: &Cx) -> ToolResult<(File, PathBuf)> {
    let here = host.here(cx, [path]).await?;
    let place = host.roots.find(&here, path)?;
    // Without NONBLOCK the open would wait at a FIFO. For a file the flag means nothing.
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOCTTY | OFlags::NONBLOCK;
    let opened = place
        .open(flags, place.new_mode(0o644))
        .map_err(|err| place.failed("write", err))?;
    let stat = rustix::fs::fstat(&opened).map_err(|err| place.failed("write", err))?;
    place.expect_file(&stat, host.hard_links())?;
    Ok((opened.into(), place.shown().to_owned()))
}

fn no_record(err: io::Error) -> ToolError {
    ToolError::new("the server cannot record commands").source(err)
}
