//! Wrong registrations are refused before a client can see them, and the refusal names the thing and the rule.

use lmcp_core::{Completing, Cx, NoArgs, Prompt, Resource, Server, Tool, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::server;

#[test]
fn a_wrong_tool_name_is_refused() {
    for name in [
        "",
        &"n".repeat(129),
        "two words",
        "a/b",
        "naïve",
        "line\nbreak",
        "semi;colon",
    ] {
        let error = refusal(server().tool(Tool::new(name, nothing).read_only()));
        assert_eq!(
            error,
            format!(
                "tool `{name}`: a name has 1 to 128 characters of `A-Z a-z 0-9 _ . -`; `.title(…)` sets a name with spaces"
            )
        );
        let error = refusal(server().prompt(Prompt::new(name, nothing)));
        assert!(error.starts_with(&format!("prompt `{name}`: ")), "{error}");
    }
}

#[test]
fn every_name_at_the_edge_of_the_rule_is_taken() {
    for name in ["a", &"n".repeat(128), "A-z_0.9", "-", "."] {
        let server = server()
            .tool(Tool::new(name, nothing).read_only())
            .prompt(Prompt::new(name, nothing));
        assert!(server.start().is_ok(), "{name}");
    }
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
struct Tagged {
    name: String,
    tags: Vec<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is only read")]
struct Titled {
    title: String,
}

async fn tagged(_: Tagged, _: Cx) -> String {
    String::new()
}

async fn titled(_: Titled, _: Cx) -> String {
    String::new()
}

#[test]
fn what_could_never_be_read_is_refused() {
    let error = refusal(server().prompt(Prompt::new("p", tagged)));
    assert!(
        error.starts_with("prompt `p`: its argument `tags` is a list or a structure"),
        "{error}"
    );
    let error = refusal(server().resource(Resource::template("x://{name}", "t", titled)));
    assert!(
        error.starts_with("resource template `x://{name}`: its handler needs `title`"),
        "{error}"
    );
    let error = refusal(server().resource(Resource::template("x://{name}/{tags}", "t", tagged)));
    assert!(
        error.contains("the variable `tags` is read as a list"),
        "{error}"
    );
    assert!(
        server()
            .resource(Resource::template("x://{title}", "t", titled))
            .start()
            .is_ok()
    );
}

#[test]
fn two_things_of_one_name_are_refused() {
    let tool = || Tool::new("twin", nothing).read_only();
    let prompt = || Prompt::new("twin", nothing);
    let resource = || Resource::text("twin://a", "a", "text");
    let template = || Resource::template("twin://{name}", "t", named);
    for (server, expected) in [
        (
            server().tool(tool()).tool(tool()),
            "tool `twin`: there are two of this name",
        ),
        (
            server().tool(tool()).tools(ToolSet::new(()).tool(tool())),
            "tool `twin`: there are two of this name",
        ),
        (
            server().prompt(prompt()).prompt(prompt()),
            "prompt `twin`: there are two of this name",
        ),
        (
            server().resource(resource()).resource(resource()),
            "resource `twin://a`: there are two of this name",
        ),
        (
            server().resource(template()).resource(template()),
            "resource template `twin://{name}`: there are two of this name",
        ),
    ] {
        assert_eq!(refusal(server), expected);
    }
}

#[test]
fn names_differ_by_case_and_kind() {
    let server = server()
        .tool(Tool::new("name", nothing).read_only())
        .tool(Tool::new("Name", nothing).read_only())
        .prompt(Prompt::new("name", nothing));
    assert!(server.start().is_ok());
}

#[test]
fn a_wrong_input_schema_is_refused_with_its_place_and_rule() {
    let with = |property: Value| json!({ "type": "object", "properties": { "a": property } });
    for (schema, place, rule) in [
        (json!({}), "at the root", "needs `\"type\": \"object\"`"),
        (json!(true), "at the root", "is an object"),
        (json!([]), "at the root", "is an object"),
        (json!({ "type": "string" }), "`/type`", "\"object\""),
        (
            json!({ "type": ["object", "null"] }),
            "`/type`",
            "\"object\"",
        ),
        (
            with(json!({ "$ref": "https://example.com/s.json" })),
            "`/properties/a/$ref`",
            "remote reference",
        ),
        (
            with(json!({ "$ref": "other.json#/a" })),
            "`/properties/a/$ref`",
            "remote reference",
        ),
        (
            with(json!({ "$ref": "#/$defs/none" })),
            "`/properties/a/$ref`",
            "leads to nothing",
        ),
        (
            with(json!({ "$ref": "#none" })),
            "`/properties/a/$ref`",
            "no anchor",
        ),
        (with(json!({ "$ref": "#/properties/a" })), "", ""),
        (
            with(json!({ "type": "strnig" })),
            "`/properties/a/type`",
            "strnig",
        ),
        (
            with(json!({ "minimum": "1" })),
            "`/properties/a/minimum`",
            "",
        ),
        (
            with(json!({ "pattern": "(" })),
            "`/properties/a/pattern`",
            "",
        ),
        (
            json!({ "type": "object", "required": "a" }),
            "`/required`",
            "",
        ),
        (
            json!({ "type": "object", "$schema": "http://json-schema.org/draft-04/schema#" }),
            "`/$schema`",
            "",
        ),
    ] {
        let tool = Tool::raw("odd", schema.clone(), raw).read_only();
        let error = refusal(server().tool(tool));
        assert!(
            error.starts_with("tool `odd`: its input schema, ")
                && error.contains(place)
                && error.contains(rule),
            "{schema}: {error}"
        );
    }
}

#[test]
fn a_wrong_output_schema_is_refused() {
    let tool = Tool::raw("odd", json!({ "type": "object" }), raw)
        .output_schema(json!({ "$ref": "#/$defs/none" }))
        .read_only();
    let error = refusal(server().tool(tool));
    assert!(
        error.starts_with("tool `odd`: its output schema, at `/$ref`"),
        "{error}"
    );
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    async fn of_text(_: String, _: Cx) -> &'static str {
        ""
    }
    async fn of_list(_: Vec<u8>, _: Cx) -> &'static str {
        ""
    }
    async fn of_unit(_: (), _: Cx) -> &'static str {
        ""
    }
    for tool in [
        Tool::new("odd", of_text),
        Tool::new("odd", of_list),
        Tool::new("odd", of_unit),
    ] {
        let error = refusal(server().tool(tool.read_only()));
        assert!(
            error.starts_with("tool `odd`: its input schema, ") && error.contains("object"),
            "{error}"
        );
    }
}

