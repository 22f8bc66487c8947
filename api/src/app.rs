//! What every handler shares: handles to the rest of the node, and the one place
//! where blocking reads leave the async threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use raft::Handle;
use storage::Reader;
use storage::model::analytics::TenantReport;
use storage::model::trigger::TriggerEvent;
use tokio::sync::Semaphore;

use crate::embed::Embedder;
use crate::error::{ApiError, ApiResult};
use crate::hooks::Hooks;
use crate::limits::{DRAINS_MAX, READS_MAX, REQUESTS_MAX, STREAM_READS_MAX, STREAMS_MAX};
use crate::metrics::Metrics;
use crate::observed::Observed;

/// Shared by all handlers; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    reader: Reader,
    raft: Handle,
    embedder: Arc<dyn Embedder>,
    hooks: Arc<dyn Hooks>,
    identity: Identity,
    metrics: Metrics,
    observed: Observed,
    reads: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    drains: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    stream_reads: Arc<Semaphore>,
    draining: AtomicBool,
}

/// What a node says of itself.
#[derive(Debug, Clone)]
pub struct Identity {
    /// This node's id.
    pub node: u64,
    /// Version of the product.
    pub version: &'static str,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        reader: Reader,
        raft: Handle,
        embedder: Arc<dyn Embedder>,
        hooks: Arc<dyn Hooks>,
        identity: Identity,
        metrics: Metrics,
    ) -> Self {
        Self(Arc::new(Inner {
            reader,
            raft,
            embedder,
            hooks,
            identity,
            metrics,
            observed: Observed::default(),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            drains: Arc::new(Semaphore::new(DRAINS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            stream_reads: Arc::new(Semaphore::new(STREAM_READS_MAX)),
            draining: AtomicBool::new(false),
        }))
    }

    /// From here on the node says that it is not ready; what is under way goes on.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.0.reader
    }

    pub(crate) fn raft(&self) -> &Handle {
        &self.0.raft
    }

    pub(crate) fn embedder(&self) -> &dyn Embedder {
        &*self.0.embedder
    }

    pub(crate) fn hooks(&self) -> &dyn Hooks {
        &*self.0.hooks
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.0.observed
    }

    /// What this node saw since it was asked last, for the cluster to know; `all` of it, or
    /// what is due.
    pub fn report(&self, all: bool) -> Vec<TenantReport> {
        let reader = &self.0.reader;
        let interval = |tenant| {
            // Each return is an event where a trigger waits for it.
            if all || reader.has_triggers_on(tenant, TriggerEvent::Recall) {
                return Duration::ZERO;
            }
            let seconds = reader.thermo(tenant).reinforcement.recall_min_interval_seconds;
            Duration::from_secs(seconds.into())
        };
        self.0.observed.take(Instant::now(), reader.position().clock, interval)
    }

    /// Recalls that were not reported for want of room.
    pub fn recalls_dropped(&self) -> u64 {
        self.0.observed.dropped()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn requests(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.requests)
    }

    pub(crate) fn drains(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.drains)
    }

    pub(crate) fn streams(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.streams)
    }

    /// Event streams that this node sends.
    pub fn streams_open(&self) -> usize {
        STREAMS_MAX - self.0.streams.available_permits()
    }

    /// [`App::read`] for streams, of which there are many: they keep no other read waiting.
    pub(crate) async fn read_for_stream<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        self.read_within(&self.0.stream_reads, read).await
    }

    /// Runs a read on a thread that may block. A fault of this machine's storage
    /// stops the node; the caller learns only that it could not be answered.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        self.read_within(&self.0.reads, read).await
    }

    async fn read_within<T: Send + 'static>(
        &self,
        reads: &Arc<Semaphore>,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        // The semaphore is never closed, and callers are bounded by `REQUESTS_MAX`.
        let permit = Arc::clone(reads).acquire_owned().await;
        let reader = self.0.reader.clone();
        let result = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read(&reader)
        });
        match result.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.0.raft.fault().storage(&error);
                Err(ApiError::internal())
            }
            Err(panic) => {
                tracing::error!(%panic, "a read panicked");
                Err(ApiError::internal())
            }
        }
    }
}
