//! Identities that a child makes for its own sub-agents, within the limits of the program.

use std::{io, sync::Arc};

use lmcp_core::{Cx, Error, Json, Tool, ToolError, ToolResult, ToolSet};
use rustix::process::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    child::{self, Child, Maker},
    member::{ChildHandle, ChildOf as _},
};

/// The limits for the sub-agents of a child: [`ChildHandle::allow_children`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Allowance {
    /// The roles of sub-agents, from the one with the most rights to the one with the fewest. None of them should have more
    /// rights than the child. A sub-agent that makes another one gives it its own role or a later one of this list.
    pub roles: Vec<String>,
    /// The greatest number of sub-agents at a time, including those that sub-agents make.
    pub number: usize,
    /// The number of generations: with 1, sub-agents may not make any.
    pub depth: usize,
}

impl Allowance {
    /// Allows one generation of at most eight sub-agents with these [roles](Self::roles).
    pub fn new<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> Self {
        Self {
            roles: roles.into_iter().map(Into::into).collect(),
            number: 8,
            depth: 1,
        }
    }

    /// Sets the greatest number of sub-agents at a time.
    #[must_use]
    pub fn number(mut self, number: usize) -> Self {
        self.number = number;
        self
    }

    /// Sets the number of generations.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Returns the limits for a sub-agent with this role.
    fn below(&self, role: &str) -> Option<Self> {
        let depth = self.depth.checked_sub(1).filter(|depth| *depth > 0)?;
        let own = self.roles.iter().position(|known| known == role)?;
        Some(Self {
            roles: self.roles.get(own..)?.to_vec(),
            number: self.number,
            depth,
        })
    }
}

/// Returns the tools with which a child makes identities for its sub-agents: `new_child` and `bind_child`. A child can use
/// them only after the program has [allowed](ChildHandle::allow_children) it sub-agents.
pub fn family() -> ToolSet<()> {
    let new_child = Tool::new("new_child", new_child)
        .title("New child")
        .about(
            "Makes an identity for a sub-agent that you are about to start. Start it with the variable \
             LMCP_IDENTITY_FILE set to identity_file, then call bind_child.",
        )
        .writes();
    let bind_child = Tool::new("bind_child", bind_child)
        .title("Bind child")
        .about("Says which process, started by you, has the identity that new_child made. It ends with that process.")
        .writes();
    ToolSet::new(()).tool(new_child).tool(bind_child)
}

#[derive(Deserialize, JsonSchema)]
struct NewChild {
    /// What people call it.
    label: String,
    /// What it may do: one of the roles that you may give.
    role: String,
}

#[derive(Serialize, JsonSchema)]
struct Made {
    /// Tells it from all others.
    id: String,
    /// The file with its credentials, for LMCP_IDENTITY_FILE.
    identity_file: String,
}

#[derive(Deserialize, JsonSchema)]
struct BindChild {
    /// The id that new_child gave.
    id: String,
    /// The number of the process.
    pid: u32,
}

async fn new_child(_: Arc<()>, args: NewChild, cx: Cx) -> ToolResult<Json<Made>> {
    let made = cx.child().ok_or_else(not_allowed)?.make_child(&args)?;
    Ok(Json(made))
}

async fn bind_child(_: Arc<()>, args: BindChild, cx: Cx) -> ToolResult<&'static str> {
    let parent = cx.child().ok_or_else(not_allowed)?;
    parent.bind_child(&args.id, args.pid)?;
    Ok("bound")
}

impl ChildHandle {
    /// Allows the child to make identities for sub-agents of its own, with the tools of [`family`]. The sub-agents end with
    /// the child.
    ///
    /// The program has to call it again after [`ChildHandle::set_role`], and after the host came back.
    pub fn allow_children(&self, allowance: Allowance) {
        *self.member.family() = Some(allowance);
    }

    fn make_child(&self, args: &NewChild) -> ToolResult<Made> {
        let host = self.host.upgrade().ok_or_else(closed)?;
        // One at a time, so that nobody makes more than it may, and none by an allowance that is taken back meanwhile.
        let _making = host.children.making();
        let allowance = self.member.family().clone().ok_or_else(not_allowed)?;
        if !allowance.roles.contains(&args.role) {
            let words = format!("you may not give the role `{}`", args.role);
            return Err(
                ToolError::new(words).hint(format!("one of: {}", allowance.roles.join(", ")))
            );
        }
        self.expect_room(&allowance)?;
        let identity = self.identity();
        let child = Child::new(&host, &args.label, &args.role, Maker::Child(&identity));
        let child = child.map_err(|err: Error| ToolError::new(err.to_string()))?;
        *child.member.family() = allowance.below(&args.role);
        let identity_file = child.credentials().display().to_string();
        let id = child.identity().id.clone();
        child.detach();
        Ok(Made { id, identity_file })
    }

