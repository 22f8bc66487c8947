//! Embedders turn texts into vectors. The configuration selects the ONNX model, or a hashing
//! embedder for tests.

mod hashing;
mod manifest;
mod onnx;
mod pool;

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{self, EmbedderKind};

pub use manifest::{Manifest, Pooling};
pub use onnx::{OnnxRuntime, Session};
pub(crate) use pool::Counters;
pub use pool::{Part, Pool, Worker};

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

/// Starts the threads of the configured embedder.
///
/// # Errors
/// When a file is missing or invalid. The text names the command that fetches it.
pub(crate) fn start(config: &config::Embedder) -> Result<Arc<Pool>, String> {
    match config.kind {
        // One worker suffices: a text takes microseconds.
        EmbedderKind::Hashing => {
            Ok(Arc::new(Pool::start(hashing::model(), vec![Box::<hashing::Hashing>::default()])))
        }
        EmbedderKind::Onnx => {
            let manifest = Manifest::load(&config.model)?;
            let runtime = OnnxRuntime::load(&config.library)?;
            let sessions = (0..config.threads.max(1))
                .map(|_| Session::open(&runtime, &manifest))
                .collect::<Result<Vec<_>, _>>()?;
            let workers = sessions.into_iter().map(|session| Box::new(session) as _).collect();
            Ok(Arc::new(Pool::start(manifest.model(), workers)))
        }
    }
}
