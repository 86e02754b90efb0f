//! Asking the user, the model or the client, from the middle of a handler.
//!
//! 2026-07-28 has no requests from server to client. A question that has no answer yet ends the handler with an error that `?`
//! passes on. The client is told which answers are missing, asks for them, and sends its request again with the answers; the
//! handler runs again from the top, and this time the question returns. The server holds nothing in between: earlier answers
//! travel with the client in a sealed state. So **ask before you act**: the lines above an unanswered question run again.
//!
//! In a session of an older revision a question is a request to the client, and the handler waits for its answer. The same
//! holds once the handler has become a task (see [`Cx::detach`]).

mod inline;
mod question;

use lmcp_wire::{
    ClientCapabilities,
    input::{InputRequest, InputRequests},
    meta,
    method::request,
    roots::Root,
    sampling::{CreateMessageParams, CreateMessageResult},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::time::timeout;

pub use inline::{Asks, PendingAnswer};
pub use question::{Form, FormSchema, Link, OrNone, Question, Questions, Roots, Sample};

use inline::{expect_questions, lacking, taken_back};

use crate::{
    asking::Thinking,
    call::Call,
    client::KeepsKeys,
    cx::Cx,
    error::{ToolError, ToolResult},
    reply::Reply,
    session::{self, NoAnswer, Session},
};

impl Cx {
    /// Asks the user to fill in a form, and returns the answer. `T` is a flat struct of strings, numbers, booleans and simple enums,
    /// and the doc comments of its fields are what the user reads. Never ask for a secret this way: use [`Cx::ask_link`].
    ///
    /// `key` names the question within the handler. Clients of 2026-07-28 answer by calling again: the handler then runs again from
    /// its first line, and finds the answer by this key. So ask before you change anything.
    ///
    /// ```
    /// # use lmcp::{Cx, ToolResult};
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Sure {
    ///     /// Really erase it?
    ///     yes: bool,
    /// }
    /// # #[derive(Deserialize, JsonSchema)] struct Erase { path: String }
    /// async fn erase(args: Erase, cx: Cx) -> ToolResult<String> {
    ///     let sure: Sure = cx.ask("sure", format!("Erase {}?", args.path)).await?;
    ///     Ok(if sure.yes { "erased".into() } else { "kept".into() })
    /// }
    /// ```
    ///
    /// # Errors
    /// Pass every error on with `?`, unless you know better.
    ///
    /// - The user said no. [`Cx::ask_opt`] returns `None` then.
    /// - The client cannot ask users. The model reads that the client lacks `elicitation`; since 2026-07-28 the client program gets the
    ///   JSON-RPC error *missing client capability* in its place. [`ToolError::is_missing_capability`] tells.
    /// - The answer is not there yet, in 2026-07-28. The error ends this run of the handler, and the next run finds the answer.
    pub async fn ask<T: FormSchema>(&self, key: &str, message: impl Into<String>) -> ToolResult<T> {
        self.ask_question(Form::new(key, message)).await
    }

    /// Asks the user a question that is answered by yes or no. A user who declines, or dismisses the question, says no.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// async fn erase(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    ///     if !cx.confirm("sure", "Erase everything? This cannot be undone.").await? {
    ///         return Ok("nothing was erased");
    ///     }
    ///     Ok("erased")
    /// }
    /// ```
    ///
    /// The question is no protection from the client program: a client of 2026-07-28 may answer `key` in its first request, and the
    /// handler then runs without a question. The client speaks for its user in any case.
    ///
    /// The client shows a form with one field, `yes`. A test answers with `ElicitResult::accept([("yes".into(), true.into())])`.
    ///
    /// # Errors
    /// As [`Cx::ask`], but not if the user says no.
    pub async fn confirm(&self, key: &str, message: impl Into<String>) -> ToolResult<bool> {
        let answer: Option<Confirmed> = self.ask_opt(key, message).await?;
        Ok(answer.is_some_and(|answer| answer.yes))
    }

    /// Asks as [`Cx::ask`] does, and returns `None` if the user says no.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Name { name: String }
    /// async fn greet(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let name: Option<Name> = cx.ask_opt("name", "What is your name?").await?;
    ///     Ok(name.map_or("Hello!".into(), |answer| format!("Hello, {}!", answer.name)))
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Cx::ask`], but not if the user says no.
    pub async fn ask_opt<T: FormSchema>(
        &self,
        key: &str,
        message: impl Into<String>,
    ) -> ToolResult<Option<T>> {
        self.ask_question(Form::new(key, message).or_none()).await
    }

    /// Asks the user to open a link, for secrets and sign-ins, which must not pass through the client. Returns when the user has
    /// agreed to open the link; the user may still be busy there.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// async fn sign_in(_: NoArgs, cx: Cx) -> ToolResult<&'static str> {
    ///     cx.ask_link("sign-in", "Sign in to the shop.", "https://shop.example/login").await?;
    ///     Ok("come back when you are signed in")
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Cx::ask`].
    pub async fn ask_link(
        &self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> ToolResult<()> {
        self.ask_question(Link::new(key, message, url)).await
    }

    /// Asks the model of the client to go on with a conversation.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// use lmcp::wire::sampling::CreateMessageParams;
    ///
    /// async fn haiku(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let answer = cx.sample("haiku", CreateMessageParams::ask("Write a haiku about pipes.", 100)).await?;
    ///     Ok(answer.content.as_slice()[0].as_text().unwrap_or_default().to_owned())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Cx::ask`].
    pub async fn sample(
        &self,
        key: &str,
        params: CreateMessageParams,
    ) -> ToolResult<CreateMessageResult> {
        self.ask_question(Sample::new(key, params)).await
    }

    /// Asks for the folders that the client works in. The client is asked every time, so the answer is never stale.
    /// [`roots::covers`](crate::roots::covers) tells whether a path is in one of the folders.
    ///
    /// # Errors
    /// As [`Cx::ask`].
    pub async fn roots(&self) -> ToolResult<Vec<Root>> {
        self.ask_question(Roots::new("roots")).await
    }

    /// Puts one [`Question`] to the client: a form, a link, a question to the model, or for folders.
    ///
    /// # Errors
    /// As [`Cx::ask`].
    pub async fn ask_question<Q: Question>(&self, question: Q) -> ToolResult<Q::Answer> {
        self.ask_all((question,)).await.map(|(answer,)| answer)
    }

    /// Puts up to four questions to the client at once, as a tuple.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult, ask::{Form, Roots}};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Name { name: String }
    /// async fn start(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let (name, folders) = cx.ask_all((Form::<Name>::new("name", "A name for the project?"), Roots::new("roots"))).await?;
    ///     Ok(format!("{} in {} folders", name.name, folders.len()))
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Cx::ask`]. One refusal refuses them all.
    pub async fn ask_all<Q: Questions>(&self, questions: Q) -> ToolResult<Q::Answers> {
        if let Some(session) = self.0.request.session() {
            return self.ask_session(session, &questions).await;
        }
        let Some(task) = self.0.asking.task() else {
            return self.put(&questions)?.ok_or_else(ToolError::needs_input);
        };
        let mut answered = task.answered.subscribe();
        loop {
            if let Some(answers) = self.put(&questions)? {
                return Ok(answers);
            }
            self.0.engine.tasks.touch(&task.id, &self.0.engine);
            answered
                .changed()
                .await
                .map_err(|_| ToolError::new("the task has ended"))?;
        }
    }

    /// Asks in a session: sends each question as a request of its own, and waits for the answers.
    async fn ask_session<Q: Questions>(
        &self,
        session: &Session,
        questions: &Q,
    ) -> ToolResult<Q::Answers> {
        if let Some(answers) = self.put(questions)? {
            return Ok(answers);
        }
        let open = std::mem::take(&mut self.0.asking.lock().open);
        let live = session.live().map_err(ToolError::rpc)?;
        let premises = &self.0.engine.premises;
        let places = expect_questions(premises, &self.0.request, open.len(), &live);
        let _places = places.map_err(ToolError::rpc)?;
        let mut waiting = Vec::with_capacity(open.len());
        for (key, request) in open {
            let asked = Asked {
                question: live.question(self.id()),
                call: &self.0,
                answered: false,
            };
            let wants_key = self.caller().extension::<KeepsKeys>().is_some();
            let written = wants_key.then(|| with_key(&request, &key)).flatten();
            self.0
                .outbox
                .push(Reply::Ask(asked.question.ask(request, written)));
            waiting.push((key, asked));
        }
        let thinking = (Thinking::begin(&self.0.asking), live.wait());
        let answered = timeout(self.0.engine.limits.ask_wait, wait(waiting, &self.0)).await;
        drop(thinking);
        answered.unwrap_or_else(|_| {
            let seconds = self.0.engine.limits.ask_wait.as_secs();
            Err(ToolError::new(format!(
                "nobody answered within {seconds} s"
            )))
        })?;
        let mut open = InputRequests::new();
        let answers = questions.answers(&self.0.asking.lock().answers, &mut open)?;
        answers.ok_or_else(|| {
            let keys: Vec<_> = open.into_keys().collect();
            let keys = keys.join("`, `");
            ToolError::new(format!("the answer to `{keys}` does not fit the question"))
        })
    }

    /// Keeps a value for the next run of this handler, which follows the answer to a question. The client carries the value, sealed.
    ///
    /// ```
    /// # use lmcp::{Cx, NoArgs, ToolResult};
    /// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Sure { yes: bool }
    /// # async fn reserve_number() -> u64 { 7 }
    /// async fn order(_: NoArgs, cx: Cx) -> ToolResult<String> {
    ///     let number = match cx.recall::<u64>() {
    ///         Some(number) => number,
    ///         None => reserve_number().await,
    ///     };
    ///     cx.remember(&number)?;
    ///     let sure: Sure = cx.ask("sure", format!("Place order {number}?")).await?;
    ///     Ok(if sure.yes { format!("placed {number}") } else { "dropped".into() })
    /// }
    /// ```
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn remember(&self, value: &impl Serialize) -> ToolResult<()> {
        self.0.asking.lock().memory = Some(serde_json::to_value(value)?);
        Ok(())
    }

    /// The value that an earlier run of this handler kept with [`Cx::remember`], for the same request.
    pub fn recall<T: DeserializeOwned>(&self) -> Option<T> {
        let memory = self.0.asking.lock().memory.clone()?;
        serde_json::from_value(memory).ok()
    }

    /// Returns the answers if all are there. Otherwise notes the open questions, and returns `None`.
    fn put<Q: Questions>(&self, questions: &Q) -> ToolResult<Option<Q::Answers>> {
        let mut known = self.0.asking.lock();
        let mut open = InputRequests::new();
        let answers = questions.answers(&known.answers, &mut open)?;
        if answers.is_some() {
            return Ok(answers);
        }
        if !CAN_ASK.contains(&self.0.request.method()) {
            return Err(ToolError::new("only tools, resources and prompts can ask"));
        }
        if self.0.request.session().is_some_and(Session::is_absent) {
            let words = "this asks the client, which needs a session: send `initialize` first";
            return Err(ToolError::new(words));
        }
        let lacking = lacking(open.values(), &self.capabilities());
        if lacking != ClientCapabilities::default() {
            return Err(ToolError::missing(lacking));
        }
        if self.0.asking.is_task()
            && let Some(key) = open.keys().find(|key| known.answers.contains_key(*key))
        {
            // A task cannot ask again: it uses each key only once.
            return Err(ToolError::new(format!(
                "the answer to `{key}` does not fit the question"
            )));
        }
        known.open.extend(open);
        Ok(None)
    }
}

/// The parameters of a question, with its key in `_meta`.
fn with_key(question: &InputRequest, key: &str) -> Option<Box<RawValue>> {
    let mut params = serde_json::to_value(question).ok()?;
    let mut params = params
        .get_mut("params")
        .map_or_else(|| json!({}), Value::take);
    params["_meta"][meta::KEY] = key.into();
    to_raw_value(&params).ok()
}

/// The answer to [`Cx::confirm`].
#[derive(Deserialize, JsonSchema)]
struct Confirmed {
    /// Yes or no?
    yes: bool,
}

/// Waits until the client of a session has answered every question.
async fn wait(waiting: Vec<(String, Asked<'_>)>, call: &Call) -> ToolResult<()> {
    for (key, mut asked) in waiting {
        let answer = asked.question.answer().await;
        asked.answered = true;
        let answer = answer.map_err(|none| match none {
            NoAnswer::Error(err) => ToolError::new(format!("no answer to `{key}`: {err}")),
            NoAnswer::Unaskable(words) => ToolError::new(words),
        })?;
        call.asking.lock().answers.insert(key, answer);
    }
    Ok(())
}

/// A question that the client may still think about. If nobody waits for the answer any more, the client is told so.
struct Asked<'a> {
    question: session::Question,
    call: &'a Call,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.call.outbox.push(taken_back(&self.question));
        }
    }
}

/// The requests whose handlers may ask, by the specification.
const CAN_ASK: [&str; 3] = [
    request::TOOLS_CALL,
    request::RESOURCES_READ,
    request::PROMPTS_GET,
];
