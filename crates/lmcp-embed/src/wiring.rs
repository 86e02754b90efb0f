//! Helpers for a program that starts a child in its own way: variables, a command, the entry of an MCP configuration.

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::Command};

use serde::Serialize;

use crate::{
    child::{Child, IDENTITY_FILE},
    member::ChildHandle,
};

/// The server, as the MCP configuration of an agent names it, for example `{"mcpServers": {"deck": ENTRY}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpEntry {
    /// The program `lmcp`.
    pub command: String,
    /// The arguments with which `lmcp` connects to the host as this child: `proxy --identity-file FILE`.
    pub args: Vec<String>,
    /// The same as variables, for processes that the child starts.
    pub env: BTreeMap<String, String>,
}

impl Child {
    /// Returns the variables that lead a process to its credentials, for libraries that start processes in their own way,
    /// such as those for pseudo-terminals. [`Child::bind`] then names the process. As after [`Child::prepare`], proxies
    /// below this program wait for that.
    pub fn env(&self) -> Vec<(&'static str, OsString)> {
        let mut command = Command::new("");
        self.prepare(&mut command);
        let named = [IDENTITY_FILE, crate::SOCKET].into_iter();
        named
            .filter_map(|name| {
                let mut set = command.get_envs();
                let (_, value) = set.find(|(known, _)| *known == name)?;
                Some((name, value?.to_owned()))
            })
            .collect()
    }

    /// Returns a command with the variables that lead to its credentials. [`Child::spawn`] starts it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.prepare(&mut command);
        command
    }
}

impl ChildHandle {
    /// Returns the entry for the configuration of an agent that is this child. `lmcp` is the program; a name without a
    /// folder is searched in the PATH. The entry holds no secret. `None`: a path is not text.
    ///
    /// ```no_run
    /// # fn demo(child: &lmcp::embed::ChildHandle) -> Option<()> {
    /// let servers = serde_json::json!({ "mcpServers": { "deck": child.mcp_entry("lmcp")? } });
    /// # Some(())
    /// # }
    /// ```
    pub fn mcp_entry(&self, lmcp: impl AsRef<Path>) -> Option<McpEntry> {
        let credentials = self.credentials().to_str()?;
        let args = ["proxy", "--identity-file", credentials];
        Some(McpEntry {
            command: lmcp.as_ref().to_str()?.to_owned(),
            // The entry names the file as an argument, because some agents do not pass on the variables of an entry. The
            // path is not secret.
            args: args.map(str::to_owned).to_vec(),
            env: BTreeMap::from([(IDENTITY_FILE.to_owned(), credentials.to_owned())]),
        })
    }
}
