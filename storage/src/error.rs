//! Errors of the engine. The node stops on each of them. A rejected command is not an error of
//! the engine: see [`crate::Rejection`].

use std::path::PathBuf;

use model::id::TenantId;
use model::release::NeedsRelease;
use model::vector::VectorFault;

/// Result of engine calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of this machine or of its data, never of a request. The node stops: otherwise it could
/// acknowledge a write that is not stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Stored bytes are damaged.
    #[error("corrupt {what}: {detail}")]
    Corrupt {
        /// The record or file.
        what: &'static str,
        /// The difference.
        detail: String,
    },
    /// Bytes are in a format that only a newer version of Hearth can read. Nothing is damaged.
    #[error("{what} was written by a newer version of Hearth ({detail}): upgrade this node")]
    NewerFormat {
        /// The record.
        what: &'static str,
        /// The unknown format or variant.
        detail: String,
    },
    /// The cluster has a feature level that only a newer version of Hearth knows.
    #[error(transparent)]
    NeedsRelease(#[from] NeedsRelease),
    /// RocksDB failed. A checksum error is one of these.
    #[error("storage engine failed to {action}: {source}")]
    Engine {
        /// The action that failed.
        action: &'static str,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
    /// A file operation outside RocksDB failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A caller broke the contract of the engine: a bug in Hearth.
    #[error("engine misused: {0}")]
    Misuse(String),
}

impl From<VectorFault> for Error {
    fn from(fault: VectorFault) -> Self {
        Self::Corrupt { what: "vector", detail: fault.to_string() }
    }
}

impl Error {
    /// For `map_err` on RocksDB calls.
    pub(crate) fn engine(action: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| Self::Engine { action, source }
    }

    /// A row without one that it must have.
    pub(crate) fn missing(
        what: &'static str,
        tenant: TenantId,
        id: impl std::fmt::Display,
    ) -> Self {
        Self::Corrupt { what, detail: format!("that of {id} of tenant {} is missing", tenant.0) }
    }

    /// For `map_err` on file calls.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.into(), source }
    }

    /// Advice for the operator.
    pub fn advice(&self) -> &'static str {
        if matches!(self, Self::NewerFormat { .. } | Self::NeedsRelease { .. }) {
            "Nothing was changed. Start the newer version on this data folder"
        } else if self.is_corruption() {
            "The data is damaged and nothing was changed. Keep a copy of the folder. If other nodes \
             hold the data, start this one empty with a new id, and run `hearth cluster replace`; \
             never put an old copy of one node back beside them. For a cluster of one, restore a \
             backup"
        } else {
            "Nothing was changed. Check the disk, the permissions, and that no other node uses the \
             folder"
        }
    }

    /// Whether stored bytes are damaged.
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Engine { source, .. } => source.kind() == rocksdb::ErrorKind::Corruption,
            // A text with bytes that are not UTF-8.
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::InvalidData,
            Self::NewerFormat { .. } | Self::NeedsRelease { .. } | Self::Misuse(_) => false,
        }
    }
}
