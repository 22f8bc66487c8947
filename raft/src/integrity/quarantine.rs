//! The file that keeps a node out of its cluster for good: its state was found to differ
//! from what most others hold. Nothing is wiped; an operator replaces the node.

use std::path::{Path, PathBuf};
use std::{fs, io};

use storage::Error;

/// Name of the file within the data folder.
const FILE: &str = "quarantine";

/// Why the folder `data` is kept out, if it is.
///
/// # Errors
/// When that cannot be told.
pub(crate) fn reason(data: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(data.join(FILE)) {
        Ok(reason) => Ok(Some(reason.trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A data folder that may have to be kept out.
pub(crate) struct Quarantine(PathBuf);

impl Quarantine {
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// Keeps the folder out from its next start on, durably. An earlier reason stays.
    pub(crate) fn enter(&self, reason: &str) -> Result<(), Error> {
        if self.0.exists() { Ok(()) } else { storage::file::replace(&self.0, reason.as_bytes()) }
    }
}
