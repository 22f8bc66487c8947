//! Why the ONNX embedder cannot start.

use std::path::{Path, PathBuf};

/// Why the ONNX embedder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// A file is missing or invalid.
    #[error(
        "cannot use {path}: {reason}. `make setup` in Hearth's repository fetches the model and \
         ONNX Runtime; embedder.model and embedder.library name their locations"
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// ONNX Runtime failed.
    #[error("ONNX Runtime: {0}")]
    Runtime(String),
}

impl OnnxError {
    pub(crate) fn missing(path: &Path, reason: &str) -> Self {
        Self::Missing { path: path.to_owned(), reason: reason.to_owned() }
    }
}
