//! Tools that are there for their schemas.

use lmcp::{Cx, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(
            Tool::raw("json_schema_2020_12_tool", contact_schema(), contact)
                .about("Returns the contact it is given.")
                .read_only(),
        )
        .tool(
            Tool::new("test_custom_header", custom_header)
                .about("Returns a text that its header repeats.")
                .mirror("region", "Region")
                .read_only(),
        )
}

async fn contact(contact: Value, _: Cx) -> String {
    contact.to_string()
}

/// Keywords that must reach the client as they are.
fn contact_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

#[derive(Deserialize, JsonSchema)]
struct CustomHeader {
    /// Where to look.
    region: String,
}

async fn custom_header(args: CustomHeader, _: Cx) -> String {
    args.region
}
