//! The embedder as the service uses it. The node implements it.

use futures::future::BoxFuture;
use storage::model::cluster::Model;

/// A unit vector for a text.
pub type Embedding = Vec<f32>;

/// Why a text has no vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The queue of texts is full.
    #[error("too many texts wait to be embedded")]
    Busy,
    /// The model failed; the cause is in the log.
    #[error("the embedding model failed")]
    Failed,
}

/// Turns texts into vectors, on threads of its own.
pub trait Embedder: Send + Sync {
    /// The vector of `text`. Any text has one, the empty one too.
    fn embed(&self, text: String) -> BoxFuture<'_, Result<Embedding, EmbedError>>;

    /// The model behind it.
    fn model(&self) -> &Model;
}
