//! The quarantine file: a data folder that holds it never takes part in a cluster again. It is
//! written when the node's state differs from the majority's. No data is removed; an operator
//! replaces the node.

use std::path::{Path, PathBuf};
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

/// The quarantine file of one data folder, which may not exist.
pub(crate) struct Quarantine(PathBuf);

impl Quarantine {
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// Writes the file durably. It takes effect at the next start. An existing file is kept.
    pub(crate) fn enter(&self, reason: &str) -> Result<(), Error> {
        if self.0.exists() { Ok(()) } else { storage::file::replace(&self.0, reason.as_bytes()) }
    }
}
