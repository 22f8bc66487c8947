//! Sections `embedder` and `search`: the embedding model, and when vector search is exact.

use std::path::PathBuf;

use serde::Deserialize;

/// Implementations of the embedder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbedderKind {
    /// A model in ONNX format.
    Onnx,
    /// Hashed words, without meaning. For tests only.
    Hashing,
}

/// The embedding model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedder {
    /// The implementation.
    #[serde(default = "default_kind")]
    pub kind: EmbedderKind,
    /// Folder with `manifest.json`, the model and its tokenizer.
    #[serde(default)]
    pub model: PathBuf,
    /// The ONNX Runtime library.
    #[serde(default)]
    pub library: PathBuf,
    /// Threads of the embedder. Each has a session of about 215 MB.
    #[serde(default = "default_threads")]
    pub threads: usize,
}

pub(super) fn default_kind() -> EmbedderKind {
    EmbedderKind::Onnx
}

pub(super) fn default_threads() -> usize {
    2
}

/// Vector search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Candidates up to which a search scores all of them. Larger searches use the HNSW graph.
    pub exact_max: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { exact_max: storage::Options::default().exact_max }
    }
}
