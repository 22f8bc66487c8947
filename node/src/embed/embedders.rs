//! The embedder of the model in use, and that of the next one while the model is changed.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::{EmbedError, EmbedScope, Embedded, Embedder, TextRole};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use storage::model::cluster::Model;
use storage::model::score::Reading;
use storage::model::vector::ModelId;
use storage::{Reader, View};
use tokio::time::timeout;

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
    /// The state that has the cluster's model.
    reader: OnceLock<Reader>,
    /// Why the last text was not embedded, since the last one that was.
    last_cause: Mutex<Option<String>>,
}

/// Time limit of all parts of a text at an endpoint, with their waits.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(10);

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
        let config = config.clone();
        let (reader, last_cause) = (OnceLock::new(), Mutex::default());
        Ok(Self { config, counters, configured, current, next, reader, last_cause })
    }

    fn current(&self) -> Arc<Pool> {
        Arc::clone(&self.current.read())
    }

    /// The model in use.
    pub(crate) fn model(&self) -> Model {
        self.current().model()
    }

    /// From now on, texts are embedded if the model in use is that of this state.
    pub(crate) fn follow(&self, reader: Reader) {
        drop(self.reader.set(reader));
    }

    /// Compares the model in use with that of the cluster. Its vectors may be those of another one.
    async fn verify(&self, pool: &Pool) -> Result<(), EmbedError> {
        let cluster = self.reader.get().and_then(|reader| reader.cluster().ok().flatten());
        let cluster = cluster.ok_or(EmbedError::Unavailable)?;
        let checked = match pool.find_canaries().await {
            Ok(()) => pool.verify(&cluster.model),
            Err(error) => Err(error),
        };
        checked.map_err(|error| self.unavailable(error))
    }

    /// Counts a text that is not embedded, and logs the cause if it is another one than before.
    fn unavailable(&self, cause: String) -> EmbedError {
        self.counters.texts.fetch_add(1, Ordering::Relaxed);
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last_cause.lock();
        if last.as_ref() != Some(&cause) {
            tracing::error!(error = cause, "texts are not embedded");
            *last = Some(cause);
        }
        EmbedError::Unavailable
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
            let embedded = async {
                if !pool.is_verified() {
                    self.verify(&pool).await?;
                }
                pool.embed(scope, role, text).await
            };
            if !pool.is_remote {
                return embedded.await;
            }
            let seconds = REMOTE_TIMEOUT.as_secs();
            let late = |_| Err(self.unavailable(format!("a text took more than {seconds} s")));
            let embedded = timeout(REMOTE_TIMEOUT, embedded).await.unwrap_or_else(late);
            if embedded.is_ok() {
                self.last_cause.lock().take();
            }
            embedded
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
