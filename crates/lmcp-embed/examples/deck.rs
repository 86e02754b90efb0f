//! A small terminal multiplexer with two panes and an agent in each. The agents write to each other, set timers and share a
//! scratchpad, and the program can become a new version of itself while they run on.
//! `cargo run -p lmcp-embed --example deck -- /run/user/1000/deck/host.sock claude codex`
//!
//! Ctrl-O goes to the other pane, Ctrl-R restarts the program in place, Ctrl-Q quits.

use std::{
    env,
    error::Error,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _, stdin, stdout},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};

use avt::Terminal;
use lmcp::{
    Cx, NoArgs, Server, Tool, ToolError, ToolResult, ToolSet,
    embed::{ChildHandle, ChildOf as _, Event, Host, HostHandle, inbox, whoami},
    schemars::JsonSchema,
};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{
        OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
    },
};
use serde::{Deserialize, Serialize};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Names the file in which the program hands its state to itself when it restarts in place.
const STATE: &str = "DECK_STATE";

/// The state that the agents share.
#[derive(Clone, Default, Deserialize, Serialize)]
struct Shared {
    pad: String,
    /// How often the scratchpad was written.
    revision: u64,
}

/// The state that is kept across a restart.
#[derive(Deserialize, Serialize)]
struct Kept {
    shared: Shared,
    /// The ids of the children, in the order of their panes.
    panes: Vec<String>,
}

impl Kept {
    /// Reads the state that the program before this one wrote, and removes the file.
    fn take(file: OsString) -> Result<Self> {
        let text = fs::read(&file)?;
        fs::remove_file(file)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

struct Desk {
    host: HostHandle,
    shared: Mutex<Shared>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// The label of whom it is for.
    to: String,
    /// What to say.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Timer {
    /// When it is due.
    seconds: u32,
    /// What it says then, in your own inbox.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    /// All that is to stand there.
    text: String,
    /// The revision that you have read.
    revision: u64,
}

async fn send(desk: Arc<Desk>, message: Message, cx: Cx) -> ToolResult<&'static str> {
    let to = desk.host.find_label(&message.to);
    let to = to.ok_or_else(|| ToolError::new(format!("there is no `{}`", message.to)))?;
    let from = cx.calling_child()?.label();
    to.deliver(format!("{from}: {}", message.text))?;
    Ok("sent")
}

async fn set_timer(desk: Arc<Desk>, timer: Timer, cx: Cx) -> ToolResult<&'static str> {
    let to = cx.calling_child()?.clone();
    desk.host.spawn(async move {
        tokio::time::sleep(Duration::from_secs(timer.seconds.into())).await;
        let _ = to.deliver(format!("timer: {}", timer.text)); // it may have ended
    });
    Ok("set")
}

async fn read_pad(desk: Arc<Desk>, _: NoArgs, _: Cx) -> String {
    let shared = desk.lock();
    format!("revision {}\n{}", shared.revision, shared.pad)
}

async fn write_pad(desk: Arc<Desk>, page: Page, _: Cx) -> ToolResult<String> {
    let mut shared = desk.lock();
    if shared.revision != page.revision {
        let words = format!("it is at revision {} by now", shared.revision);
        return Err(ToolError::new(words).hint("read it again"));
    }
    (shared.pad, shared.revision) = (page.text, page.revision + 1);
    Ok(format!("revision {}", shared.revision))
}

