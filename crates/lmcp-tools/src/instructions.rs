//! The words that a model gets about a server before its first call: which host it is, what it may touch, and
//! what is special.

use std::path::Path;

use lmcp_core::Caller;

use crate::Host;

impl Host {
    /// Returns three lines: the host and its folder, what the tools may touch, and what is special about them.
    pub(crate) fn instructions(&self, caller: &Caller) -> String {
        let mut lines = vec![self.place(caller), self.reach()];
        let writes = !self.settings.read_only;
        let mut special = Vec::new();
        if self.commands.is_some() {
            special.push("Commands that take longer than 45 s become jobs, which outlive the call: see job_output");
        }
        if writes {
            special.push("edits are all or nothing, and name the nearest text on a miss");
        }
        special.push("long results are cut and say how to read on");
        lines.push(format!("{}.", special.join("; ")));
        lines.join("\n")
    }

    fn place(&self, caller: &Caller) -> String {
        let names = rustix::system::uname();
        let name = names.nodename().to_string_lossy();
        let machine = names.machine().to_string_lossy();
        let system = names.sysname().to_string_lossy();
        let folder = self.known_folder(caller);
        // The folders of the client are asked for when a call needs them.
        let folder = folder.map_or_else(
            |_| String::new(),
            |folder| {
                format!(
                    "; relative paths mean {}, unless your client names another folder",
                    folder.display()
                )
            },
        );
        let shell = self.commands.as_ref().map(|_| self.shell());
        let shell = shell.map_or_else(String::new, |shell| format!("; commands are for {shell}"));
        format!("Tools of the host {name} ({system} {machine}){folder}{shell}.")
    }

    /// Returns the shell's name, without its folder.
    fn shell(&self) -> String {
        let path = self.shell_path();
        let name = Path::new(&path).file_name();
        name.map_or(path.clone(), |name| name.to_string_lossy().into_owned())
    }

    fn reach(&self) -> String {
        let shown = |path: &Path| path.display().to_string();
        let roots: Vec<_> = self.roots.paths().map(shown).collect();
        let also: Vec<_> = self
            .settings
            .also_read
            .iter()
            .map(|path| shown(path))
            .collect();
        let reach = match (&roots[..], &also[..]) {
            ([], _) => "They reach all that their user can".to_owned(),
            (_, []) => format!(
                "They open nothing outside of {}, but for installed programs",
                roots.join(", ")
            ),
            _ => format!(
                "They open nothing outside of {}, but for installed programs and, to read, {}",
                roots.join(", "),
                also.join(", ")
            ),
        };
        let change = if self.settings.read_only {
            ", and change nothing"
        } else {
            ""
        };
        format!("{reach}{change}.")
    }
}
