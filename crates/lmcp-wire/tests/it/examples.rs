//! The official examples, each through the type that this crate has for it.
//!
//! Here is which type that is; how an example is held against it is `examples/check.rs`.

mod check;

use lmcp_wire as wire;
use wire::error;

use self::check::{
    Nothing, Outcome, Prompts, ResourceTemplates, Resources, Tools, bare_error, complete,
    cut_params, data, error_response, field_of_a_form, list_roots, notification, params, request,
    response, result,
};
use crate::official;

#[test]
fn every_official_type_with_examples_is_mapped() {
    let Some(examples) = official::examples() else {
        return;
    };
    let unmapped: Vec<_> = examples
        .iter()
        .map(|example| &example.of)
        .filter(|name| check(name).is_none())
        .collect();
    assert!(
        unmapped.is_empty(),
        "add to CHECKS what this crate does with {unmapped:?}"
    );
}

#[test]
fn every_mapped_type_has_examples() {
    let Some(examples) = official::examples() else {
        return;
    };
    let has = |name: &str| examples.iter().any(|example| example.of == name);
    let stale: Vec<_> = CHECKS
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !has(name))
        .collect();
    assert!(
        stale.is_empty(),
        "CHECKS names types without examples: {stale:?}"
    );
}

#[test]
fn no_official_example_is_missing() {
    let Some(examples) = official::examples() else {
        return;
    };
    assert!(
        examples.len() >= KNOWN_EXAMPLES,
        "{} examples, of {KNOWN_EXAMPLES}",
        examples.len()
    );
}