async fn agents(desk: Arc<Desk>, _: NoArgs, _: Cx) -> String {
    let children = desk.host.children().into_iter();
    let lines = children.map(|child| {
        let (label, role) = (child.label(), child.role());
        let connections = child.connections().len();
        format!("{label} ({role}): {connections} connections")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn server(desk: Arc<Desk>) -> Server {
    let tools = ToolSet::new(desk)
        .tool(
            Tool::new("send", send)
                .about("Writes to another agent.")
                .writes(),
        )
        .tool(
            Tool::new("set_timer", set_timer)
                .about("Writes to you later.")
                .writes(),
        )
        .tool(
            Tool::new("read_pad", read_pad)
                .about("The shared scratchpad.")
                .read_only(),
        )
        .tool(
            Tool::new("write_pad", write_pad)
                .about("Writes the scratchpad.")
                .writes(),
        )
        .tool(
            Tool::new("agents", agents)
                .about("Who is there.")
                .read_only(),
        );
    Server::new("deck", "1.0.0").tools(tools.tools(inbox().tool(whoami())))
}

/// One half of the screen.
struct Pane {
    child: ChildHandle,
    terminal: File,
    screen: Terminal,
}

/// The events of the main thread.
enum News {
    Output(usize, Vec<u8>),
    Keys(Vec<u8>),
    Child(Event),
}

/// Returns the size of a pane on a terminal of this size.
fn half(size: Winsize) -> Winsize {
    Winsize {
        ws_row: (size.ws_row.max(6) - 2) / 2,
        ..size
    }
}

impl Pane {
    fn new(child: ChildHandle, terminal: File, size: Winsize) -> Result<Self> {
        tcsetwinsize(&terminal, size)?;
        let (columns, rows) = (size.ws_col.max(1).into(), size.ws_row.into());
        Ok(Self {
            child,
            terminal,
            screen: Terminal::new(columns, rows)?,
        })
    }

    /// Runs a command in a terminal of its own, as a child that outlives a restart of this program.
    fn start(host: &Host, label: &str, command: &str, size: Winsize) -> Result<Self> {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        let name = PathBuf::from(ptsname(&terminal, Vec::new())?.to_str()?);
        let screen = || OpenOptions::new().read(true).write(true).open(&name);
        let child = host.child(label, "agent")?;
        // `setsid` makes the terminal its own and becomes the command, under the same process number.
        let mut start = child.command("setsid");
        start.args(["--ctty", "sh", "-c", command]);
        start.stdin(screen()?).stdout(screen()?).stderr(screen()?);
        child.watch(child.spawn(&mut start)?);
        Self::new(child.detach(), File::from(terminal), size)
    }

    /// Leaves the terminal open for the next program, and returns the id of the child. Closing a terminal would end its child.
    fn hand_on(&self) -> io::Result<String> {
        self.child.keep("terminal", &self.terminal)?;
        Ok(self.child.identity().id.clone())
    }

    /// Reads the output of the pane, on a thread of its own.
    fn follow(&self, number: usize, news: Sender<News>) -> Result {
        let mut terminal = self.terminal.try_clone()?;
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = terminal.read(&mut bytes) {
                if news
                    .send(News::Output(number, bytes[..read].to_vec()))
                    .is_err()
                {
                    break;
                }
            }
        });
        Ok(())
    }
}

/// The terminal of the person, which is restored when this is dropped.
struct Raw(Termios);

impl Raw {
    fn new() -> Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

fn main() -> Result {
    let words: Vec<String> = env::args().skip(1).collect();
    let [path, commands @ ..] = &words[..] else {
        return Err("deck SOCKET COMMAND COMMAND".into());
    };
    let kept = env::var_os(STATE).map(Kept::take).transpose()?;
    let (shared, known) = kept.map_or_else(Default::default, |kept| (kept.shared, kept.panes));
    let setup = Host::setup().path(path);
    let desk = Arc::new(Desk {
        host: setup.handle(),
        shared: Mutex::new(shared),
    });
    let host = setup.start(server(Arc::clone(&desk)))?;
    let raw = Raw::new()?;
    let size = half(tcgetwinsize(stdin())?);
    let mut panes = Vec::new();
    for child in known.iter().filter_map(|id| host.handle().find(id)) {
        if let Some(terminal) = child.take_kept("terminal") {
            panes.push(Pane::new(child, File::from(terminal), size)?);
        }
    }
    let news = match panes.len() {
        0 => String::new(),
        went_on => format!("went on with {went_on} agents"),
    };
    if panes.is_empty() {
        for (label, command) in ["left", "right"].iter().zip(commands) {
            panes.push(Pane::start(&host, label, command, size)?);
        }
    }
    let again = watch(&host, &mut panes, news)?;
    drop(raw);
    if again {
        return restart(host, &desk, &panes, Path::new(path));
    }
    // No later program takes these children over.
    host.end_children(Duration::from_secs(1)).wait();
    host.finish(Duration::from_secs(1));
    Ok(())
}

/// Shows the panes. Returns `false` if somebody quits, and `true` for a restart.
fn watch(host: &Host, panes: &mut [Pane], mut last: String) -> Result<bool> {
    let (says, news): (Sender<News>, Receiver<News>) = channel();
    for (number, pane) in panes.iter().enumerate() {
        pane.follow(number, says.clone())?;
    }
    let (mut events, tells) = (host.events(), says.clone());
    thread::spawn(move || {
        while let Some(event) = events.wait() {
            let _ = tells.send(News::Child(event));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok(read @ 1..) = stdin().read(&mut bytes) {
            let _ = says.send(News::Keys(bytes[..read].to_vec()));
        }
    });
    let mut focus = 0;
    loop {
        draw(panes, focus, &last)?;
        match news.recv()? {
            News::Output(number, bytes) => {
                panes[number].screen.feed(&*String::from_utf8_lossy(&bytes))
            }
            News::Child(event) => last = event.to_string(),
            News::Keys(keys) => match keys[..] {
                [0x11] => return Ok(false),
                [0x12] => return Ok(true),
                [0x0f] => focus = (focus + 1) % panes.len(),
                _ => panes[focus].terminal.write_all(&keys)?,
            },
        }
        if host.children().is_empty() {
            return Ok(false);
        }
    }
}

/// Draws both panes, each with a line below it that names its child.
fn draw(panes: &[Pane], focus: usize, last: &str) -> Result {
    let mut out = String::from("\x1b[H\x1b[2J");
    for (number, pane) in panes.iter().enumerate() {
        for line in pane.screen.screen().visible_lines() {
            out.push_str(line.text().trim_end());
            out.push_str("\r\n");
        }
        let state = match pane.child.has_ended() {
            true => "ended".to_owned(),
            false => format!("{} connections", pane.child.connections().len()),
        };
        let mark = if number == focus { ">" } else { " " };
        out.push_str(&format!(
            "\x1b[7m{mark}{}: {state}  {last}\x1b[0m",
            pane.child.label()
        ));
        if number + 1 < panes.len() {
            out.push_str("\r\n");
        }
    }
    stdout().write_all(out.as_bytes())?;
    Ok(stdout().flush()?)
}

/// Starts this program again in its place, with the same children in the same terminals.
fn restart(host: Host, desk: &Desk, panes: &[Pane], path: &Path) -> Result {
    let file = path.with_extension("kept");
    let failed = host.exec_with(|| {
        // From here on, no agent is told that a write succeeded.
        let shared = desk.lock().clone();
        let panes = panes.iter().map(Pane::hand_on).collect::<io::Result<_>>()?;
        // The state goes into a file, because a variable holds at most 128 KiB.
        fs::write(&file, serde_json::to_vec(&Kept { shared, panes })?)?;
        let mut this = Command::new(env::current_exe()?);
        this.arg(path).env(STATE, &file);
        Ok(this)
    });
    Err(failed.into())
}
