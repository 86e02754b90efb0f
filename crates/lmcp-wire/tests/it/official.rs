//! Where the official schema and its examples lie: beside the checkout, never in it.
//!
//! A checkout without them is not broken, so what needs them is skipped there, and says so.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every example of the revision as the name of its type, its path and its text, sorted.
pub(crate) fn examples() -> Option<Vec<Example>> {
    let root = found(&folder().join(format!("examples-{REVISION}")))?;
    let mut examples: Vec<_> = entries(&root)
        .into_iter()
        .flat_map(|folder| entries(&folder))
        .map(Example::read)
        .collect();
    examples.sort_by(|a, b| a.path.cmp(&b.path));
    Some(examples)
}

/// The JSON Schema of the revision.
pub(crate) fn schema() -> Option<serde_json::Value> {
    let path = found(&folder().join(format!("{REVISION}.json")))?;
    let text = fs::read_to_string(path).expect("the schema is readable");
    Some(serde_json::from_str(&text).expect("the schema is JSON"))
}

/// One example.
pub(crate) struct Example {
    /// The type in the schema, which is the name of its folder.
    pub(crate) of: String,
    /// For the one who reads the failure.
    pub(crate) path: PathBuf,
    /// The message.
    pub(crate) text: String,
}

impl Example {
    fn read(path: PathBuf) -> Self {
        let folder = path.parent().and_then(Path::file_name);
        let of = folder
            .expect("an example lies in the folder of its type")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("an example is readable");
        Self { of, path, text }
    }
}

const REVISION: &str = "2026-07-28";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/schemas")
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests must see that this one looked at nothing"
)]
fn found(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return Some(path.to_owned());
    }
    let path = path.display();
    eprintln!("the official examples were not found at {path}: this check was skipped");
    None
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder is listed");
    entries
        .map(|entry| entry.expect("an entry is listed").path())
        .collect()
}
