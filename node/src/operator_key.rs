//! The file of the operator key, the same on all nodes. `hearth certs` and `hearth dev` create it.

use std::path::Path;

use api::random_bytes;
use storage::model::api_key::OperatorKey;

use crate::error::unusable;

/// The content of a new file.
pub(crate) fn new_operator_key() -> String {
    OperatorKey::text_from_random(random_bytes()) + "\n"
}

/// Reads the key in the file at `path`, and its text.
pub(crate) fn read_operator_key(path: &Path) -> Result<(OperatorKey, String), String> {
    let content = std::fs::read_to_string(path).map_err(unusable(path))?;
    let text = content.trim();
    let key = OperatorKey::parse(text);
    let key = key.ok_or_else(|| unusable(path)("it contains no valid operator key"))?;
    Ok((key, text.to_owned()))
}
