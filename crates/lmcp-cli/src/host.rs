//! The tools of a host: turns the options into settings, and lists the restrictions that are enforced.

use std::{
    env,
    path::{Path, PathBuf},
};

use lmcp::{Handle, Server};
use lmcp_tools::{
    Helper, HostTools, NAMES, Settings,
    settings::{Decision, Rule, Web},
};
use rustix::fs::{Access, access};

use crate::{
    options::Options,
    report::{self, Failure},
};

/// Turns the options into the settings of the tools. Every option about the tools is used here.
pub(crate) fn settings(
    options: &Options,
    helper: Helper,
    state_dir: Option<PathBuf>,
) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    settings.roots.clone_from(&options.root);
    settings.also_read.clone_from(&options.also_read);
    settings.allow_hard_links = options.allow_hard_links.unwrap_or_default();
    settings.read_only = options.read_only.unwrap_or_default();
    // Without these tools, no guard is needed, and no kernel that can confine commands.
    let runs = ["shell", "shell_bg"]
        .into_iter()
        .any(|name| is_picked(&options.tools, name));
    settings.helper = Some(helper).filter(|_| runs);
    settings.shell = match &options.shell {
        Some(path) => Some(shell(path)?),
        None => None,
    };
    settings.exit_code_is_error = options.exit_code_is_error.unwrap_or_default();
    let rules = [
        (Decision::Allow, &options.allow),
        (Decision::Ask, &options.ask),
        (Decision::Deny, &options.deny),
    ];
    for (decision, prefixes) in rules {
        let rules = prefixes.iter().map(|prefix| Rule::new(decision, &prefix.0));
        settings.rules.extend(rules);
    }
    settings.web = web(options)?;
    settings.state_dir = state_dir;
    if let Some(most) = options.changes_kept {
        settings.changes_kept = most.0;
    }
    if let Some(most) = options.change_bytes_kept {
        settings.change_bytes_kept = most.0 as u64;
    }
    Ok(settings)
}

/// Returns the named shell, if it exists.
fn shell(named: &Path) -> Result<String, Failure> {
    let found = if named.components().count() > 1 {
        access(named, Access::EXEC_OK).is_ok()
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|folder| access(folder.join(named), Access::EXEC_OK).is_ok())
    };
    if !found {
        let words = format!(
            "there is no shell `{}` to run commands with",
            named.display()
        );
        return Err(Failure::misuse(words).hint("name another with --shell, or leave it out"));
    }
    let text = named.to_str();
    let text = text.ok_or_else(|| Failure::misuse("the shell's path is not text"))?;
    Ok(text.to_owned())
}

/// Returns the settings for the web: from the options, or else from the environment, which also holds the keys.
fn web(options: &Options) -> Result<Web, Failure> {
    let said = |name: &str| match name {
        "LMCP_SEARXNG_URL" => options.searxng_url.clone(),
        "LMCP_SEARCH_BACKEND" => options.search_backend.clone(),
        "LMCP_FETCH_ALLOW" => Some(options.fetch_allow.join(",")).filter(|list| !list.is_empty()),
        _ => None,
    };
    let found = Web::from_env(|name| said(name).or_else(|| env::var(name).ok()));
    found.map_err(|err| Failure::from(err).code(2))
}

/// Returns a server with the tools.
pub(crate) fn server(name: &str, settings: Settings) -> Result<Server, Failure> {
    let server = Server::new(name, env!("CARGO_PKG_VERSION"))
        .title("lmcp")
        .about("Tools that work on the machine this server runs on");
    let tools = HostTools::new(settings).map_err(|err| Failure::from(err).code(2))?;
    let outside: Vec<_> = tools
        .path_outside()
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    if !outside.is_empty() {
        report::note(&format!(
            "commands cannot run what is in {}; --also-read lets them",
            outside.join(", ")
        ));
    }
    let instructions = tools.instructions();
    Ok(tools.add_to(server.instructions_for(instructions)))
}

/// Returns the restrictions that hold for every client, one in each line, for the operator.
pub(crate) fn enforced(settings: &Settings) -> Vec<String> {
    let roots: Vec<_> = settings
        .roots
        .iter()
        .map(|root| root.display().to_string())
        .collect();
    let reach = if roots.is_empty() {
        "the tools reach all that you can; confine them with --root".to_owned()
    } else if settings.read_only {
        format!("the tools stay below {}", roots.join(" and "))
    } else {
        format!(
            "file tools and commands open nothing outside of {}, but for installed programs; the network is open to them",
            roots.join(" and ")
        )
    };
    let change = if settings.read_only {
        "no tool changes anything"
    } else {
        "tools may change things; offer only those that do not with --read-only"
    };
    let mut lines = vec![reach, change.to_owned()];
    if !settings.rules.is_empty() {
        lines.push(format!(
            "{} rules decide which commands run",
            settings.rules.len()
        ));
    }
    lines
}

/// Keeps the picked tools: the named ones, or all except those named with a minus.
pub(crate) fn pick(server: &Handle, picks: &[String]) -> Result<(), Failure> {
    let (out, only) = in_and_out(picks);
    let idle = |out: &&&str| !only.contains(&out.trim_start_matches('-'));
    if let Some(out) = out.iter().find(idle).filter(|_| !only.is_empty()) {
        let words = format!("`{out}` leaves out a tool that --tools does not offer");
        let hint = "name the tools to offer, or with a minus those to leave out, not both";
        return Err(Failure::misuse(words).hint(hint));
    }
    let offered = server.tool_names();
    let is_offered = |name: &str| offered.iter().any(|known| known == name);
    // A tool that is already left out may be named with a minus, but not without one.
    let unknown = picks
        .iter()
        .map(|pick| pick.trim())
        .find(|pick| match pick.strip_prefix('-') {
            Some(name) => !is_offered(name) && !NAMES.contains(&name),
            None => !is_offered(pick),
        });
    if let Some(name) = unknown {
        let failure = Failure::misuse(format!("there is no tool `{name}` to be offered"));
        let ours = offered.iter().any(|name| NAMES.contains(&&**name));
        let all = if ours {
            NAMES.join(", ")
        } else {
            offered.join(", ")
        };
        return Err(failure.hint(format!("there are {all}")));
    }
    for name in &offered {
        if !is_picked(picks, name) {
            server.remove_tool(name);
        }
    }
    Ok(())
}

/// Splits the picks into those with a minus, and those without.
fn in_and_out(picks: &[String]) -> (Vec<&str>, Vec<&str>) {
    let picks = picks.iter().map(|pick| pick.trim());
    picks.partition(|pick| pick.starts_with('-'))
}

fn is_picked(picks: &[String], name: &str) -> bool {
    let (out, only) = in_and_out(picks);
    let named = only.is_empty() || only.contains(&name);
    named && !out.iter().any(|pick| pick.trim_start_matches('-') == name)
}
