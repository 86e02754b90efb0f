//! The second opinion: `jsonschema`, too heavy to ship and good enough to trust.

use jsonschema::Validator;
use serde_json::Value;

/// The oracle's reading of a schema. Formats are annotations to both sides.
pub(crate) fn oracle(schema: &Value) -> Validator {
    let options = jsonschema::options().should_validate_formats(false);
    options
        .build(schema)
        .unwrap_or_else(|err| panic!("the oracle refuses {schema}: {err}"))
}
