//! Embedders turn texts into vectors. The configuration selects the ONNX model, or a hashing
//! embedder for tests.

mod embedders;
mod hashing;
mod manifest;
mod onnx;
mod open;
mod pool;

pub(crate) use embedders::Embedders;
pub use manifest::{Manifest, Pooling};
pub(crate) use onnx::NO_TELEMETRY;
pub use onnx::{OnnxRuntime, Session};
pub(crate) use pool::Counters;
pub use pool::{EmbeddedPart, Pool, Worker};
