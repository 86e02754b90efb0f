//! `lmcp run` below another host: the command gets the server of that host, and no other.
//!
//! The command has the same identity as without `lmcp run`: that of the host's child. With `--role`, it gets the identity of
//! a sub-agent, if the host allows its child sub-agents.

use std::{
    env,
    fmt::Display,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{self, Command, ExitCode},
};

use lmcp::{
    Client,
    embed::{Above, IDENTITY_FILE, above},
    upstream,
};
use lmcp_wiring::Entry;
use rustix::process::Pid;
use serde_json::{Value, json};

use super::agent::{Agent, News};
use crate::{
    cli::RunOptions,
    options::Options,
    report::{self, Failure},
    this_program::this_program,
};

/// The host above.
pub(super) struct Outer {
    /// The identity of this process at that host.
    identity_file: PathBuf,
}

/// An identity that was made for the command.
struct Sub {
    client: Client,
    id: String,
    identity_file: PathBuf,
}

/// Returns the host that this process is a child of, if the command can use its server.
pub(super) fn outer(said: &RunOptions) -> Result<Option<Outer>, Failure> {
    if said.own || said.running.is_some() {
        return Ok(None);
    }
    let named = env::var_os(IDENTITY_FILE).map(PathBuf::from);
    let found = named.or_else(|| match above() {
        Above::Identity(file) => Some(file),
        _ => None,
    });
    let Some(identity_file) = found.filter(|file| file.exists()) else {
        return Ok(None);
    };
    if let Some(option) = said.of_a_server() {
        let words = format!(
            "{option} is for a server of its own, and this runs below a program that has one"
        );
        return Err(Failure::misuse(words).hint("`--own` starts another server"));
    }
    report::note(
        "this runs below a program that has a server, which the command gets; `--own` starts another",
    );
    Ok(Some(Outer { identity_file }))
}

impl Outer {
    pub(super) async fn run(
        self,
        said: &RunOptions,
        options: &Options,
    ) -> Result<ExitCode, Failure> {
        let sub = match &said.role {
            Some(role) => Some(Sub::make(&said.label(), role).await?),
            None => None,
        };
        let file = sub
            .as_ref()
            .map_or(&self.identity_file, |sub| &sub.identity_file);
        let scratch = Scratch::beside(file);
        let scratch = scratch.map_err(|err| Failure::new("cannot prepare the command", err))?;
        let (wiring, _made) = super::wire(&entry(file)?, said, options, &scratch.0)?;
        let mut agent = Agent::start(&wiring, Command::spawn)?;
        if let Some(sub) = &sub {
            sub.bind(agent.process()).await?;
        }
        drop(sub.map(|sub| sub.client));
        loop {
            match agent.next().await? {
                News::Ended(code) => return Ok(ExitCode::from(code)),
                News::Upgrade => {
                    report::note("there is nothing to upgrade: the server is another program's")
                }
            }
        }
    }
}

impl Sub {
    /// Asks the host for a separate identity for the command.
    async fn make(label: &str, role: &str) -> Result<Self, Failure> {
        let this = this_program().map_err(|err| Failure::new("cannot find this program", err))?;
        let client = Client::connect(upstream::command(this).arg("proxy")).await;
        let client = client.map_err(|err| refused(role, &err))?;
        let made = call(
            &client,
            "new_child",
            json!({ "label": label, "role": role }),
        )
        .await;
        let made = made.map_err(|words| refused(role, &words))?;
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            client,
            id: text("id"),
            identity_file: text("identity_file").into(),
        })
    }

    /// Tells the host the process of the command.
    async fn bind(&self, process: Pid) -> Result<(), Failure> {
        let arguments = json!({ "id": self.id, "pid": process.as_raw_pid() });
        let bound = call(&self.client, "bind_child", arguments).await;
        bound.map(drop).map_err(Failure::of)
    }
}

/// Returns the result of a tool of the host, or the reason why it failed.
async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, String> {
    let called = client.call_tool(tool, arguments).await;
    let result = called.map_err(|err| err.to_string())?;
    if result.is_error {
        let text = result.content.first().and_then(|content| content.as_text());
        return Err(text.unwrap_or_default().to_owned());
    }
    Ok(result.structured_content.unwrap_or_default())
}

fn refused(role: &str, why: &dyn Display) -> Failure {
    let words = format!("the program above gives nobody the role `{role}`: {why}");
    Failure::of(words)
        .hint("without --role the command is who this process is; `--own` starts another server")
}

/// Returns the server of the program above, as an entry for the configuration of the command.
fn entry(identity_file: &Path) -> Result<Entry, Failure> {
    let this = this_program().map_err(|err| Failure::new("cannot find this program", err))?;
    let not_text = || Failure::of("a path that is needed is not text");
    let (this, file) = this
        .to_str()
        .zip(identity_file.to_str())
        .ok_or_else(not_text)?;
    let entry = Entry::new(super::ENTRY, this).args(["proxy", "--identity-file", file]);
    Ok(entry.env(IDENTITY_FILE, file))
}

/// A folder for the files that are made for the command. If this program is killed, the folder is removed together with the
/// identity.
struct Scratch(PathBuf);

impl Scratch {
    fn beside(identity_file: &Path) -> io::Result<Self> {
        let folder = identity_file.with_file_name(format!("run-{}", process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
