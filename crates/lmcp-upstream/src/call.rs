//! One call, from its beginning to its end.

use std::{collections::BTreeMap, sync::Arc};

use lmcp_client::conversation;
use lmcp_core::{
    CALL_BYTES, NoRoom, Outcome, ProgressReport, Reply, Request, Reservation, Say, ask::Asks,
};
use lmcp_wire::{
    RpcError, error,
    input::InputRequest,
    logging::LoggingMessageParams,
    members::Members,
    method::{notification, request},
    params::Params,
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::time::{sleep, timeout};

use crate::{
    callers::Client,
    cross::{self, Answers},
    limits::{ARGUMENTS_WAIT, ASK_WAIT, ROUNDS, TOOL_PAGES},
    mirrored,
    news::News,
    slot::{Question, Said, Slot},
    state::{AtStart, Origin, Shared, question},
};

/// A call that the server has or will get. Dropping it cancels the call.
pub(crate) struct Call {
    id: i64,
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

impl Call {
    /// Makes a call.
    ///
    /// # Errors
    /// There is no room for it, or the server that it is for is gone.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        call: conversation::Call,
        origin: Origin,
    ) -> Result<Self, RpcError> {
        let (id, shared) = (call.id, Arc::clone(shared));
        let slot = shared.begin(call, origin)?;
        Ok(Self { id, slot, shared })
    }

    /// The answer to a call that nobody is told about on the way.
    pub(crate) async fn answered(&self) -> Result<Box<RawValue>, RpcError> {
        loop {
            if let Said::Done(result) = self.slot.next().await {
                return result;
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.cancel(self.id);
    }
}

/// Answers one request.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    request: Request,
    say: Say,
) -> Result<Outcome, RpcError> {
    let peer = shared.peer().await?;
    let turn = Turn {
        shared,
        request,
        say,
    };
    turn.check_headers(&peer).await?;
    turn.request.check_flaw()?;
    let (shared, request) = (&turn.shared, &turn.request);
    shared.held.expire();
    if let Some(held) = shared.held.take(request) {
        let mut open = Vec::new();
        let params: Params<'_> = request.params()?;
        let responses = params.input_responses.map_or("{}", RawValue::get);
        let responses: lmcp_wire::input::InputResponses =
            serde_json::from_str(responses).unwrap_or_default();
        for (key, question) in held.questions {
            match responses.get(&key) {
                Some(answer) => shared.answer(question.number, Ok(answer)),
                None => open.push((key, question)),
            }
        }
        if !open.is_empty() {
            return hold(held.call, open, request);
        }
        return turn.follow(held.call).await;
    }
    if let Some(level) = request.log_level() {
        shared.wish_level(level);
    }
    let call = turn.begin(&peer, None).await?;
    if peer.version.has_handshake() {
        return turn.follow(call).await;
    }
    turn.rounds(&peer, call).await
}

/// Waits for memory for the copy of a long request that is written for the server.
///
/// # Errors
/// There is no memory. The request was not sent.
async fn room_for_arguments(request: &Request) -> Result<Option<Reservation>, RpcError> {
    let bytes = request.message_bytes();
    if bytes <= CALL_BYTES {
        return Ok(None);
    }
    let Some(account) = request.account() else {
        return Ok(None);
    };
    let reserved = account.reserve(bytes, ARGUMENTS_WAIT).await;
    reserved.map(Some).map_err(no_room)
}

/// A request, with the channel that reports its progress.
struct Turn {
    shared: Arc<Shared>,
    request: Request,
    say: Say,
}

impl Turn {
    async fn begin(
        &self,
        peer: &conversation::Peer,
        answers: Option<&Answers>,
    ) -> Result<Call, RpcError> {
        let (shared, request) = (&self.shared, &self.request);
        let counted = room_for_arguments(request).await?;
        let id = shared.ids.next();
        let line = cross::line(request, peer, &shared.profile, id, answers);
        let mut call = conversation::Call::written(id, request.method(), line, peer);
        // The line counts as memory of its caller until it is written.
        if let Some(counted) = counted {
            call.line = counted.hold(call.line);
        }
        let may_ask = matches!(
            request.method(),
            request::TOOLS_CALL | request::PROMPTS_GET | request::RESOURCES_READ
        );
        let origin = Origin {
            client: Client::of(request),
            is_askable: may_ask && self.asks() != Asks::Never,
            account: request.account(),
            start: request.extension::<AtStart>().copied(),
        };
        Call::begin(shared, call, origin)
    }

    /// Makes a call to a server that asks in its answer, for a caller that may have to be asked while the call runs.
    async fn rounds(self, peer: &conversation::Peer, mut call: Call) -> Result<Outcome, RpcError> {
        let mut has_listed = false;
        for _ in 0..ROUNDS {
            let result = match self.end(&call).await {
                Ok(result) => result,
                // The tool wants headers that were not known: its schema names them. The tool was not called.
                Err(error)
                    if error.code == error::HEADER_MISMATCH
                        && self.request.method() == request::TOOLS_CALL
                        && !has_listed =>
                {
                    has_listed = true;
                    self.list_tools(peer).await?;
                    call = self.begin(peer, None).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match (cross::asks(&result), self.asks()) {
                (false, _) | (true, Asks::ByRetry) => return Ok(result.into()),
                (true, Asks::Inline) => {
                    let answers = self.ask_all(&result).await?;
                    call = self.begin(peer, Some(&answers)).await?;
                }
                (true, _) => {
                    let words = "the server asks for something, and this client cannot be asked";
                    return Err(RpcError::invalid_request(words));
                }
            }
        }
        let words = format!("the server still asks after {ROUNDS} answers");
        Err(RpcError::internal(words))
    }

    /// Checks the headers of a call against the schema of its tool. Asks for the schemas if they are not known yet.
    async fn check_headers(&self, peer: &conversation::Peer) -> Result<(), RpcError> {
        let Some(mirrored) = &self.shared.mirrored else {
            return Ok(());
        };
        if !mirrored::is_checked(&self.request) {
            return Ok(());
        }
        if !mirrored.is_known(self.shared.times_opened()) {
            self.list_tools(peer).await?;
        }
        mirrored.check(&self.request)
    }

    /// Learns from the end of a call: a list of tools says which headers must be checked.
    fn ended(&self, result: Result<Box<RawValue>, RpcError>) -> Result<Box<RawValue>, RpcError> {
        if let Ok(page) = &result
            && self.request.method() == request::TOOLS_LIST
        {
            self.shared.learn(page);
        }
        result
    }

    /// Lists the tools, so that the link and the check of headers learn which arguments are repeated in headers.
    async fn list_tools(&self, peer: &conversation::Peer) -> Result<(), RpcError> {
        let mut cursor = None;
        for _ in 0..TOOL_PAGES {
            let id = self.shared.ids.next();
            let (request, profile) = (&self.request, &self.shared.profile);
            let params = cross::beside(request, peer, profile, id, cursor.as_ref());
            let call = conversation::Call::new(id, request::TOOLS_LIST, &params, peer);
            let listing = Call::begin(&self.shared, call, Origin::default())?;
            let page = self.end(&listing).await?;
            self.shared.learn(&page);
            let page: Value = serde_json::from_str(page.get()).unwrap_or_default();
            if page["nextCursor"].is_null() {
                break;
            }
            cursor = Some(page["nextCursor"].clone());
        }
        Ok(())
    }

    /// Waits for the end of a call. Questions of the server are dropped.
    async fn end(&self, call: &Call) -> Result<Box<RawValue>, RpcError> {
        loop {
            match call.slot.next().await {
                Said::Done(result) => return self.ended(result),
                Said::Question(_) => {}
                other => self.pass(other).await,
            }
        }
    }

    /// Makes a call to a server that asks while it works.
    async fn follow(self, call: Call) -> Result<Outcome, RpcError> {
        loop {
            let question = match call.slot.next().await {
                Said::Done(result) => return Ok(self.ended(result)?.into()),
                Said::Question(question) => question,
                other => {
                    self.pass(other).await;
                    continue;
                }
            };
            if !self.is_askable(&question) {
                continue;
            }
            match self.asks() {
                Asks::ByRetry => {
                    let mut questions = vec![(key(1), question)];
                    while let Some(more) = call.slot.next_question() {
                        if self.is_askable(&more) {
                            questions.push((key(questions.len() + 1), more));
                        }
                    }
                    return hold(call, questions, &self.request);
                }
                _ => self.ask(&call, &question).await,
            }
        }
    }

    /// Returns how the caller is asked. If the server was told that nobody can be asked, nobody is.
    fn asks(&self) -> Asks {
        match self.shared.profile.asks_nobody() {
            true => Asks::Never,
            false => self.request.asks(),
        }
    }

    /// Returns whether the caller can be asked this question. If not, the server is told.
    fn is_askable(&self, question: &Question) -> bool {
        let asked = InputRequest::read(&question.method, &question.params);
        let is_askable = asked.is_some_and(|asked| cross::can_be_asked(&self.request, &asked));
        if !is_askable {
            let words = format!("the client cannot be asked for `{}`", question.method);
            let error = RpcError::invalid_request(words);
            self.shared.answer(question.number, Err(&error));
        }
        is_askable
    }

    /// Asks the caller while the call runs, and passes the answer to the server.
    async fn ask(&self, call: &Call, question: &Question) {
        let number = question.number;
        let asked = self.request.pass_on(&question.method, &question.params);
        let (reply, mut answer) = match asked {
            Ok(asked) => asked,
            Err(error) => return self.shared.answer(number, Err(&error)),
        };
        self.say.say(reply).await;
        let answered = tokio::select! {
            answered = &mut answer => Some(answered),
            () = call.slot.moot(number) => None,
            () = sleep(ASK_WAIT) => {
                self.shared.answer(number, Err(&unanswered()));
                None
            }
        };
        match answered {
            Some(answered) => {
                let answered = answered.as_deref();
                self.shared.answer(number, answered);
            }
            None => self.say.say(answer.take_back()).await,
        }
    }

    /// Asks everything that a server of 2026-07-28 wants to know, one question after the other.
    async fn ask_all(&self, result: &RawValue) -> Result<Answers, RpcError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Required {
            #[serde(default)]
            input_requests: BTreeMap<String, Question>,
            request_state: Option<String>,
        }
        #[derive(Deserialize)]
        struct Question {
            method: String,
            params: Option<Box<RawValue>>,
        }
        let wrong = |err| RpcError::internal(format!("the server's questions do not fit: {err}"));
        let asked: Required = serde_json::from_str(result.get()).map_err(wrong)?;
        let mut answers = Answers {
            state: asked.request_state,
            ..Answers::default()
        };
        for (key, Question { method, params }) in asked.input_requests {
            let params = params.as_deref().unwrap_or(RawValue::NULL);
            let (reply, mut answer) = self.request.pass_on(&method, params)?;
            self.say.say(reply).await;
            let Ok(answered) = timeout(ASK_WAIT, &mut answer).await else {
                self.say.say(answer.take_back()).await;
                return Err(unanswered());
            };
            answers.responses.push((key, answered?));
        }
        Ok(answers)
    }

    async fn pass(&self, said: Said) {
        let reply = match said {
            Said::Progress(params) => {
                let mut report = ProgressReport::new(params.progress);
                report.total = params.total;
                report.message = params.message;
                Reply::Progress(report)
            }
            Said::Notice(news) if &*news.method == notification::MESSAGE => {
                match serde_json::from_str::<LoggingMessageParams>(news.params.get()) {
                    Ok(params) => Reply::Log(params),
                    Err(_) => return,
                }
            }
            Said::Notice(News { method, params, .. }) => {
                let params = (*params).to_owned();
                Reply::Notify(lmcp_core::Notice::new(method.to_string(), params))
            }
            Said::Question(_) | Said::Done(_) => return,
        };
        self.say.say(reply).await;
    }
}

/// Answers the request with questions. The call continues when the client sends the request again.
fn hold(
    call: Call,
    questions: Vec<(String, Question)>,
    request: &Request,
) -> Result<Outcome, RpcError> {
    let mut asked = Members::default();
    for (key, one) in &questions {
        asked.set(key.clone(), &question(&one.method, &one.params));
    }
    let shared = Arc::clone(&call.shared);
    let state = shared.held.hold(call, questions, request)?;
    // The task of the upstream limits how long the call is held.
    shared.woken.notify_one();
    let mut result = Members::default();
    result.set("resultType", "input_required");
    result.set("inputRequests", &asked);
    result.set("requestState", &state);
    let result = to_raw_value(&result).map_err(|err| RpcError::internal(err.to_string()))?;
    Ok(result.into())
}

/// Makes the error for a request that does not fit into the memory of its caller.
fn no_room(no_room: NoRoom) -> RpcError {
    let mut error = RpcError::from(no_room);
    if let Some(data) = error.data.as_mut() {
        data["began"] = json!(false);
    }
    error
}

/// Makes the error for a question that the client did not answer in time.
fn unanswered() -> RpcError {
    let seconds = ASK_WAIT.as_secs();
    RpcError::internal(format!("nobody answered within {seconds} s"))
}

fn key(number: usize) -> String {
    format!("question {number}")
}
