//! Why a node stops other than by request.

use std::path::Path;

/// Why a node stops other than by request.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The node could not start.
    #[error("{0}")]
    Start(String),
    /// A part that the node depends on failed.
    #[error("{0}")]
    Fault(String),
}

/// An error of start-up, from any error with a text.
pub(crate) fn start_error(error: impl std::fmt::Display) -> ServeError {
    ServeError::Start(error.to_string())
}

/// An error of the storage in folder `data`, with advice for the operator.
pub(crate) fn storage_error(data: &Path, error: &storage::Error) -> ServeError {
    start_error(format!("cannot open {}: {error}. {}", data.display(), error.advice()))
}
