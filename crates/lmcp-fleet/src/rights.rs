//! The rights of a caller on hosts. No I/O.

use std::collections::BTreeMap;

use lmcp_wire::Tool;
use serde::Deserialize;

use crate::{
    select::Meant,
    tools::{PREFIX, is_read_only},
};

/// The rights of a caller on hosts. A right that is not limited here is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rights {
    /// The hosts, as `host` of a call names them. The caller does not see other hosts.
    pub hosts: Option<Vec<String>>,
    /// The tools, with or without `remote_`.
    pub tools: Option<Vec<String>>,
    /// Only tools that change nothing.
    pub read_only: bool,
}

/// Rights by the names of callers. A caller that is not named may do everything.
pub type AllRights = BTreeMap<String, Rights>;

impl Rights {
    /// Returns the words for the hosts that the caller may use, unless it may use all.
    pub(crate) fn reach(&self) -> Option<Meant<'_>> {
        let hosts = self.hosts.as_ref()?;
        Some(Meant::of(hosts.iter().map(String::as_str)))
    }

    /// Refuses a tool that the caller may not call.
    pub(crate) fn check(&self, tool: &Tool) -> Result<(), String> {
        let name = &tool.name;
        let is_named = |known: &String| known.strip_prefix(PREFIX).unwrap_or(known) == name;
        if self
            .tools
            .as_ref()
            .is_some_and(|tools| !tools.iter().any(is_named))
        {
            return Err(format!("your token does not allow `{PREFIX}{name}`"));
        }
        match self.read_only && !is_read_only(tool) {
            true => Err(format!(
                "your token allows only tools that change nothing, and `{PREFIX}{name}` may change something"
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use lmcp_wire::ToolAnnotations;
    use serde_json::json;

    use super::*;
    use crate::select::Choice;

    #[test]
    fn what_is_said_is_all_that_is_allowed() {
        let groups = ["web".to_owned()];
        let host = |name| Choice {
            name,
            groups: &groups,
            is_disabled: false,
            is_hub: false,
        };
        let rights = |text: &str| toml::from_str::<Rights>(text).unwrap();
        let reaches = |text: &str, name| {
            rights(text)
                .reach()
                .is_none_or(|meant| meant.is(&host(name)))
        };
        assert!(reaches("", "x"));
        assert!(!reaches("hosts = []", "x"));
        assert!(reaches("hosts = ['y', '@web']", "x"));
        assert!(reaches("hosts = ['@all']", "x"));
        assert!(reaches("hosts = ['x*']", "x1"));
        assert!(!reaches("hosts = ['x']", "x1"));
        let mut read = Tool::new("read_file", json!({}));
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(true);
        read.annotations = Some(hints);
        let shell = Tool::new("shell", json!({}));
        let only = rights("tools = ['remote_shell', 'jobs']");
        assert!(only.check(&shell).is_ok() && only.check(&read).is_err());
        let only = rights("read_only = true");
        assert!(only.check(&shell).is_err() && only.check(&read).is_ok());
    }
}
