//! What we write is valid by the official schema: every type that has a constructor, with all its members set.

mod full;

use lmcp_wire as wire;
use serde::Serialize;
use serde_json::{Value, json};
use wire::{jsonrpc, method::notification};

use crate::official;

#[test]
fn a_value_of_another_shape_is_found_out() {
    let Some(faults) = faults("Tool", &json!({ "name": 5 })) else {
        return;
    };
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn a_misspelt_member_is_found_out() {
    let mut tool = json!(full::tool());
    tool["annotations"]["readonlyHint"] = json!(true);
    let Some(faults) = faults("Tool", &tool) else {
        return;
    };
    assert_eq!(faults.len(), 1, "{faults:?}");
}

#[test]
fn plain_errors_are_valid() {
    for (name, error) in [
        ("ParseError", wire::RpcError::parse("not JSON")),
        (
            "InvalidRequestError",
            wire::RpcError::invalid_request("no method"),
        ),
        (
            "MethodNotFoundError",
            wire::RpcError::method_not_found("x/y"),
        ),
        (
            "InvalidParamsError",
            wire::RpcError::invalid_params("no name").with_data(json!({ "at": "name" })),
        ),
        ("InternalError", wire::RpcError::internal("broken")),
    ] {
        assert_valid(name, &error);
    }
}

#[test]
fn missing_capability_is_valid() {
    let error = wire::RpcError::missing_capability(&full::client_capabilities());
    assert_valid(
        "MissingRequiredClientCapabilityError",
        &read(&jsonrpc::error(Some(&1.into()), &error)),
    );
}

#[test]
fn unsupported_version_is_valid() {
    let error = wire::RpcError::unsupported_version("1900-01-01", &wire::ProtocolVersion::ALL);
    assert_valid(
        "UnsupportedProtocolVersionError",
        &read(&jsonrpc::error(Some(&"a".into()), &error)),
    );
}

#[test]
fn header_mismatch_is_valid() {
    let error = wire::RpcError::header_mismatch("`mcp-name` is `a`, the body says `b`");
    assert_valid(
        "HeaderMismatchError",
        &read(&jsonrpc::error(Some(&1.into()), &error)),
    );
}

#[test]
fn an_error_that_answers_nobody_is_valid() {
    assert_valid(
        "JSONRPCErrorResponse",
        &read(&jsonrpc::error(None, &wire::RpcError::parse("not JSON"))),
    );
}

#[test]
fn a_tool_with_everything_set_is_valid() {
    assert_valid("Tool", &full::tool());
}

#[test]
fn a_tool_with_nothing_set_is_valid() {
    assert_valid(
        "Tool",
        &wire::Tool::new("bare", json!({ "type": "object" })),
    );
}

#[test]
fn each_kind_of_content_is_valid() {
    for (name, content) in full::blocks() {
        assert_valid(name, &content);
    }
}

#[test]
fn each_kind_of_content_is_valid_where_any_is() {
    for (_, content) in full::blocks() {
        assert_valid("ContentBlock", &content);
    }
}

#[test]
fn each_kind_of_content_is_valid_with_annotations() {
    for (name, content) in full::blocks() {
        assert_valid(name, &content.annotate(full::annotations()));
    }
}

#[test]
fn the_blocks_of_sampling_are_valid() {
    let used = json!({ "type": "tool_use", "id": "u", "name": "t", "input": { "a": 1 } });
    let returned =
        json!({ "type": "tool_result", "toolUseId": "u", "content": [], "structuredContent": [1] });
    for (name, block) in [("ToolUseContent", used), ("ToolResultContent", returned)] {
        let content: wire::Content = serde_json::from_value(block).unwrap();
        assert_valid(name, &content);
        assert_valid("SamplingMessageContentBlock", &content);
    }
}

#[test]
fn the_contents_of_a_resource_are_valid() {
    assert_valid(
        "TextResourceContents",
        &wire::ResourceContents::text("file:///a", "text").mime("text/plain"),
    );
    assert_valid(
        "BlobResourceContents",
        &wire::ResourceContents::blob("file:///b", b"\x00\xff").mime("image/png"),
    );
}

#[test]
fn a_resource_with_everything_set_is_valid() {
    assert_valid("Resource", &full::resource());
}

#[test]
fn a_resource_template_with_everything_set_is_valid() {
    assert_valid("ResourceTemplate", &full::resource_template());
}

#[test]
fn a_prompt_with_everything_set_is_valid() {
    assert_valid("Prompt", &full::prompt());
}

#[test]
fn the_capabilities_of_a_client_are_valid() {
    assert_valid("ClientCapabilities", &full::client_capabilities());
}

#[test]
fn the_capabilities_of_a_server_are_valid() {
    assert_valid("ServerCapabilities", &full::server_capabilities());
}

#[test]
fn an_implementation_with_everything_set_is_valid() {
    assert_valid("Implementation", &full::implementation());
}

#[test]
fn a_form_is_valid() {
    let field = json!({ "type": "string", "title": "Name", "minLength": 1 });
    let schema = json!({ "type": "object", "properties": { "name": field }, "required": ["name"] });
    assert_valid(
        "ElicitRequestFormParams",
        &wire::elicit::ElicitParams::form("who?", schema),
    );
}

#[test]
fn a_link_is_valid() {
    let params = wire::elicit::ElicitParams::url("sign in", "https://example.com/in?x=1");
    assert_valid("ElicitRequestURLParams", &params);
}

#[test]
fn a_question_to_the_model_is_valid() {
    assert_valid("CreateMessageRequestParams", &full::question());
}

#[test]
fn each_input_request_is_valid() {
    for (name, request) in full::input_requests() {
        assert_valid(name, &request);
    }
}

#[test]
fn a_filter_with_everything_set_is_valid() {
    assert_valid("SubscriptionFilter", &full::filter());
}

#[test]
fn notifications_are_valid() {
    let mut cancelled = wire::progress::CancelledParams::new("a".into());
    cancelled.reason = Some("gone".into());
    let mut progress = wire::progress::ProgressParams::new(7.into(), 0.5);
    (progress.total, progress.message) = (Some(1.0), Some("half".into()));
    let mut log = wire::logging::LoggingMessageParams::new(
        wire::LoggingLevel::Emergency,
        json!({ "on": "fire" }),
    );
    log.logger = Some("core".into());
    let on_stream = json!({ "_meta": { wire::meta::SUBSCRIPTION_ID: 7 } });
    let acknowledged =
        json!({ "_meta": { wire::meta::SUBSCRIPTION_ID: "s" }, "notifications": full::filter() });
    for (name, message) in [
        (
            "CancelledNotification",
            jsonrpc::notification(notification::CANCELLED, &cancelled),
        ),
        (
            "ProgressNotification",
            jsonrpc::notification(notification::PROGRESS, &progress),
        ),
        (
            "LoggingMessageNotification",
            jsonrpc::notification(notification::MESSAGE, &log),
        ),
        (
            "ToolListChangedNotification",
            jsonrpc::notification(notification::TOOLS_CHANGED, &on_stream),
        ),
        (
            "PromptListChangedNotification",
            jsonrpc::notification(notification::PROMPTS_CHANGED, &on_stream),
        ),
        (
            "ResourceListChangedNotification",
            jsonrpc::notification(notification::RESOURCES_CHANGED, &on_stream),
        ),
        (
            "SubscriptionsAcknowledgedNotification",
            jsonrpc::notification(notification::LISTEN_ACKNOWLEDGED, &acknowledged),
        ),
    ] {
        assert_valid(name, &read(&message));
        assert_valid("ServerNotification", &read(&message));
    }
}

#[test]
fn a_changed_resource_is_told_validly() {
    let params = json!({ "uri": "file:///a", "_meta": { wire::meta::SUBSCRIPTION_ID: "s" } });
    let params: wire::resource::ResourceUpdatedParams = serde_json::from_value(params).unwrap();
    let message = jsonrpc::notification(notification::RESOURCE_UPDATED, &params);
    assert_valid("ResourceUpdatedNotification", &read(&message));
}

#[test]
fn the_result_of_a_tool_is_valid() {
    let mut result =
        wire::CallToolResult::new(full::blocks().into_iter().map(|(_, block)| block).collect());
    result.structured_content = Some(json!([1, 2]));
    result.meta = Some(full::meta());
    assert_valid("CallToolResult", &complete(&result));
}

#[test]
fn the_failure_of_a_tool_is_valid() {
    assert_valid(
        "CallToolResult",
        &complete(&wire::CallToolResult::error("no such file")),
    );
}

#[test]
fn a_rendered_prompt_is_valid() {
    let user = wire::PromptMessage::user(wire::Content::text("?"));
    let assistant = wire::PromptMessage::assistant(wire::Content::text("!"));
    let mut result = wire::prompt::GetPromptResult::new(vec![user, assistant]);
    result.description = Some("a talk".into());
    assert_valid("GetPromptResult", &complete(&result));
}

#[test]
fn what_reading_gives_is_valid() {
    let contents = vec![
        wire::ResourceContents::text("file:///a", "a"),
        wire::ResourceContents::blob("file:///b", b"b"),
    ];
    assert_valid(
        "ReadResourceResult",
        &cached(&wire::resource::ReadResourceResult::new(contents)),
    );
}

#[test]
fn what_discovery_gives_is_valid() {
    let versions = wire::ProtocolVersion::ALL
        .map(|version| version.to_string())
        .to_vec();
    let mut result = wire::discover::DiscoverResult::new(versions, full::server_capabilities());
    result.instructions = Some("ask".into());
    assert_valid("DiscoverResult", &cached(&result));
}

#[test]
fn too_many_suggestions_are_cut_to_a_valid_number() {
    let values = (0..250).map(|n| n.to_string()).collect();
    assert_valid(
        "CompleteResult",
        &complete(&wire::completion::CompleteResult::new(values)),
    );
}

#[test]
fn a_result_that_asks_for_input_is_valid() {
    let questions = full::input_requests()
        .into_iter()
        .map(|(name, request)| (name.into(), request))
        .collect();
    let mut result = json!(wire::input::InputRequiredResult::new(
        questions,
        "state".into()
    ));
    result["resultType"] = json!("input_required");
    assert_valid("InputRequiredResult", &result);
}

#[test]
fn a_whole_response_is_valid() {
    let result = complete(&wire::CallToolResult::new(vec![wire::Content::text(
        "done",
    )]));
    assert_valid(
        "CallToolResultResponse",
        &read(&jsonrpc::result(&"a\"b".into(), &result)),
    );
}

/// Fails with all that is wrong with a value as the official type of that name.
#[track_caller]
fn assert_valid(name: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).expect("wire types serialise");
    let faults = faults(name, &value).unwrap_or_default();
    assert!(
        faults.is_empty(),
        "not a valid {name}: {value:#}\n{}",
        faults.join("\n")
    );
}