    /// Checks that there is room for one more, in the limits of this child and of all above it.
    fn expect_room(&self, allowance: &Allowance) -> ToolResult<()> {
        let host = self.host.upgrade().ok_or_else(closed)?;
        let (mut above, mut most) = (Some(self.clone()), Some(allowance.number));
        while let Some(child) = above {
            let number = host.children.count_below(&child.identity().id);
            if most.is_some_and(|most| number >= most) {
                return Err(ToolError::new(format!(
                    "there are {number} sub-agents already, which is all that may be"
                )));
            }
            let parent = child.identity().parent.clone();
            above = parent.and_then(|id| host.children.find_id(&id));
            most = above
                .as_ref()
                .and_then(|above| Some(above.member.family().as_ref()?.number));
        }
        Ok(())
    }

    fn bind_child(&self, id: &str, pid: u32) -> ToolResult<()> {
        let host = self.host.upgrade().ok_or_else(closed)?;
        let child = host.children.find_id(id);
        let child = child.filter(|child| {
            child.member.is_sub() && child.identity().parent.as_ref() == Some(&self.identity().id)
        });
        let child = child.ok_or_else(|| ToolError::new(format!("you have no child `{id}`")))?;
        let own = self.member.process().map(|own| own.process);
        let is_below = |process: Pid| {
            own.is_some_and(|own| own != process && host.children.owner_of(process) == Some(own))
        };
        let register = |started| match &*child.member.kept() {
            Some(belongings) => belongings.register(started),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        child::bind(&host, &child.member, pid, is_below, register)
            .map_err(|err| ToolError::new(format!("process {pid} cannot be your child: {err}")))
    }
}

fn not_allowed() -> ToolError {
    ToolError::new("you may not make identities for sub-agents")
}

fn closed() -> ToolError {
    ToolError::new("the host has closed")
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt as _,
        thread,
    };

    use lmcp_core::Server;
    use tempfile::TempDir;

    use super::*;
    use crate::host::Host;

    fn host() -> (Host, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let host = Host::start_in(Server::new("t", "1"), folder.path()).unwrap();
        (host, folder)
    }

    fn worker() -> NewChild {
        NewChild {
            label: "sub".into(),
            role: "worker".into(),
        }
    }

    #[test]
    fn a_sub_agent_gives_its_own_role_or_one_further_down() {
        let allowance = Allowance::new(["lead", "worker", "reader"]).depth(3);
        let below = allowance.below("worker").unwrap();
        assert_eq!(
            (&*below.roles, below.depth),
            (&["worker".into(), "reader".into()][..], 2)
        );
        let below = below.below("reader").unwrap();
        assert_eq!((&*below.roles, below.depth), (&["reader".into()][..], 1));
        assert_eq!(below.below("reader"), None);
        assert_eq!(allowance.below("other"), None);
    }

    #[test]
    fn no_sub_agent_is_made_for_a_child_that_has_ended() {
        let (host, folder) = host();
        let parent = host.child("ann", "lead").unwrap();
        parent.allow_children(Allowance::new(["worker"]));
        let handle = parent.handle().clone();
        drop(parent);
        // A call that had begun goes on.
        let refused = handle.make_child(&worker()).err().unwrap().to_string();
        assert!(refused.contains("has ended"), "{refused}");
        assert_eq!(host.children(), []);
        let names = fs::read_dir(folder.path()).unwrap().flatten();
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        let is_childs = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".child");
        assert!(!names.iter().any(is_childs), "{names:?}");
    }

    #[test]
    fn a_sub_agent_that_is_made_while_its_parent_gets_another_role_makes_none() {
        let (host, _folder) = host();
        for _ in 0..50 {
            let parent = host.child("ann", "lead").unwrap();
            parent.allow_children(Allowance::new(["worker"]).depth(2));
            let inner = parent.host.upgrade().unwrap();
            thread::scope(|scope| {
                let making = inner.children.making();
                scope.spawn(|| drop(parent.make_child(&worker())));
                scope.spawn(|| parent.set_role("reader"));
                while parent.identity().role != "reader" {
                    thread::yield_now();
                }
                drop(making);
            });
            for child in host.children() {
                assert_eq!(*child.member.family(), None);
            }
        }
    }
}
