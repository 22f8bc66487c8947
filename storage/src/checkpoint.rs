//! Which folder holds the state, and how another one takes its place. What is
//! in the folder is the engine's business.
//!
//! `state/CURRENT` names the folder in use (`state/000001`). A received state is
//! moved beside it, and becomes the state by renaming a new `CURRENT` into place:
//! before that instant the old one counts, after it the new one.

use std::fs;
use std::path::{Path, PathBuf};

use rocksdb::Env;

use crate::error::{Error, Result};
use crate::file;

const CURRENT: &str = "CURRENT";

/// The folder of folders of one state.
pub(crate) struct Folder {
    root: PathBuf,
    env: Option<Env>,
}

impl Folder {
    pub(crate) fn new(root: &Path, env: Option<Env>) -> Self {
        Self { root: root.to_owned(), env }
    }

    /// The folder in use; the first one where nothing was ever kept.
    pub(crate) fn current(&self) -> Result<PathBuf> {
        if self.env.is_some() {
            return Ok(self.root.clone());
        }
        fs::create_dir_all(&self.root).map_err(Error::file("create", &self.root))?;
        let pointer = self.root.join(CURRENT);
        if !pointer.exists() {
            if let Some(folder) = self.numbered()?.first() {
                let detail = format!("is missing, but {} is there", folder.display());
                return Err(Error::Corrupt { what: "state/CURRENT", detail });
            }
            let first = self.root.join("000001");
            fs::create_dir(&first).map_err(Error::file("create", &first))?;
            file::replace(&pointer, b"000001\n")?;
        }
        let name = fs::read_to_string(&pointer).map_err(Error::file("read", &pointer))?;
        let current = self.root.join(name.trim());
        if number(&current).is_none() || !current.is_dir() {
            let detail = format!("names {:?}, which is no folder here", name.trim());
            return Err(Error::Corrupt { what: "state/CURRENT", detail });
        }
        Ok(current)
    }

    /// Removes the folders beside `current`: they were superseded, or never became
    /// current. Called once `current` was opened and found good.
    pub(crate) fn remove_others(&self, current: &Path) -> Result<()> {
        if self.env.is_some() {
            return Ok(());
        }
        for path in self.numbered()? {
            if path != current {
                fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
            }
        }
        Ok(())
    }

    fn numbered(&self) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(Error::file("list", &self.root))? {
            let path = entry.map_err(Error::file("list", &self.root))?.path();
            if path.is_dir() && number(&path).is_some() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// Moves `source` beside the folder in use, `current`.
    pub(crate) fn adopt(&self, current: &Path, source: &Path) -> Result<PathBuf> {
        let number = number(current)
            .ok_or_else(|| Error::Misuse("a state in memory cannot be replaced".into()))?;
        let next = self.root.join(format!("{:06}", number + 1));
        fs::rename(source, &next).map_err(Error::file("move the received state to", &next))?;
        file::sync_tree(&next)?;
        file::sync_folder(&self.root)?;
        Ok(next)
    }

    /// Makes `next` the folder in use.
    pub(crate) fn switch(&self, next: &Path) -> Result<()> {
        let name = next.file_name().unwrap_or_default().as_encoded_bytes();
        file::replace(&self.root.join(CURRENT), &[name, b"\n"].concat())
    }
}

/// The number that a folder is named by.
fn number(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_pointer_is_corruption_and_removes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path(), None);
        assert_eq!(folder.current().unwrap(), root.path().join("000001"));
        fs::create_dir(root.path().join("000002")).unwrap();
        folder.switch(&root.path().join("000002")).unwrap();
        assert_eq!(folder.current().unwrap(), root.path().join("000002"));
        fs::remove_file(root.path().join(CURRENT)).unwrap();
        assert!(matches!(folder.current(), Err(Error::Corrupt { .. })));
        fs::write(root.path().join(CURRENT), "000009\n").unwrap();
        assert!(matches!(folder.current(), Err(Error::Corrupt { .. })));
        assert!(root.path().join("000002").is_dir() && root.path().join("000001").is_dir());
    }
}