/// What is wrong with a value; `None` where there is no schema to say so.
fn faults(name: &str, value: &Value) -> Option<Vec<String>> {
    let mut definitions = official::schema()?["$defs"].take();
    close(&mut definitions);
    let schema = json!({ "$ref": format!("#/$defs/{name}"), "$defs": definitions });
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    let validator = options
        .build(&schema)
        .expect("the official schema has this type, and is a schema");
    let faults = validator.iter_errors(value);
    Some(
        faults
            .map(|fault| format!("at `{}`: {fault}", fault.instance_path()))
            .collect(),
    )
}

/// Allows in objects only the members that are named: the official schema leaves them open, and a member that we
/// misspelt would be as good as any.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let named = keywords.get("properties").is_some_and(Value::is_object);
            if named && !keywords.contains_key("additionalProperties") {
                keywords.insert("unevaluatedProperties".into(), json!(false));
            }
            // `_meta` is for everybody, and the parts of an `allOf` say nothing of each other's members.
            let open = |name: &str| name.ends_with("MetaObject") || name == "allOf";
            let rest = keywords.iter_mut().filter(|(name, _)| !open(name));
            rest.for_each(|(_, keyword)| close(keyword));
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A result as the engine completes it.
fn complete(result: &impl Serialize) -> Value {
    let mut result = json!(result);
    result["resultType"] = json!("complete");
    result
}

/// A result that may be reused, as the engine completes it.
fn cached(result: &impl Serialize) -> Value {
    let mut result = complete(result);
    let Value::Object(hint) = json!(wire::discover::CacheHint::public(60_000)) else {
        unreachable!("a hint is a struct")
    };
    result
        .as_object_mut()
        .expect("a result is an object")
        .extend(hint);
    result
}

fn read(message: &[u8]) -> Value {
    serde_json::from_slice(message).expect("what we write is JSON")
}
