//! Turns a tool of a host into a tool of the fleet: the same arguments, and the argument for the hosts. No I/O.

use lmcp_wire::{Tool, ToolAnnotations, order::ORDER};
use serde_json::{Value, json};

use crate::limits::{COPY_PARALLEL, MOST_PARALLEL, MOST_WAIT, PARALLEL};

/// The local tools that the fleet has, in the order in which they are listed.
pub(crate) const LOCAL: [&str; 13] = [
    "shell",
    "shell_bg",
    "jobs",
    "job_output",
    "job_input",
    "job_stop",
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "search_files",
    "fetch",
    "systeminfo",
];

/// The beginning of the names of remote tools.
pub(crate) const PREFIX: &str = "remote_";

/// The tool that lists hosts.
pub(crate) const LIST_HOSTS: &str = "remote_list_hosts";

/// The tool that copies from host to host.
pub(crate) const COPY: &str = "remote_copy";

/// Returns the remote form of a local tool. The results of several hosts have another form than that of one host, so the
/// tool has no output schema.
pub(crate) fn remote(local: &Tool, known: &str) -> Tool {
    let mut tool = local.clone();
    tool.name = format!("{PREFIX}{}", local.name);
    let about = local.description.as_deref().unwrap_or_default();
    tool.description = Some(format!("On hosts of the fleet: {about}"));
    tool.title = local
        .title
        .as_ref()
        .map(|title| format!("{title} (remote)"));
    tool.output_schema = None;
    let schema = &mut tool.input_schema;
    add(schema, "host", host(known));
    add(
        schema,
        "parallel",
        json!({ "type": "integer", "minimum": 1, "maximum": MOST_PARALLEL,
            "description": format!("Hosts that it runs on at once. Default {PARALLEL}") }),
    );
    add(
        schema,
        "host_wait",
        json!({ "type": "number", "minimum": 0, "maximum": MOST_WAIT.as_secs(),
            "description": "Seconds to wait for a host that is down. Default 0: the call fails at once" }),
    );
    let own = ["parallel", "host_wait"];
    let local_order = order(&local.input_schema);
    let names = ["host"]
        .into_iter()
        .chain(local_order.iter().map(String::as_str));
    schema[ORDER] = names.chain(own).collect::<Vec<_>>().into();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let required: Vec<_> = [json!("host")].into_iter().chain(required).collect();
    schema["required"] = required.into();
    tool
}

/// Returns the names of the arguments of a schema, in the order for models.
fn order(schema: &Value) -> Vec<String> {
    let listed = schema[ORDER].as_array().into_iter().flatten();
    let mut names: Vec<_> = listed
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let all = schema["properties"].as_object().into_iter().flatten();
    for (name, _) in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn add(schema: &mut Value, name: &str, property: Value) {
    schema["properties"][name] = property;
}

/// Returns the schema of `host`: a text without a list of allowed names, because such a list would refuse lists, globs and
/// groups.
fn host(known: &str) -> Value {
    json!({
        "type": "string",
        "description": format!("A host, several as `a,b`, a glob as `web*`, a group as `@web`, or `@all`. {known}"),
        "x-mcp-header": "Host",
    })
}

/// Returns the tool that lists hosts.
pub(crate) fn list_hosts(known: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "host": { "type": "string",
                "description": format!("Only these: a host, `a,b`, a glob, `@group`. Default all. {known}") },
            "force": { "type": "boolean",
                "description": "Look at every host now instead of telling what was last seen" },
        },
        "additionalProperties": false,
        ORDER: ["host", "force"],
    });
    let mut tool = Tool::new(LIST_HOSTS, schema);
    tool.title = Some("List hosts".to_owned());
    let about = "The hosts that remote_* tools run on: UP or DOWN, since when, the reason, the way to each and its groups.";
    tool.description = Some(about.to_owned());
    let mut hints = ToolAnnotations::default();
    hints.read_only_hint = Some(true);
    hints.destructive_hint = Some(false);
    hints.idempotent_hint = Some(true);
    hints.open_world_hint = Some(true);
    tool.annotations = Some(hints);
    tool
}

/// Returns the tool that copies from host to host.
pub(crate) fn copy(known: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "host": { "type": "string", "description": format!("The host to copy from. {known}"), "x-mcp-header": "Host" },
            "path": { "type": "string", "description": "The file or folder there" },
            "to_host": { "type": "string",
                "description": "The host to copy to; for several `a,b`, a glob, a group as `@web`" },
            "to_path": { "type": "string",
                "description": "What the copy is called; with `/` at its end, the folder it is put into. Default: as `path`" },
            "overwrite": { "type": "boolean",
                "description": "Replace a file that exists; add to a folder that exists, replacing files in it" },
            "parents": { "type": "boolean", "description": "Make missing folders" },
            "parallel": { "type": "integer", "minimum": 1, "maximum": MOST_PARALLEL,
                "description": format!("Hosts that it is copied to at once. Default {COPY_PARALLEL}") },
            "host_wait": { "type": "number", "minimum": 0, "maximum": MOST_WAIT.as_secs(),
                "description": "Seconds to wait for a host that is down. Default 0: the call fails at once" },
        },
        "required": ["host", "path", "to_host"],
        "additionalProperties": false,
        ORDER: ["host", "path", "to_host", "to_path", "overwrite", "parents", "parallel", "host_wait"],
    });
    let mut tool = Tool::new(COPY, schema);
    tool.title = Some("Copy between hosts".to_owned());
    let about = "Copy a file or folder from one host to others, checked by its hash; it takes its name only when it is whole. \
                 After a failure the same call goes on where it stopped. Returns counts and the hash.";
    tool.description = Some(about.to_owned());
    let mut hints = ToolAnnotations::default();
    hints.read_only_hint = Some(false);
    hints.destructive_hint = Some(true);
    hints.idempotent_hint = Some(false);
    hints.open_world_hint = Some(true);
    tool.annotations = Some(hints);
    tool
}

/// Returns whether the tool says that it changes nothing.
pub(crate) fn is_read_only(tool: &Tool) -> bool {
    let hints = tool.annotations.as_ref();
    hints.and_then(|hints| hints.read_only_hint) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_tool_has_the_arguments_of_the_local_one_behind_the_host() {
        let schema = json!({ "type": "object", "properties": { "b": {}, "a": {} }, "required": ["b"], ORDER: ["b", "a"] });
        let mut local = Tool::new("shell", schema);
        local.output_schema = Some(json!({}));
        let text = serde_json::to_string(&remote(&local, "hosts: x")).unwrap();
        let places = [
            "\"host\":{",
            "\"b\":{",
            "\"a\":{",
            "\"parallel\":{",
            "\"host_wait\":{",
        ];
        let found: Vec<_> = places.iter().map(|name| text.find(name).unwrap()).collect();
        assert!(found.is_sorted(), "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["name"], "remote_shell");
        assert_eq!(shown["inputSchema"]["required"], json!(["host", "b"]));
        assert!(shown["outputSchema"].is_null());
    }
}
