//! The kinds of question. Each knows how to read its answer.

use std::marker::PhantomData;

use lmcp_wire::{
    self as wire,
    elicit::{ElicitAction, ElicitParams, ElicitResult},
    input::{EmptyParams, InputRequest, InputRequests, InputResponses},
    roots::{ListRootsResult, Root},
    sampling::{CreateMessageParams, CreateMessageResult},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use crate::{
    error::{ToolError, ToolResult},
    schema,
};

/// A type that a form can return: a flat struct that derives `Deserialize` and `JsonSchema`.
pub trait FormSchema: DeserializeOwned + JsonSchema + Send + 'static {}
impl<T: DeserializeOwned + JsonSchema + Send + 'static> FormSchema for T {}

/// A question to the client.
pub trait Question: Send + Sync {
    /// The type of the answer.
    type Answer: Send;

    /// The key of the question, which is the same in every run of the handler.
    fn key(&self) -> &str;

    /// The question as the client gets it.
    fn request(&self) -> InputRequest;

    /// Reads an answer. `None`: the text is no answer to this question. In 2026-07-28 the question is then asked again; in a
    /// session and in a task, where it cannot be asked again, the handler gets an error.
    ///
    /// # Errors
    /// The user said no.
    fn read(&self, answer: &RawValue) -> ToolResult<Option<Self::Answer>>;
}

/// A form for the user.
#[derive(Debug)]
pub struct Form<T> {
    key: String,
    message: String,
    schema: Value,
    answer: PhantomData<fn() -> T>,
}

impl<T: FormSchema> Form<T> {
    /// A form with the fields of `T`.
    pub fn new(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            message: message.into(),
            schema: schema::form::<T>(),
            answer: PhantomData,
        }
    }

    /// Returns `None` for a user who says no, in the place of an error.
    pub fn or_none(self) -> OrNone<Self> {
        OrNone(self)
    }
}

impl Form<wire::Object> {
    /// Makes a form from a JSON Schema, for fields that a Rust type cannot describe.
    pub fn raw(key: &str, message: impl Into<String>, schema: Value) -> Self {
        Self {
            key: key.into(),
            message: message.into(),
            schema,
            answer: PhantomData,
        }
    }
}

impl<T: DeserializeOwned + Send> Question for Form<T> {
    type Answer = T;

    fn key(&self) -> &str {
        &self.key
    }

    fn request(&self) -> InputRequest {
        InputRequest::Elicit(ElicitParams::form(&*self.message, self.schema.clone()))
    }

    fn read(&self, answer: &RawValue) -> ToolResult<Option<T>> {
        let Some(result) = accepted(answer, &self.key)? else {
            return Ok(None);
        };
        let content = Value::Object(result.content.unwrap_or_default());
        Ok(serde_json::from_value(content).ok())
    }
}

/// A question that a user may refuse: the answer is `None` then. [`Form::or_none`] makes one.
#[derive(Debug)]
pub struct OrNone<Q>(Q);

impl<Q: Question> Question for OrNone<Q> {
    type Answer = Option<Q::Answer>;

    fn key(&self) -> &str {
        self.0.key()
    }

    fn request(&self) -> InputRequest {
        self.0.request()
    }

    fn read(&self, answer: &RawValue) -> ToolResult<Option<Self::Answer>> {
        match self.0.read(answer) {
            Ok(answer) => Ok(answer.map(Some)),
            Err(_refusal) => Ok(Some(None)),
        }
    }
}

/// A link for the user.
#[derive(Debug)]
pub struct Link {
    key: String,
    message: String,
    url: String,
}

impl Link {
    /// A link, and the words that the user reads beside it.
    pub fn new(key: &str, message: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            message: message.into(),
            url: url.into(),
        }
    }
}

impl Question for Link {
    type Answer = ();

    fn key(&self) -> &str {
        &self.key
    }

    fn request(&self) -> InputRequest {
        InputRequest::Elicit(ElicitParams::url(&*self.message, &*self.url))
    }

