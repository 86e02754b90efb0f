//! The schemas of the tools, as text in `schemas/`. Deriving them from types took most of the start of a server, and a third
//! of its memory.
//!
//! A tool has three schemas: the one that clients are shown, the exact one that arguments are checked against, and that of
//! its result, which is empty for a tool without structured results. `UPDATE=1 cargo test -p lmcp-tools schemas` writes the
//! files. A test fails while a file differs from the types.

use lmcp_core::{
    Handler, Tool,
    tool::{IntoToolOutput, Undeclared},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// Makes a tool with the schemas in the files for its name. In unit tests the tool has the schemas of its types, with which
/// the files are compared.
pub(crate) fn tool<S, H, A, R, Shape>(name: &'static str, handler: H) -> Tool<S, Undeclared>
where
    S: Send + Sync + 'static,
    H: Handler<S, A, R, Shape>,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoToolOutput + 'static,
    Shape: 'static,
{
    #[cfg(test)]
    return Tool::new(name, handler);
    #[cfg(not(test))]
    Tool::written(name, written(name), handler)
}

macro_rules! written {
    ($($name:literal)*) => {
        /// Returns the texts of a tool of this name.
        #[cfg(not(test))]
        fn written(name: &str) -> lmcp_core::tool::SchemaTexts {
            match name {
                $($name => lmcp_core::tool::SchemaTexts {
                    shown: include_str!(concat!("../schemas/", $name, ".shown.json")),
                    exact: include_str!(concat!("../schemas/", $name, ".exact.json")),
                    output: Some(include_str!(concat!("../schemas/", $name, ".output.json")))
                        .filter(|text| !text.is_empty()),
                },)*
                _ => unreachable!("every tool of this crate is in the list below"),
            }
        }
    };
}

written! {
    "copy_in" "copy_out" "edit_file" "fetch" "file_history" "job_input" "job_output" "job_stop" "jobs" "list_dir" "read_file"
    "search_files" "shell" "shell_bg" "systeminfo" "web_search" "write_file"
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use lmcp_core::tool::SchemaTexts;

    use crate::{Host, all_tools, files::copy};

    #[test]
    fn schemas_are_written_down_as_the_types_have_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let mut stale = Vec::new();
        let copies: [lmcp_core::Tool<Host>; 2] = [copy::into::tool(), copy::out::tool()];
        for tool in all_tools().iter().chain(&copies) {
            let name = tool.definition().name;
            let SchemaTexts {
                shown,
                exact,
                output,
            } = tool.schema_texts().unwrap();
            let texts = [
                ("shown", shown),
                ("exact", exact),
                ("output", output.unwrap_or_default()),
            ];
            for (kind, text) in texts {
                let file = folder.join(format!("{name}.{kind}.json"));
                if fs::read_to_string(&file).ok().as_deref() == Some(&text) {
                    continue;
                }
                match env::var_os("UPDATE") {
                    Some(_) => fs::write(&file, text).unwrap(),
                    None => stale.push(file),
                }
            }
        }
        assert!(
            stale.is_empty(),
            "not what the types say; `UPDATE=1 cargo test -p lmcp-tools schemas` writes them: {stale:?}"
        );
    }
}
