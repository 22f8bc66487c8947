//! The folder of the current state, and its atomic replacement.
//!
//! The file `state/CURRENT` names the current folder, as in `state/000001`. A received
//! snapshot is moved beside it. An atomic rename of a new `CURRENT` then makes it the
//! current state. After a crash, `CURRENT` names either the old state or the new one.
//!
//! A state that another node sent: it is opened and indexed beside the present one, which a writer
//! then replaces by it. Indexing takes some seconds per million memories; the replacement is short.

use std::fs;
use std::path::{Path, PathBuf};

use model::cluster::Position;

use crate::engine::{Engine, Options};
use crate::error::{Error, Result};
use crate::file;
use crate::reader::Reader;

const CURRENT: &str = "CURRENT";

/// The folder `state/`, with its numbered state folders.
#[derive(Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The current state folder. Creates `000001` in an empty folder.
    pub(crate) fn current(&self) -> Result<PathBuf> {
        fs::create_dir_all(&self.root).map_err(Error::file("create", &self.root))?;
        let pointer = self.root.join(CURRENT);
        if !pointer.exists() {
            let first = self.root.join("000001");
            match self.numbered()?.as_slice() {
                [] => fs::create_dir(&first).map_err(Error::file("create", &first))?,
                // A start that ended here. RocksDB opens the folder once `CURRENT` is durable.
                [folder] if *folder == first && is_empty(&first)? => {}
                [folder, ..] => {
                    let detail = format!("is missing, but {} exists", folder.display());
                    return Err(Error::Corrupt { what: "state/CURRENT", detail });
                }
            }
            file::replace(&pointer, b"000001\n")?;
        }
        self.named()
    }

    /// The state folder that `CURRENT` names. Creates nothing.
    pub(crate) fn named(&self) -> Result<PathBuf> {
        let pointer = self.root.join(CURRENT);
        let name = fs::read_to_string(&pointer).map_err(Error::file("read", &pointer))?;
        let current = self.root.join(name.trim());
        if number(&current).is_none() || !current.is_dir() {
            let detail = format!("names {:?}, which is not a state folder", name.trim());
            return Err(Error::Corrupt { what: "state/CURRENT", detail });
        }
        Ok(current)
    }

    /// Removes all state folders except `current`: superseded ones, and ones that never became
    /// current. Call it only after `current` was opened successfully.
    pub(crate) fn remove_others(&self, current: &Path) -> Result<()> {
        for path in self.numbered()? {
            if path != current {
                fs::remove_dir_all(&path).map_err(Error::file("remove", &path))?;
            }
        }
        Ok(())
    }

    fn numbered(&self) -> Result<Vec<PathBuf>> {
        let paths = fs::read_dir(&self.root).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
        });
        let mut folders = paths.map_err(Error::file("list", &self.root))?;
        folders.retain(|path| path.is_dir() && number(path).is_some());
        folders.sort();
        Ok(folders)
    }

    /// Moves `source` beside `current`, as the folder with the next number.
    pub(crate) fn adopt(&self, current: &Path, source: &Path) -> Result<PathBuf> {
        let number = number(current)
            .ok_or_else(|| Error::Misuse("the present state is in no numbered folder".into()))?;
        let next = self.root.join(format!("{:06}", number + 1));
        fs::rename(source, &next).map_err(Error::file("move the received state to", &next))?;
        file::sync_tree(&next)?;
        file::sync_folder(&self.root)?;
        Ok(next)
    }

    /// Moves `source` into this empty folder, as its first state.
    pub(crate) fn found(&self, source: &Path) -> Result<()> {
        let first = self.root.join("000001");
        fs::rename(source, &first).map_err(Error::file("move the restored state to", &first))?;
        file::sync_tree(&first)?;
        file::sync_folder(&self.root)?;
        self.switch(&first)
    }

    pub(crate) fn switch(&self, next: &Path) -> Result<()> {
        let name = next.file_name().unwrap_or_default().as_encoded_bytes();
        file::replace(&self.root.join(CURRENT), &[name, b"\n"].concat())
    }
}

fn is_empty(folder: &Path) -> Result<bool> {
    let mut entries = fs::read_dir(folder).map_err(Error::file("list", folder))?;
    Ok(entries.next().is_none())
}

fn number(folder: &Path) -> Option<u32> {
    folder.file_name()?.to_str()?.parse().ok()
}

/// Opens received states. The caller opens one at a time.
pub struct Receiver {
    reader: Reader,
    folder: Folder,
    options: Options,
}

impl Receiver {
    pub(crate) fn new(reader: Reader, folder: Folder, options: Options) -> Self {
        Self { reader, folder, options }
    }

    /// Moves the state in the folder `source` beside the present one, syncs it, opens it and builds
    /// its indexes.
    ///
    /// # Errors
    /// If it cannot be moved, synced or opened.
    pub fn open(&self, source: &Path) -> Result<Received> {
        let next = self.folder.adopt(self.reader.engine().state.path(), source)?;
        fail::fail_point!("snapshot-install", |_| std::process::abort());
        fail::fail_point!("snapshot-open");
        let engine = Engine::open(&next, &self.options)?;
        engine.state.retire();
        Ok(Received(engine))
    }
}

/// An opened state that is not the present one. A drop removes its folder, unless
/// [`crate::Writer::switch`] has made it the present one.
pub struct Received(pub(crate) Engine);

impl Received {
    /// Its position in the log.
    pub fn position(&self) -> Position {
        self.0.position.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_that_ended_before_its_state_is_repeated() {
        let root = tempfile::tempdir().unwrap();
        let (folder, first) = (Folder::new(root.path()), root.path().join("000001"));
        fs::create_dir(&first).unwrap();
        assert_eq!(folder.current().unwrap(), first);
        fs::write(first.join("MANIFEST-000001"), "of a state").unwrap();
        fs::remove_file(root.path().join(CURRENT)).unwrap();
        assert!(matches!(folder.current(), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn lost_current_file_is_corruption_and_removes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
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
