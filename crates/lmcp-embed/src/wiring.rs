//! What a program needs to start a child in a way of its own: variables, a command, the entry of an MCP configuration.

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::Command};

use serde::Serialize;

use crate::child::{Child, IDENTITY_FILE};

/// The server, as MCP configurations of agents name it: `{"mcpServers": {"deck": ENTRY}}`, say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct McpEntry {
    /// The program `lmcp`.
    pub command: String,
    /// Has `lmcp` connect to the host as this child: `proxy --identity-file FILE`.
    pub args: Vec<String>,
    /// The same as variables, for what the child starts itself.
    pub env: BTreeMap<String, String>,
}

impl Child {
    /// The variables that tell a process where its credentials are, for libraries that start processes in a way of their own,
    /// such as those for pseudo-terminals. [`Child::bind`] then says which process it is. As [`Child::prepare`], it has
    /// proxies below this program wait for that.
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

    /// A command that is told where its credentials are. [`Child::spawn`] starts it.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.prepare(&mut command);
        command
    }

    /// What stands in the configuration of an agent that this child is: how it starts `lmcp`, which is found on the path
    /// unless it is named here. There is no secret in it. `None`: a path is not text.
    ///
    /// ```no_run
    /// # fn demo(child: &lmcp::embed::Child) -> Option<()> {
    /// let servers = serde_json::json!({ "mcpServers": { "deck": child.mcp_entry("lmcp")? } });
    /// # Some(())
    /// # }
    /// ```
    pub fn mcp_entry(&self, lmcp: impl AsRef<Path>) -> Option<McpEntry> {
        let credentials = self.credentials().to_str()?;
        let args = ["proxy", "--identity-file", credentials];
        Some(McpEntry {
            command: lmcp.as_ref().to_str()?.to_owned(),
            // By its path, which is no secret: not every agent passes on the variables of an entry.
            args: args.map(str::to_owned).to_vec(),
            env: BTreeMap::from([(IDENTITY_FILE.to_owned(), credentials.to_owned())]),
        })
    }
}