    fn read(&self, answer: &RawValue) -> ToolResult<Option<()>> {
        Ok(accepted(answer, &self.key)?.map(|_| ()))
    }
}

/// A question to the client's model.
#[derive(Debug)]
pub struct Sample {
    key: String,
    params: CreateMessageParams,
}

impl Sample {
    /// A conversation for the model to go on with.
    pub fn new(key: &str, params: CreateMessageParams) -> Self {
        Self {
            key: key.into(),
            params,
        }
    }
}

impl Question for Sample {
    type Answer = CreateMessageResult;

    fn key(&self) -> &str {
        &self.key
    }

    fn request(&self) -> InputRequest {
        InputRequest::Sample(Box::new(self.params.clone()))
    }

    fn read(&self, answer: &RawValue) -> ToolResult<Option<CreateMessageResult>> {
        Ok(object(answer))
    }
}

/// The folders the client works in.
#[derive(Debug)]
pub struct Roots {
    key: String,
}

impl Roots {
    /// Asks for the folders, under this key.
    pub fn new(key: &str) -> Self {
        Self { key: key.into() }
    }
}

impl Question for Roots {
    type Answer = Vec<Root>;

    fn key(&self) -> &str {
        &self.key
    }

    fn request(&self) -> InputRequest {
        InputRequest::Roots(EmptyParams::default())
    }

    fn read(&self, answer: &RawValue) -> ToolResult<Option<Vec<Root>>> {
        Ok(object::<ListRootsResult>(answer).map(|result| result.roots))
    }
}

/// Reads an answer that must be an object. serde by itself would also take an array of the members.
fn object<T: DeserializeOwned>(answer: &RawValue) -> Option<T> {
    let text = answer.get();
    text.starts_with('{')
        .then(|| serde_json::from_str(text).ok())?
}

fn accepted(answer: &RawValue, key: &str) -> ToolResult<Option<ElicitResult>> {
    let Some(result) = object::<ElicitResult>(answer) else {
        return Ok(None);
    };
    match result.action {
        ElicitAction::Accept => Ok(Some(result)),
        ElicitAction::Decline => Err(ToolError::new(format!(
            "the user declined to answer `{key}`"
        ))),
        _ => Err(ToolError::new(format!(
            "the user dismissed the question `{key}`"
        ))),
    }
}

/// Several questions at once: a tuple of [`Question`]s.
pub trait Questions: Send + Sync {
    /// A tuple of answers.
    type Answers: Send;

    /// Returns all answers, or `None` if some are missing. The questions without an answer are added to `open`.
    ///
    /// # Errors
    /// The user said no to a question.
    fn answers(
        &self,
        known: &InputResponses,
        open: &mut InputRequests,
    ) -> ToolResult<Option<Self::Answers>>;
}

fn answer<Q: Question>(
    question: &Q,
    known: &InputResponses,
    open: &mut InputRequests,
) -> ToolResult<Option<Q::Answer>> {
    let answer = known
        .get(question.key())
        .map_or(Ok(None), |answer| question.read(answer))?;
    if answer.is_none() {
        open.insert(question.key().into(), question.request());
    }
    Ok(answer)
}

macro_rules! questions {
    ($($name:ident)+) => {
        impl<$($name: Question),+> Questions for ($($name,)+) {
            type Answers = ($($name::Answer,)+);

            #[allow(non_snake_case, reason = "one name for the type and its value keeps the macro short")]
            fn answers(&self, known: &InputResponses, open: &mut InputRequests) -> ToolResult<Option<Self::Answers>> {
                let ($($name,)+) = self;
                // Every question is read before the first missing answer returns, so that all open ones are asked at once.
                $(let $name = answer($name, known, open)?;)+
                Ok((|| Some(($($name?,)+)))())
            }
        }
    };
}

questions!(A);
questions!(A B);
questions!(A B C);
questions!(A B C D);