#[test]
fn a_wrong_mirrored_header_is_refused() {
    let property = |header: Value, kind: &str| {
        let property = json!({ "type": kind, "x-mcp-header": header });
        json!({ "type": "object", "properties": { "a": property } })
    };
    for (schema, rule) in [
        (property(json!(""), "string"), "no header name"),
        (property(json!("Two Words"), "string"), "no header name"),
        (property(json!("Näme"), "string"), "no header name"),
        (property(json!(7), "string"), "no header name"),
        (
            property(json!("N"), "number"),
            "type string, integer or boolean",
        ),
        (
            property(json!("N"), "array"),
            "type string, integer or boolean",
        ),
        (
            json!({ "type": "object", "properties": {
                "a": { "type": "string", "x-mcp-header": "Same" },
                "b": { "type": "string", "x-mcp-header": "sAME" },
            }}),
            "names a header twice",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string", "x-mcp-header": "N" } } } }),
            "through `properties` alone",
        ),
    ] {
        let error = refusal(server().tool(Tool::raw("odd", schema, raw).read_only()));
        assert!(
            error.starts_with("tool `odd`: ") && error.contains(rule),
            "{error}"
        );
    }
}

#[test]
fn only_a_simple_argument_that_is_there_can_be_mirrored() {
    for (argument, header) in [("nobody", "N"), ("region", "two words"), ("weight", "N")] {
        let tool = Tool::new("odd", mirrored).mirror(argument, header);
        let error = refusal(server().tool(tool.read_only()));
        assert!(error.starts_with("tool `odd`: "), "{argument}: {error}");
    }
    for argument in ["region", "count", "dry"] {
        let tool = Tool::new("fine", mirrored).mirror(argument, "N");
        assert!(
            server().tool(tool.read_only()).start().is_ok(),
            "{argument}"
        );
    }
}

