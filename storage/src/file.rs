//! Durable writes of small files: a crash leaves the old or the new content, never a part.
//!
//! The steps are the usual ones: write a temporary file beside the target, sync it, rename it
//! over the target, sync the folder.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Mode of a file that only its owner may read and write.
const OWNER_ONLY: u32 = 0o600;

/// Replaces the content of the file at `path`, or creates it. After a crash the file holds
/// either its old content or `bytes`.
///
/// # Errors
/// When the file system fails. The old content then stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, bytes, None)
}

/// As [`replace`], for secrets: only the owner of the file may read and write it.
pub fn replace_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, bytes, Some(OWNER_ONLY))
}

fn write(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<()> {
    let temporary = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&temporary)?;
        if let Some(mode) = mode {
            // Set while the file is empty: no other user can read a byte of the secret.
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(Error::file("replace", path))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Whether a name from another machine cannot leave its folder.
pub fn is_plain_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}

/// Makes the names of the files in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::file("sync", path))
}

/// Makes the files of a folder and their names durable. Subfolders are not visited.
pub(crate) fn sync_tree(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(Error::file("list", path))? {
        let file = entry.map_err(Error::file("list", path))?.path();
        File::open(&file).and_then(|file| file.sync_all()).map_err(Error::file("sync", &file))?;
    }
    sync_folder(path)
}

/// As [`replace`], with a checksum (CRC-32) after the bytes: [`read_checked`] notices damage.
///
/// # Errors
/// If the file cannot be written.
pub fn replace_checked(path: &Path, mut bytes: Vec<u8>) -> Result<()> {
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    replace(path, &bytes)
}

/// The bytes that [`replace_checked`] wrote; `None` if the file does not exist.
///
/// # Errors
/// If the file is damaged, or cannot be read.
pub fn read_checked(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::file("read", path)(source)),
    };
    let sum = bytes.split_off(bytes.len().saturating_sub(4));
    if sum != crc32fast::hash(&bytes).to_be_bytes() {
        let detail = format!("the checksum of {} does not match", path.display());
        return Err(Error::Corrupt { what: "file", detail });
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.key");
        // As after a crash before the rename.
        fs::write(folder.path().join("admin.tmp"), "leftover").unwrap();
        replace_secret(&path, b"secret").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
    }

    #[test]
    fn replace_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.toml");
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_bytes_of_a_checked_file_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(read_checked(&path).unwrap().is_none());
        replace_checked(&path, b"content".to_vec()).unwrap();
        assert_eq!(read_checked(&path).unwrap().unwrap(), b"content");
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            fs::write(&path, flipped).unwrap();
            assert!(read_checked(&path).unwrap_err().is_corruption(), "byte {at}");
            fs::write(&path, &bytes[..at]).unwrap();
            assert!(read_checked(&path).unwrap_err().is_corruption(), "{at} bytes");
        }
    }
}
