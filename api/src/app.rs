//! The state that all handlers share: the service, the metrics, and the limits of this node.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use raft::Handle;
use storage::Reader;
use storage::model::analytics::TenantReport;
use tokio::sync::Semaphore;

use crate::limits::{DRAINS_MAX, REQUESTS_MAX, STREAMS_MAX};
use crate::metrics::Metrics;
use crate::service::Service;
use crate::service::node::{Embedder, Hooks};

/// The state; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// What all clones of an [`App`] share.
pub struct Shared {
    pub(crate) service: Arc<Service>,
    /// Id of this node.
    pub(crate) node: u64,
    pub(crate) metrics: Metrics,
    pub(crate) requests: Semaphore,
    pub(crate) drains: Semaphore,
    pub(crate) streams: Arc<Semaphore>,
    draining: AtomicBool,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl App {
    /// Assembles the state.
    pub fn new(
        reader: Reader,
        raft: Handle,
        embedder: Arc<dyn Embedder>,
        hooks: Arc<dyn Hooks>,
        node: u64,
        metrics: Metrics,
    ) -> Self {
        Self(Arc::new(Shared {
            service: Arc::new(Service::new(reader, raft, embedder, hooks)),
            node,
            metrics,
            requests: Semaphore::new(REQUESTS_MAX),
            drains: Semaphore::new(DRAINS_MAX),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            draining: AtomicBool::new(false),
        }))
    }

    /// Makes the node not ready from here on; requests under way go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The recalls, requests and key uses since the last report; `all` of them, or those due.
    pub fn report(&self, all: bool) -> Vec<TenantReport> {
        self.service.report(all)
    }

    /// Recalls that were dropped at the limit of the buffer.
    pub fn recalls_dropped(&self) -> u64 {
        self.service.recalls().dropped()
    }

    /// Event streams that are open.
    pub fn streams_open(&self) -> usize {
        STREAMS_MAX - self.streams.available_permits()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
