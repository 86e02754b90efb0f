//! `client/sampling`: questions to the model. Deprecated by 2026-07-28, and still served.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Object,
    content::{Content, Role},
    meta::Meta,
    tool::Tool,
};

/// `params` of `sampling/createMessage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens of the answer.
    pub max_tokens: u64,
    /// The system prompt, which the model is told first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The preferred model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// `none`; the other values are deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<String>,
    /// The randomness of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The texts at which the model stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// Data for the provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// The tools that the model may use. The client must declare `sampling.tools`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Whether the model must use a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
}

impl CreateMessageParams {
    /// Asks the model one question.
    pub fn ask(text: impl Into<String>, max_tokens: u64) -> Self {
        Self {
            messages: vec![SamplingMessage::user(Content::text(text))],
            max_tokens,
            ..Self::default()
        }
    }
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// The speaker.
    pub role: Role,
    /// One block or several.
    pub content: OneOrMany,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// Makes a message of the user.
    pub fn user(content: Content) -> Self {
        Self {
            role: Role::User,
            content: OneOrMany::One(content),
            meta: None,
        }
    }
}

/// One block or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "one block is the usual case, and a conversation holds few"
)]
pub enum OneOrMany {
    /// One block.
    One(Content),
    /// Several blocks.
    Many(Vec<Content>),
}

impl OneOrMany {
    /// The blocks.
    pub fn as_slice(&self) -> &[Content] {
        match self {
            Self::One(content) => std::slice::from_ref(content),
            Self::Many(contents) => contents,
        }
    }
}

/// Preferences for the choice of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names of models to look for. The first match wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<ModelHint>>,
    /// The importance of a low cost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// The importance of speed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// The importance of intelligence, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A model's name, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelHint {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The answer of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// The speaker.
    pub role: Role,
    /// One block or several.
    pub content: OneOrMany,
    /// The name of the model that answered.
    pub model: String,
    /// `endTurn`, `maxTokens`, `stopSequence`, `toolUse` or the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageResult {
    /// Makes the answer of the model of this name.
    ///
    /// ```
    /// # use lmcp::wire::{Content, sampling::CreateMessageResult};
    /// let answer = CreateMessageResult::new("some-model", Content::text("Hello."));
    /// ```
    pub fn new(model: impl Into<String>, content: Content) -> Self {
        Self {
            role: Role::Assistant,
            content: OneOrMany::One(content),
            model: model.into(),
            stop_reason: None,
            meta: None,
        }
    }
}

/// Turns the answer into JSON, for functions that answer all kinds of question.
impl From<CreateMessageResult> for Value {
    fn from(result: CreateMessageResult) -> Self {
        json!(result)
    }
}
