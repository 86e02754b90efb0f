//! Content blocks, and what they are annotated with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{meta::Meta, resource::Resource, shape::present};

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// A block of content. Results of tools, prompts and conversations are made of these blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Sound.
    Audio(MediaContent),
    /// The contents of a resource.
    Resource(EmbeddedResource),
    /// A resource that can be read.
    ResourceLink(ResourceLink),
    /// A model's wish to use a tool (sampling only).
    ToolUse(ToolUseContent),
    /// The result of that tool (sampling only).
    ToolResult(ToolResultContent),
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            annotations: None,
            meta: None,
        })
    }

    /// A picture, as its file has it, and its MIME type.
    ///
    /// ```
    /// # use lmcp::wire::Content;
    /// let png = b"\x89PNG\r\n\x1a\n";
    /// let block = Content::image(png, "image/png");
    /// # assert!(serde_json::to_string(&block).unwrap().contains("iVBORw0KGgo="));
    /// ```
    pub fn image(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::image_base64(base64(bytes), mime_type)
    }

    /// A picture that is Base64 already.
    pub fn image_base64(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(MediaContent::new(data, mime_type))
    }

    /// A sound, as its file has it, and its MIME type.
    pub fn audio(bytes: &[u8], mime_type: impl Into<String>) -> Self {
        Self::audio_base64(base64(bytes), mime_type)
    }

    /// A sound that is Base64 already.
    pub fn audio_base64(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(MediaContent::new(data, mime_type))
    }

    /// The contents of a resource.
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource(EmbeddedResource {
            resource,
            annotations: None,
            meta: None,
        })
    }

    /// A resource that can be read.
    pub fn link(resource: Resource) -> Self {
        Self::ResourceLink(resource)
    }

    /// The same block, annotated. Blocks of sampling have no annotations and stay as they are.
    #[must_use]
    pub fn annotate(mut self, annotations: Annotations) -> Self {
        let slot = match &mut self {
            Self::Text(block) => &mut block.annotations,
            Self::Image(block) | Self::Audio(block) => &mut block.annotations,
            Self::Resource(block) => &mut block.annotations,
            Self::ResourceLink(block) => &mut block.annotations,
            Self::ToolUse(_) | Self::ToolResult(_) => return self,
        };
        *slot = Some(annotations);
        self
    }

    /// The text, if that is what it is.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

/// Text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// The readers that the block is meant for, and its importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// A picture or sound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaContent {
    /// Base64.
    pub data: String,
    /// The MIME type.
    pub mime_type: String,
    /// The readers that the block is meant for, and its importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl MediaContent {
    fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            mime_type: mime_type.into(),
            annotations: None,
            meta: None,
        }
    }
}

/// The contents of a resource, as a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The contents.
    pub resource: ResourceContents,
    /// The readers that the block is meant for, and its importance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// A resource that can be read, as a block: a [`Resource`] with a `type`.
pub type ResourceLink = Resource;

/// A model's wish to use a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUseContent {
    /// Names this use.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolUseContent {
    /// A model uses a tool. The result names the use by this id.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            input,
            meta: None,
        }
    }
}

/// The result of a tool that the model used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The use this answers.
    pub tool_use_id: String,
    /// Unstructured.
    pub content: Vec<Content>,
    /// Structured; `null` is a value like any other.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured_content: Option<Value>,
    /// The tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolResultContent {
    /// Answers the use with this id.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<Content>) -> Self {
        Self {
            tool_use_id: tool_use_id.into(),
            content,
            structured_content: None,
            is_error: None,
            meta: None,
        }
    }
}

/// The contents of a resource: text or, as Base64, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// Where it was read.
    pub uri: String,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Text; exactly one of this and `blob` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// `_meta`
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceContents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: Some(text.into()),
            blob: None,
            meta: None,
        }
    }

    /// Bytes.
    pub fn blob(uri: impl Into<String>, bytes: &[u8]) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: None,
            blob: Some(base64(bytes)),
            meta: None,
        }
    }

    /// The same contents with a MIME type.
    #[must_use]
    pub fn mime(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// Bytes as the standard padded Base64 that every binary member of the protocol uses.
pub fn base64(bytes: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}

/// For whom something is, and how important.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// For whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// A picture for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// `https:` or `data:`.
    pub src: String,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// `48x48`, or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

impl Icon {
    /// A picture at an address.
    pub fn new(src: impl Into<String>) -> Self {
        Self {
            src: src.into(),
            mime_type: None,
            sizes: Vec::new(),
            theme: None,
        }
    }
}
