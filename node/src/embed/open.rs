//! Opens the model in a folder, by the configured kind of embedder.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use parking_lot::Mutex;
use storage::model::cluster::Model;

use crate::config::{self, EmbedderKind};
use crate::embed::conventions::Conventions;
use crate::embed::hashing;
use crate::embed::http::Http;
use crate::embed::manifest::{Manifest, Run};
use crate::embed::onnx::{OnnxRuntime, Session};
use crate::embed::pool::{Counters, Pool, Worker};

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
            let model = hashing::model(dimension);
            Ok(Pool::with_counters(model, Conventions::default(), vec![worker], counters))
        }
        EmbedderKind::Model => {
            let manifest = Manifest::load(folder)?;
            let model = manifest.model();
            let worker = || -> Result<Box<dyn Worker>, String> {
                Ok(match &manifest.run {
                    Run::Onnx(_) => Box::new(Session::open(runtime(&config.library)?, &manifest)?),
                    Run::Http(endpoint) => {
                        let max_tokens = manifest.max_tokens;
                        Box::new(Http::new(endpoint, &model.name, model.dimension, max_tokens)?)
                    }
                })
            };
            let workers = (0..config.threads.max(1)).map(|_| worker());
            let workers = workers.collect::<Result<_, _>>()?;
            Ok(Pool::with_counters(model, manifest.conventions, workers, counters))
        }
    }
}

/// The model in a folder, with its canaries.
pub(crate) fn model_in(config: &config::Embedder, folder: &Path) -> Result<Model, String> {
    let config = config::Embedder { threads: 1, ..config.clone() };
    let pool = open(&config, folder, &Arc::default())?;
    block_on(pool.find_canaries())?;
    Ok(pool.model())
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
