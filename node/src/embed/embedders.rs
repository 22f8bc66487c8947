//! The embedder of the model in use, and that of the next one while the model is changed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use api::{EmbedError, EmbedScope, Embedded, Embedder};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;
use storage::model::cluster::Model;
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
        let configured = pool.model().id;
        let (current, next) = (RwLock::new(Arc::new(pool)), RwLock::default());
        Ok(Self { config: config.clone(), counters, configured, current, next })
    }

    fn current(&self) -> Arc<Pool> {
        Arc::clone(&self.current.read())
    }

    /// The model in use.
    pub(crate) fn model(&self) -> Model {
        self.current().model().clone()
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
        if found != model {
            return Err(format!("{folder} has the model {}, not {}", found.name, model.name));
        }
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
        text: String,
    ) -> BoxFuture<'_, Result<Embedded, EmbedError>> {
        let pool = self.current();
        async move { pool.embed(scope, text).await }.boxed()
    }

    fn threads(&self) -> usize {
        self.current().threads()
    }

    fn model_in(&self, folder: &str) -> Result<Model, String> {
        model_in(&self.config, Path::new(folder))
    }
}
