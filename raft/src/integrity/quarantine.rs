//! The quarantine file: a data folder that holds it never takes part in a cluster again. It is
//! written when the node's state differs from the majority's. No data is removed; an operator
//! replaces the node.

use std::path::Path;
use std::{fs, io};

use storage::Error;

/// File name in the data folder.
const FILE: &str = "quarantine";

/// Why the data folder is quarantined; `None` if it is not.
pub(crate) fn reason(data: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(data.join(FILE)) {
        Ok(reason) => Ok(Some(reason.trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the file durably. It takes effect at the next start. An existing file is kept.
pub(crate) fn enter(data: &Path, reason: &str) -> Result<(), Error> {
    let path = data.join(FILE);
    if path.exists() { Ok(()) } else { storage::file::replace(&path, reason.as_bytes()) }
}
