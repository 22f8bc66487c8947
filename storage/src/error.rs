//! What can go wrong in the engine, and what each kind means for the node.
//! Refusals of a command are not errors: they are values, in `decide`.

use std::path::PathBuf;

/// Result of engine calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of this machine or of its data. None of them is the caller's doing,
/// and the node stops on every one: going on could acknowledge what is not kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Stored bytes are not what this version wrote.
    #[error("corrupt {what}: {detail}")]
    Corrupt {
        /// The record or file.
        what: &'static str,
        /// What was found instead.
        detail: String,
    },
    /// RocksDB refused or failed; a checksum error arrives here too.
    #[error("storage engine failed to {action}: {source}")]
    Engine {
        /// What was being done.
        action: &'static str,
        /// The engine's own words.
        source: rocksdb::Error,
    },
    /// A file operation outside RocksDB failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A caller broke the contract of the engine; a bug in Hearth.
    #[error("engine misused: {0}")]
    Misuse(String),
}

impl Error {
    /// For `map_err` on RocksDB calls.
    pub(crate) fn engine(action: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| Self::Engine { action, source }
    }

    /// For `map_err` on file calls.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.into(), source }
    }

    /// What an operator can do about it.
    pub fn advice(&self) -> &'static str {
        if self.is_corruption() {
            "The data is damaged and nothing was changed. Keep a copy of the folder. If other nodes \
             hold the data, remove this one from the cluster and add it again, empty, with a new \
             id; never put an old copy of one node back beside them. A cluster of one can restore \
             its folder from a backup"
        } else {
            "Nothing was changed. Check the disk, the permissions, and that no other node uses the \
             folder"
        }
    }

    /// True when stored bytes were damaged, as opposed to not reachable.
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Engine { source, .. } => source.kind() == rocksdb::ErrorKind::Corruption,
            Self::File { .. } | Self::Misuse(_) => false,
        }
    }
}
