//! Opens the model in a folder, by the configured kind of embedder.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::model::cluster::Model;

use crate::config::{self, EmbedderKind};
use crate::embed::hashing;
use crate::embed::manifest::Manifest;
use crate::embed::onnx::{OnnxRuntime, Session};
use crate::embed::pool::{Counters, Pool};

/// Starts the threads of an embedder with the model in a folder.
///
/// # Errors
/// When a file is missing or invalid. The text names the command that fetches it.
pub(super) fn open(
    config: &config::Embedder,
    folder: &Path,
    counters: &Arc<Counters>,
) -> Result<Pool, String> {
    let counters = Arc::clone(counters);
    match config.kind {
        // One worker suffices: a text takes microseconds.
        EmbedderKind::Hashing => {
            let dimension = hashing::dimension_in(folder)?;
            let worker = Box::new(hashing::Hashing::new(dimension));
            Ok(Pool::with_counters(hashing::model(dimension), vec![worker], counters))
        }
        EmbedderKind::Onnx => {
            let manifest = Manifest::load(folder)?;
            let runtime = runtime(&config.library)?;
            let sessions = (0..config.threads.max(1))
                .map(|_| Session::open(runtime, &manifest))
                .collect::<Result<Vec<_>, _>>()?;
            let workers = sessions.into_iter().map(|session| Box::new(session) as _).collect();
            Ok(Pool::with_counters(manifest.model(), workers, counters))
        }
    }
}

/// The model in a folder, without loading it.
pub(super) fn model_in(config: &config::Embedder, folder: &Path) -> Result<Model, String> {
    match config.kind {
        EmbedderKind::Hashing => hashing::dimension_in(folder).map(hashing::model),
        EmbedderKind::Onnx => Manifest::load(folder).map(|manifest| manifest.model()),
    }
}

/// The library, which a process can load once.
fn runtime(library: &Path) -> Result<&'static OnnxRuntime, String> {
    static LOADED: Mutex<Option<&OnnxRuntime>> = Mutex::new(None);
    let mut loaded = LOADED.lock();
    match *loaded {
        Some(runtime) => Ok(runtime),
        None => Ok(*loaded.insert(Box::leak(Box::new(OnnxRuntime::load(library)?)))),
    }
}
