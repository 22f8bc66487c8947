//! Files and folders of the command line's development cluster.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Formats an I/O error: "cannot `action`: error".
pub(crate) fn cannot(action: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("cannot {action}: {error}")
}

/// Creates a folder, and its parents, that only its owner may read.
pub(crate) fn create_private_folder(folder: &Path) -> Result<(), String> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    created.map_err(cannot(&format!("create {}", folder.display())))
}
