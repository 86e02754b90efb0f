//! Identities that a child makes for its own sub-agents, within what the program allows.

use std::{collections::BTreeSet, io, sync::Arc};

use lmcp_core::{Cx, Error, Json, Tool, ToolError, ToolResult, ToolSet};
use rustix::process::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    child::{self, Child},
    member::{ChildHandle, ChildOf as _},
};

/// What a child may give to sub-agents of its own: [`ChildHandle::allow_children`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Allowance {
    /// The roles that they may have. Give it none that may do more than the child.
    pub roles: BTreeSet<String>,
    /// So many at a time, those that they make included.
    pub number: usize,
    /// So many generations: with 1, sub-agents may make none themselves.
    pub depth: usize,
}

impl Allowance {
    /// One generation of at most eight with these roles.
    pub fn new<R: Into<String>>(roles: impl IntoIterator<Item = R>) -> Self {
        Self {
            roles: roles.into_iter().map(Into::into).collect(),
            number: 8,
            depth: 1,
        }
    }

    /// So many at a time.
    #[must_use]
    pub fn number(mut self, number: usize) -> Self {
        self.number = number;
        self
    }

    /// So many generations.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// What is left for the next generation.
    fn below(&self) -> Option<Self> {
        let depth = self.depth.checked_sub(1).filter(|depth| *depth > 0)?;
        Some(Self {
            depth,
            ..self.clone()
        })
    }
}

/// The tools with which a child makes identities for its sub-agents: `new_child` and `bind_child`. A child can use them
/// only after the program has [allowed](ChildHandle::allow_children) it sub-agents.
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
    /// Allows it to make identities for sub-agents of its own, with the tools of [`family`]. They end with it. A host that
    /// comes back does not know of it any more, and has to say it again.
    pub fn allow_children(&self, allowance: Allowance) {
        *self.member.family() = Some(allowance);
    }

    fn make_child(&self, args: &NewChild) -> ToolResult<Made> {
        let allowance = self.member.family().clone().ok_or_else(not_allowed)?;
        if !allowance.roles.contains(&args.role) {
            let known: Vec<_> = allowance.roles.iter().map(String::as_str).collect();
            let words = format!("you may not give the role `{}`", args.role);
            return Err(ToolError::new(words).hint(format!("one of: {}", known.join(", "))));
        }
        let host = self.host.upgrade().ok_or_else(closed)?;
        // One at a time, so that nobody makes more than it may.
        let _making = host.children.making();
        self.expect_room(&allowance)?;
        let identity = self.identity();
        let child = Child::new(&host, &args.label, &args.role, Some(&identity));
        let child = child.map_err(|err: Error| ToolError::new(err.to_string()))?;
        *child.member.family() = allowance.below();
        child.member.set_sub();
        let identity_file = child.credentials().display().to_string();
        let id = child.identity().id.clone();
        child.detach();
        Ok(Made { id, identity_file })
    }

    /// Is there room for one more, in its own allowance and in those of all above it?
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
