//! Typing into a job on another host: the arguments of `job_input` as the parts to send, and its answer.

use lmcp_core::{Cx, ToolError, ToolResult};

use super::{elsewhere::Reading, input, output::Output, pattern::Pattern, wait};
use crate::answer::Answer;

/// A part of the input that is typed into a job.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever types must know how to do all of it"
)]
pub enum Typed {
    /// Text, typed as it is.
    Bytes(String),
    /// The number of a signal.
    Signal(i32),
    /// The end of the job's input.
    Eof,
}

/// The arguments of `job_input`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Typing {
    /// The job.
    pub id: String,
    /// The parts that are typed, in order.
    pub parts: Vec<Typed>,
    /// Whether the terminal gets another size.
    pub resize: bool,
    wait_for: Option<String>,
    wait: Option<f64>,
}

impl Typing {
    /// # Errors
    /// A key is not known, or the time is not valid.
    pub fn of(args: input::Args) -> ToolResult<Self> {
        wait::time(args.wait)?;
        let mut parts = Vec::new();
        for part in args.parts(false)? {
            match (part, parts.last_mut()) {
                (input::Part::Bytes(text), _) if text.is_empty() => {}
                (input::Part::Bytes(text), Some(Typed::Bytes(before))) => before.push_str(&text),
                (input::Part::Bytes(text), _) => parts.push(Typed::Bytes(text.into_owned())),
                (input::Part::Signal(number), _) => parts.push(Typed::Signal(number)),
                (input::Part::Eof, _) => parts.push(Typed::Eof),
            }
        }
        Ok(Self {
            parts,
            resize: args.rows.is_some() || args.cols.is_some(),
            id: args.id,
            wait_for: args.wait_for,
            wait: args.wait,
        })
    }

    /// Returns the error that the job has ended, so nothing can be typed.
    pub fn is_over(&self) -> ToolError {
        input::is_over(&self.id)
    }

    /// Plans what is read afterwards if the caller waits for a pattern. `offset` is how much the job had written before.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub async fn reaction(&self, offset: u64, cx: &Cx) -> ToolResult<Option<Reading>> {
        let Some(pattern) = Pattern::read(self.wait_for.clone(), cx).await? else {
            return Ok(None);
        };
        let wait = wait::time(self.wait)?;
        Ok(Some(Reading::until(pattern, offset, wait, cx)))
    }

    /// Builds the answer of `job_input`. `sent` holds how many bytes were sent, and how much the job had written before.
    pub fn answer(
        self,
        sent: (usize, u64),
        reaction: Option<(Output, String)>,
    ) -> Answer<input::Sent> {
        input::told(self.id, sent, reaction)
    }
}
