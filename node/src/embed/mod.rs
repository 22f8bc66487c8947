//! Embedders turn texts into vectors. The manifest of the model's folder says whether ONNX Runtime
//! runs it here or an endpoint elsewhere. Tests have a hashing embedder.

mod conventions;
mod embedders;
mod hashing;
mod http;
mod manifest;
mod onnx;
mod open;
mod pool;
mod reranker;

pub use conventions::Conventions;
pub(crate) use embedders::Embedders;
pub use manifest::{Manifest, Pooling, Run};
pub(crate) use onnx::NO_TELEMETRY;
pub use onnx::{OnnxRuntime, Session};
pub(crate) use open::model_in;
pub(crate) use pool::Counters;
pub use pool::{EmbeddedPart, Pool, Worker, WorkerError};
pub(crate) use reranker::HttpReranker;

/// The fuzz target of responses of embedding endpoints and rerankers.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    http::fuzz(bytes);
    reranker::fuzz(bytes);
}