#[test]
fn every_official_example_means_to_us_what_it_says() {
    let Some(examples) = official::examples() else {
        return;
    };
    let failures: Vec<_> = examples
        .iter()
        .filter_map(|example| {
            let failure = check(&example.of)?(&example.text).err()?;
            Some(format!("{}\n    {failure}", example.path.display()))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        examples.len(),
        failures.join("\n")
    );
}

/// How many examples the revision was published with.
const KNOWN_EXAMPLES: usize = 129;

/// What is done with the text of an example.
type Check = fn(&str) -> Outcome;

/// What this crate does with the examples of each official type.
const CHECKS: &[(&str, Check)] = &[
    ("AudioContent", data::<wire::Content>),
    ("BlobResourceContents", data::<wire::ResourceContents>),
    ("BooleanSchema", field_of_a_form),
    ("CallToolRequest", request),
    ("CallToolRequestParams", cut_params),
    ("CallToolResult", result::<wire::CallToolResult>),
    ("CallToolResultResponse", response::<wire::CallToolResult>),
    ("CancelledNotification", notification),
    (
        "CancelledNotificationParams",
        params::<wire::progress::CancelledParams>,
    ),
    ("ClientCapabilities", data::<wire::ClientCapabilities>),
    ("CompleteRequest", request),
    ("CompleteRequestParams", complete),
    ("CompleteResult", result::<wire::completion::CompleteResult>),
    (
        "CompleteResultResponse",
        response::<wire::completion::CompleteResult>,
    ),
    ("CreateMessageRequest", data::<wire::input::InputRequest>),
    (
        "CreateMessageRequestParams",
        data::<wire::sampling::CreateMessageParams>,
    ),
    (
        "CreateMessageResult",
        data::<wire::sampling::CreateMessageResult>,
    ),
    ("DiscoverRequest", request),
    ("DiscoverResult", result::<wire::discover::DiscoverResult>),
    (
        "DiscoverResultResponse",
        response::<wire::discover::DiscoverResult>,
    ),
    ("ElicitRequest", data::<wire::input::InputRequest>),
    (
        "ElicitRequestFormParams",
        data::<wire::elicit::ElicitParams>,
    ),
    ("ElicitRequestURLParams", data::<wire::elicit::ElicitParams>),
    ("ElicitResult", data::<wire::elicit::ElicitResult>),
    ("EmbeddedResource", data::<wire::Content>),
    ("GetPromptRequest", request),
    ("GetPromptRequestParams", cut_params),
    ("GetPromptResult", result::<wire::prompt::GetPromptResult>),
    (
        "GetPromptResultResponse",
        response::<wire::prompt::GetPromptResult>,
    ),
    (
        "HeaderMismatchError",
        error_response::<{ error::HEADER_MISMATCH }>,
    ),
    ("ImageContent", data::<wire::Content>),
    ("InputRequests", data::<wire::input::InputRequests>),
    (
        "InputRequiredResult",
        result::<wire::input::InputRequiredResult>,
    ),
    ("InputResponses", data::<wire::input::InputResponses>),
    ("InternalError", bare_error::<{ error::INTERNAL_ERROR }>),
    (
        "InvalidParamsError",
        bare_error::<{ error::INVALID_PARAMS }>,
    ),
    ("ListPromptsRequest", request),
    ("ListPromptsResult", result::<Prompts>),
    ("ListPromptsResultResponse", response::<Prompts>),
    ("ListResourceTemplatesRequest", request),
    ("ListResourceTemplatesResult", result::<ResourceTemplates>),
    (
        "ListResourceTemplatesResultResponse",
        response::<ResourceTemplates>,
    ),
    ("ListResourcesRequest", request),
    ("ListResourcesResult", result::<Resources>),
    ("ListResourcesResultResponse", response::<Resources>),
    ("ListRootsRequest", list_roots),
    ("ListRootsResult", data::<wire::roots::ListRootsResult>),
    ("ListToolsRequest", request),
    ("ListToolsResult", result::<Tools>),
    ("ListToolsResultResponse", response::<Tools>),
    ("LoggingMessageNotification", notification),
    (
        "LoggingMessageNotificationParams",
        params::<wire::logging::LoggingMessageParams>,
    ),
    (
        "MethodNotFoundError",
        bare_error::<{ error::METHOD_NOT_FOUND }>,
    ),
    (
        "MissingRequiredClientCapabilityError",
        error_response::<{ error::MISSING_CLIENT_CAPABILITY }>,
    ),
    ("ModelPreferences", data::<wire::sampling::ModelPreferences>),
    ("NumberSchema", field_of_a_form),
    (
        "PaginatedRequestParams",
        params::<wire::discover::PaginatedParams>,
    ),
    ("ParseError", bare_error::<{ error::PARSE_ERROR }>),
    ("ProgressNotification", notification),
    (
        "ProgressNotificationParams",
        params::<wire::progress::ProgressParams>,
    ),
    ("PromptListChangedNotification", notification),
    ("ReadResourceRequest", request),
    (
        "ReadResourceResult",
        result::<wire::resource::ReadResourceResult>,
    ),
    (
        "ReadResourceResultResponse",
        response::<wire::resource::ReadResourceResult>,
    ),
    ("Resource", data::<wire::Resource>),
    ("ResourceLink", data::<wire::Content>),
    ("ResourceListChangedNotification", notification),
    ("ResourceUpdatedNotification", notification),
    (
        "ResourceUpdatedNotificationParams",
        data::<wire::resource::ResourceUpdatedParams>,
    ),
    ("Root", data::<wire::roots::Root>),
    ("SamplingMessage", data::<wire::sampling::SamplingMessage>),
    ("ServerCapabilities", data::<wire::ServerCapabilities>),
    ("StringSchema", field_of_a_form),
    ("SubscriptionsAcknowledgedNotification", notification),
    ("SubscriptionsListenRequest", request),
    ("SubscriptionsListenResult", result::<Nothing>),
    ("SubscriptionsListenResultResponse", response::<Nothing>),
    ("TextContent", data::<wire::Content>),
    ("TextResourceContents", data::<wire::ResourceContents>),
    ("TitledMultiSelectEnumSchema", field_of_a_form),
    ("TitledSingleSelectEnumSchema", field_of_a_form),
    ("Tool", data::<wire::Tool>),
    ("ToolListChangedNotification", notification),
    ("ToolResultContent", data::<wire::Content>),
    ("ToolUseContent", data::<wire::Content>),
    (
        "UnsupportedProtocolVersionError",
        error_response::<{ error::UNSUPPORTED_VERSION }>,
    ),
    ("UntitledMultiSelectEnumSchema", field_of_a_form),
    ("UntitledSingleSelectEnumSchema", field_of_a_form),
];

fn check(name: &str) -> Option<Check> {
    CHECKS
        .iter()
        .find(|(of, _)| *of == name)
        .map(|(_, check)| *check)
}
