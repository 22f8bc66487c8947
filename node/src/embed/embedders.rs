//! The embedder of the model in use, and that of the next one while the model is changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::{EmbedError, EmbedScope, Embedded, Embedder, TextRole};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use storage::model::cluster::Model;
use storage::model::score::Reading;
use storage::model::vector::ModelId;

use crate::config;
use crate::embed::open::{model_in, open};
use crate::embed::pool::{Counters, Pool};

/// The embedders of a node. All of them have the same counters.
pub(crate) struct Embedders {
    config: config::Embedder,
    pub(crate) counters: Arc<Counters>,
    /// The model in the configured folder.
    configured: ModelId,
    current: RwLock<Arc<Pool>>,
    next: RwLock<Option<Arc<Pool>>>,
}

impl Embedders {
    /// Starts the configured embedder.
    ///
    /// # Errors
    /// When a file is missing or invalid. The text names the command that fetches it.
    pub(crate) fn start(config: &config::Embedder) -> Result<Self, String> {
        let counters = Arc::new(Counters::default());
        let pool = open(config, &config.model, &counters)?;
        // An endpoint may be down while its node starts, which has more to do than to embed.
        if let Err(error) = block_on(pool.find_canaries())
            && !pool.is_remote
        {
            return Err(error);
        }
        let configured = pool.model().id;
        let (current, next) = (RwLock::new(Arc::new(pool)), RwLock::default());
        Ok(Self { config: config.clone(), counters, configured, current, next })
    }

    fn current(&self) -> Arc<Pool> {
        Arc::clone(&self.current.read())
    }

    /// The model in use.
    pub(crate) fn model(&self) -> Model {
        self.current().model()
    }

    /// Whether the canaries of the model in use are known. Otherwise its endpoint did not respond at the start,
    /// and is tried again.
    pub(crate) async fn has_canaries(&self) -> bool {
        self.current().find_canaries().await.is_ok()
    }

    /// Compares the model in use with that of the cluster, if it is the same by its id.
    ///
    /// # Errors
    /// It computes other vectors.
    pub(crate) fn check(&self, stored: &Model) -> Result<(), String> {
        self.current().check_canaries(stored)
    }

    /// The embedder of the next model, if it is this one and it is loaded.
    pub(crate) fn next(&self, model: ModelId) -> Option<Arc<Pool>> {
        self.next.read().clone().filter(|pool| pool.model().id == model)
    }

    /// Loads the next model. Takes seconds.
    ///
    /// # Errors
    /// If its folder has no such model.
    pub(crate) fn load(&self, model: &Model, folder: &str) -> Result<(), String> {
        let pool = open(&self.config, Path::new(folder), &self.counters)?;
        let found = pool.model();
        if found.id != model.id {
            return Err(format!("{folder} has the model {}, not {}", found.name, model.name));
        }
        block_on(pool.find_canaries())?;
        pool.check_canaries(model)?;
        *self.next.write() = Some(Arc::new(pool));
        Ok(())
    }

    /// Drops the next model.
    pub(crate) fn unload(&self) {
        drop(self.next.write().take());
    }

    /// Brings the next model into use, if it is this one. Returns whether it is in use.
    pub(crate) fn switch_to(&self, model: &Model) -> bool {
        let loaded = self.next(model.id);
        if let Some(pool) = loaded {
            *self.current.write() = pool;
            self.counters.outdated.store(model.id != self.configured, Ordering::Relaxed);
            self.unload();
        }
        self.model().id == model.id
    }
}

impl Embedder for Embedders {
    fn embed(
        &self,
        scope: EmbedScope,
        role: TextRole,
        text: String,
    ) -> BoxFuture<'_, Result<Embedded, EmbedError>> {
        let pool = self.current();
        async move {
            // Its vectors may be those of another model.
            if !pool.has_canaries() {
                return Err(EmbedError::Unavailable);
            }
            pool.embed(scope, role, text).await
        }
        .boxed()
    }

    fn reading(&self, query: &str) -> Reading {
        self.current().conventions.reading(query)
    }

    fn threads(&self) -> usize {
        self.current().threads()
    }

    fn model_in(&self, folder: &str) -> Result<Model, String> {
        model_in(&self.config, Path::new(folder))
    }
}
