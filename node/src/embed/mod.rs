//! Embedders turn texts into vectors. The configuration selects the ONNX model, or a hashing
//! embedder for tests.

mod embedders;
mod hashing;
mod manifest;
mod onnx;
mod open;
mod pool;

use std::path::PathBuf;

pub(crate) use embedders::Embedders;
pub use manifest::{Manifest, Pooling};
pub(crate) use onnx::NO_TELEMETRY;
pub use onnx::{OnnxRuntime, Session};
pub(crate) use pool::Counters;
pub use pool::{EmbeddedPart, Pool, Worker};

/// The model in the [`cache`] folder.
pub const CACHED_MODEL: &str = "models/all-MiniLM-L6-v2";
/// ONNX Runtime in the [`cache`] folder.
pub const CACHED_LIBRARY: &str = "onnxruntime/libonnxruntime.so.1.31.1";

/// The folder into which `make setup` installs; `None` if no variable names one.
pub fn cache() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    folder("HEARTH_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/hearth")))
}
