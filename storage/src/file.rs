//! Small files that must survive a power cut: replaced as a whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Puts `bytes` in place of the file at `path`. After a crash the file holds
/// either its old content or `bytes`.
///
/// # Errors
/// When the file system refuses; the old content then stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(Error::file("replace", path))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::file("sync", path))
}

/// Makes every file of a flat folder durable, and their names.
pub(crate) fn sync_tree(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(Error::file("list", path))? {
        let file = entry.map_err(Error::file("list", path))?.path();
        File::open(&file).and_then(|file| file.sync_all()).map_err(Error::file("sync", &file))?;
    }
    sync_folder(path)
}
