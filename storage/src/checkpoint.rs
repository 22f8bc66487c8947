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

    pub(crate) fn env(&self) -> Option<&Env> {
        self.env.as_ref()
    }

    /// The folder in use; names the first one if there is none yet. Folders that
    /// are not in use were superseded, or never became current, and are removed.
    pub(crate) fn current(&self) -> Result<PathBuf> {
        if self.env.is_some() {
            return Ok(self.root.clone());
        }
        fs::create_dir_all(&self.root).map_err(Error::file("create", &self.root))?;
        let pointer = self.root.join(CURRENT);
        if !pointer.exists() {
            file::replace(&pointer, b"000001\n")?;
        }
        let name = fs::read_to_string(&pointer).map_err(Error::file("read", &pointer))?;
        let name = name.trim();
        let number: u32 = name.parse().map_err(|_| Error::Corrupt {
            what: "state/CURRENT",
            detail: format!("{name:?} is no folder's number"),
        })?;
        let current = self.root.join(format!("{number:06}"));
        self.remove_others(&current)?;
        Ok(current)
    }

    fn remove_others(&self, current: &Path) -> Result<()> {
        let entries = fs::read_dir(&self.root).map_err(Error::file("list", &self.root))?;
        for entry in entries {
            let path = entry.map_err(Error::file("list", &self.root))?.path();
            let numbered = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            if path.is_dir() && numbered.is_some() && path != current {
                fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Moves `source` beside the folder in use.
    pub(crate) fn adopt(&self, source: &Path) -> Result<PathBuf> {
        let current = self.current()?;
        let number: u32 = current
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
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
