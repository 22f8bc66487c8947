//! The state that all handlers share: the service, the metrics, and the limits of this node.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use prometheus::Registry;
use raft::Handle;
use storage::Reader;
use storage::model::api_key::OperatorKey;
use storage::model::id::TenantId;

use crate::admission::budget::{BudgetUse, KeyBudget};
use crate::admission::failed_authentications::FailedAuthentications;
use crate::admission::memory::MemoryUse;
use crate::error::{ApiError, ApiResult};
use crate::limits::{
    BODIES_BYTES_MAX, DRAINS_MAX, EXPORTS_MAX, REQUESTS_MAX, RESPONSES_BYTES_MAX, STREAMS_MAX,
};
use crate::metrics::{Metrics, MetricsHistory, RequestCounts, TenantRequests};
use crate::request_log::{RequestLog, RequestOptions};
use crate::service::Service;
use crate::service::node::{Backups, Embedder, Extractions, Extractor, Hooks, Reranker};
use crate::service::recalls::DueReport;
use crate::spans::Spans;

/// The state; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// What all clones of an [`App`] share.
pub struct Shared {
    pub(crate) service: Arc<Service>,
    /// Id of this node.
    pub(crate) node: u64,
    pub(crate) metrics: Metrics,
    pub(crate) metrics_history: MetricsHistory,
    pub(crate) request_log: RequestLog,
    pub(crate) spans: Spans,
    operator_key: RwLock<Option<OperatorKey>>,
    backups: OnceLock<Arc<dyn Backups>>,
    pub(crate) budgets: Budgets,
    pub(crate) failed_authentications: FailedAuthentications,
    pub(crate) tenant_requests: TenantRequests,
    draining: AtomicBool,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// What tenants share on a node, and the keys of each tenant.
pub(crate) struct Budgets {
    /// Authenticated requests in progress, until their responses are sent.
    pub(crate) requests: Arc<KeyBudget>,
    /// Bytes of the bodies of requests in progress.
    pub(crate) bodies: Arc<KeyBudget>,
    /// Bytes of responses that are not sent yet.
    pub(crate) responses: Arc<KeyBudget>,
    /// Exports.
    pub(crate) exports: Arc<KeyBudget>,
    /// Event streams.
    pub(crate) streams: Arc<KeyBudget>,
    /// Requests whose bodies are discarded.
    pub(crate) drains: Arc<KeyBudget>,
}

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl App {
    /// Assembles the state, without an operator key.
    pub fn new(
        reader: Reader,
        raft: Handle,
        embedder: Arc<dyn Embedder>,
        hooks: Arc<dyn Hooks>,
        node: u64,
        metrics: Metrics,
        request_log: RequestOptions,
    ) -> Self {
        Self(Arc::new(Shared {
            service: Arc::new(Service::new(reader, raft, embedder, hooks)),
            node,
            metrics,
            metrics_history: MetricsHistory::default(),
            request_log: RequestLog::new(&request_log),
            spans: Spans::new(node, request_log.traced_one_of),
            operator_key: RwLock::default(),
            backups: OnceLock::new(),
            budgets: Budgets {
                requests: KeyBudget::new(REQUESTS_MAX),
                bodies: KeyBudget::new(BODIES_BYTES_MAX),
                responses: KeyBudget::new(RESPONSES_BYTES_MAX),
                exports: KeyBudget::new(EXPORTS_MAX),
                streams: KeyBudget::new(STREAMS_MAX),
                drains: KeyBudget::new(DRAINS_MAX),
            },
            failed_authentications: FailedAuthentications::default(),
            tenant_requests: TenantRequests::default(),
            draining: AtomicBool::new(false),
        }))
    }

    /// Sets what creates backups. Only the first call counts.
    pub fn set_backups(&self, backups: Arc<dyn Backups>) {
        self.backups.get_or_init(|| backups);
    }

    /// What creates backups.
    pub(crate) fn backups(&self) -> ApiResult<&dyn Backups> {
        self.backups.get().map(|backups| &**backups).ok_or_else(ApiError::internal)
    }

    /// Sets the operator key from here on. Without one, all operations of operators are refused.
    pub fn set_operator_key(&self, key: Option<OperatorKey>) {
        *self.operator_key.write() = key;
    }

    /// Sets what orders the first results of searches anew, and what extracts facts from turns, once.
    pub fn set_helpers(
        &self,
        reranker: Option<Arc<dyn Reranker>>,
        extractor: Option<Arc<dyn Extractor>>,
    ) {
        if let Some(reranker) = reranker {
            drop(self.service.reranker.set(reranker));
        }
        if let Some(extractor) = extractor {
            drop(self.service.extractions.set(Arc::new(Extractions::new(extractor))));
        }
    }

    /// Whether a text is the operator key.
    pub fn is_operator(&self, text: &str) -> bool {
        self.operator_key().is_some_and(|key| key.matches(text))
    }

    pub(crate) fn operator_key(&self) -> Option<OperatorKey> {
        *self.operator_key.read()
    }

    /// Makes the node not ready from here on; requests under way go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The returned memories, requests and key uses since the last report; `all` of them, or those
    /// due.
    pub fn report(&self, all: bool) -> DueReport {
        self.service.report(all)
    }

    /// Recalls that this node recorded.
    pub fn recalls(&self) -> u64 {
        self.service.recalls().recorded()
    }

    /// Recalls that were dropped at the limit of the buffer.
    pub fn recalls_dropped(&self) -> u64 {
        self.service.recalls().dropped()
    }

    /// Kinds of use of keys that were dropped before they were reported.
    pub fn key_uses_dropped(&self) -> u64 {
        self.service.key_uses.dropped()
    }

    /// Authenticated requests in progress, bytes of bodies of requests, bytes of responses, and
    /// event streams.
    pub fn budgets(&self) -> [BudgetUse; 4] {
        let Budgets { requests, bodies, responses, streams, .. } = &self.budgets;
        [requests, bodies, responses, streams].map(|budget| budget.usage())
    }

    /// Traces of clients that were not continued, at their limit per second.
    pub fn traces_skipped(&self) -> u64 {
        self.spans.skipped()
    }

    /// Requests with a wrong key.
    pub fn failed_authentications(&self) -> u64 {
        self.failed_authentications.total()
    }

    /// The requests of the busiest tenants, and of all others together.
    pub fn busiest_tenants(&self) -> (BTreeMap<TenantId, RequestCounts>, RequestCounts) {
        self.tenant_requests.all()
    }

    /// Requests that were rejected at the requests per minute of their tenant.
    pub fn rate_limited(&self) -> u64 {
        self.service.rates.rejected()
    }

    /// Reads, texts to embed, and writes that were rejected after too long a wait for others.
    pub fn overdue(&self) -> [u64; 3] {
        self.service.overdue()
    }

    /// Whether this node leads, or had contact with a leader within the default staleness bound.
    pub fn is_in_contact(&self) -> bool {
        self.service.is_in_contact()
    }

    /// Adds a sample of some metrics of `registry` to those of the last hour. `at` is in seconds since
    /// 1970.
    pub fn record_metrics(&self, registry: &Registry, at: i64) {
        self.metrics_history.record(registry, at);
    }

    /// Records the resident memory of the process and its limit, in bytes.
    pub fn set_memory(&self, resident: u64, limit: u64) {
        self.service.set_memory(resident, limit);
    }

    /// The memory use of the process.
    pub fn memory(&self) -> MemoryUse {
        self.service.memory_use()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
