//! A state that another node sent: it is opened and indexed beside the present one, which a writer
//! then replaces by it. Indexing takes some seconds per million memories; the replacement is short.

use std::path::Path;

use model::cluster::Position;

use crate::checkpoint::Folder;
use crate::engine::{Engine, Options};
use crate::error::Result;
use crate::reader::Reader;

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