#[test]
fn a_wrong_resource_is_refused() {
    for (uri, rule) in [
        ("", "a URI begins with a scheme"),
        ("no scheme", "a URI begins with a scheme"),
        ("1a://x", "a URI begins with a scheme"),
        ("ä://x", "a URI begins with a scheme"),
        ("note:", "nothing follows the scheme"),
        ("note://", "nothing follows the scheme"),
        ("note://a b", "a URI has no spaces"),
        ("note://a\nb", "a URI has no spaces"),
    ] {
        let error = refusal(server().resource(Resource::text(uri, "r", "text")));
        assert!(
            error.starts_with(&format!("resource `{uri}`: ")) && error.contains(rule),
            "{error}"
        );
    }
    for (template, rule) in [
        ("note://{name", "a `{` has no `}`"),
        ("note://}{name}", "a `}` has no `{`"),
        ("note://plain", "it has no variable"),
        ("note://{a}{b}", "need a text between them"),
        ("note://{a}/{a}", "stands twice"),
        ("note://{#a}", "is not supported"),
        ("note://{}", "is not supported"),
        ("note://{a*}", "is not supported"),
        ("note://{?a}/b", "nothing may follow"),
    ] {
        let error = refusal(server().resource(Resource::template(template, "t", named)));
        assert!(
            error.starts_with(&format!("resource template `{template}`: ")) && error.contains(rule),
            "{error}"
        );
    }
}

#[test]
fn only_what_is_there_can_be_completed() {
    let template = || Resource::template("note://{name}", "t", named);
    let prompt = || Prompt::new("ask", prompted);
    for (server, expected) in [
        (
            server().resource(template().complete("nobody", suggest)),
            "resource `note://{name}`: it has no variable `nobody` to complete",
        ),
        (
            server().resource(Resource::text("note://a", "a", "").complete("name", suggest)),
            "resource `note://a`: it has no variable `name` to complete",
        ),
        (
            server().prompt(prompt().complete("nobody", suggest)),
            "prompt `ask`: it has no argument `nobody` to complete",
        ),
    ] {
        assert_eq!(refusal(server), expected);
    }
    let server = server()
        .resource(template().complete("name", suggest))
        .prompt(prompt().complete("name", suggest));
    assert!(server.start().is_ok());
}

#[test]
fn right_schemas_are_taken_as_they_are() {
    for schema in [
        json!({ "type": "object" }),
        json!({ "type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": false }),
        json!({ "type": "object", "$defs": { "a": { "type": "string" } }, "properties": { "a": { "$ref": "#/$defs/a" } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#spot" } }, "$defs": { "d": { "$anchor": "spot" } } }),
        json!({ "type": "object", "if": { "required": ["a"] }, "then": { "required": ["b"] }, "x-own": 1 }),
    ] {
        let tool = Tool::raw("fine", schema.clone(), raw).read_only();
        assert!(server().tool(tool).start().is_ok(), "{schema}");
    }
}

/// The words of a server that does not start. They are for its author, so it is a mistake in the configuration.
fn refusal(server: Server) -> String {
    let error = server.start().expect_err("the server does not start");
    assert!(error.is_config() && !error.is_io(), "{error}");
    error.to_string()
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    #[expect(dead_code, reason = "only the schema matters here")]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema matters here")]
struct Mirrored {
    region: String,
    count: i32,
    dry: bool,
    weight: f64,
}

async fn nothing(_: NoArgs, _: Cx) -> &'static str {
    "nothing"
}

async fn raw(_: Value, _: Cx) -> &'static str {
    "raw"
}

async fn named(_: Named, _: Cx) -> String {
    String::new()
}

async fn prompted(_: Named, _: Cx) -> String {
    String::new()
}

async fn mirrored(_: Mirrored, _: Cx) -> &'static str {
    "mirrored"
}

async fn suggest(_: Completing, _: Cx) -> Vec<String> {
    Vec::new()
}
