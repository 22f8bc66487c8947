//! Read access to the newest applied state: the whole read interface of the engine.
//!
//! The methods are grouped by subject. Each one delegates to the module that implements it:
//! `search` for ranked reads, `index` for in-memory data, `table` for single rows, `journal`
//! for events, `outbox` for deliveries. All reads use the cluster clock of the last batch.
//! Reads of single records come from the trait [`View`], which `Reader` implements.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::engine::Engine;
use crate::error::Result;
use crate::index::covered::GraphCounts;
use crate::index::tenant::TenantIndex;
use crate::index::triggers::{CompiledTrigger, Triggers};
use crate::model::access::Access;
use crate::model::caller::Caller;
use crate::model::cluster::Position;
use crate::model::edge::Suggestion;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::memory::MemoryRecord;
use crate::model::tenant::{ApiKey, KeyId};
use crate::model::thermo::Thermo;
use crate::model::tick::Tick;
use crate::model::trigger::{Firings, TriggerEvent};
use crate::search::execute::{SearchCounters, search};
use crate::search::filter::Filter;
use crate::search::forecast::{ColdForecast, forecast_cold};
use crate::search::list::{HotRequest, ListRequest, Page, hottest, ids, list};
use crate::search::overview::{Overview, overview};
use crate::search::query::{SearchRequest, SearchResults};
use crate::search::related::{GraphView, Neighbour, graph_view, neighbours};
use crate::search::suggest::suggestions;
use crate::search::tick_scan::{TickCandidates, tick_candidates};
use crate::table::key::Key;
use crate::table::view::View;
use crate::verify::Verifier;

/// Read access to the newest applied state. Cheap to clone. Readers block a writer at most
/// for one chunk of rows.
#[derive(Clone)]
pub struct Reader {
    current: Arc<RwLock<Arc<Engine>>>,
    verifier: Arc<Verifier>,
    searches: Arc<SearchCounters>,
}

/// Numbers of a tenant's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Memories in both tiers.
    pub memories: u64,
    /// Receipts of today and yesterday.
    pub receipts: u64,
    /// Journal events.
    pub events: u64,
    /// Edges between memories.
    pub edges: u64,
}

impl Reader {
    // ---- Position and tenants ----

    /// Position in the log up to which the state is applied.
    pub fn position(&self) -> Position {
        self.engine().position.read().clone()
    }

    /// All tenants in order of their numbers.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.engine().registry.all().into_iter().map(|(tenant, _)| tenant).collect()
    }

    /// Numbers of a tenant's records. All 0 for unknown tenants.
    pub fn counts(&self, tenant: TenantId) -> Counts {
        let Some(index) = self.index(tenant) else { return Counts::default() };
        let data = index.read();
        Counts {
            memories: data.live() as u64,
            receipts: data.receipts(),
            events: data.events(),
            edges: data.edges(),
        }
    }

    /// The configuration of a tenant.
    pub fn thermo(&self, tenant: TenantId) -> Thermo {
        self.engine().thermo(tenant)
    }

    /// Tenants with a decay tick that is due at the cluster clock or in progress.
    pub fn tick_due(&self) -> Vec<TenantId> {
        let engine = self.engine();
        let now = engine.clock();
        let is_due = |tenant: &TenantId| {
            let Ok(Some(tick)) = engine.state.tick(*tenant) else { return false };
            tick.is_due(now, engine.thermo(*tenant).tick_interval_seconds)
        };
        self.tenants().into_iter().filter(is_due).collect()
    }

    // ---- Keys and access ----

    /// The caller with API key `key`, if the key is valid. Compares in constant time.
    pub fn authenticate(&self, key: &str) -> Option<Caller> {
        self.engine().registry.authenticate(key)
    }

    /// Whether a key exists.
    pub fn has_key(&self, id: KeyId) -> bool {
        self.engine().registry.has_key(id)
    }

    /// The namespaces that a key may use. `None` if the key does not exist.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn access(&self, tenant: TenantId, id: KeyId) -> Result<Option<Access>> {
        let key: Option<ApiKey> = self.record(&Key::ApiKey(tenant, id))?;
        let rules = self.access_rules(tenant)?;
        Ok(key.map(|key| rules.access_of(id, &key.name, key.role)))
    }

    // ---- Memories ----

    /// A memory with its heat at the cluster clock.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn get(&self, tenant: TenantId, id: MemoryId) -> Result<Option<MemoryRecord>> {
        let engine = self.engine();
        let (now, thermo) = (engine.clock(), engine.thermo(tenant));
        engine.state.snapshot().memory_record(tenant, id, &thermo, now)
    }

    /// A page of a tenant's memories.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn list(&self, tenant: TenantId, request: &ListRequest) -> Result<Page> {
        list(&self.engine(), tenant, request)
    }

    /// The hottest memories of a tenant, by heat, then by last update.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn hottest(&self, tenant: TenantId, request: &HotRequest) -> Result<Vec<MemoryRecord>> {
        Ok(hottest(&self.engine(), tenant, request)?.memories)
    }

    /// Ids of all matching memories, in no particular order.
    pub fn ids(&self, tenant: TenantId, filter: &Filter) -> Vec<MemoryId> {
        ids(&self.engine(), tenant, filter)
    }

    // ---- Search ----

    /// The best results of a search.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn search(&self, tenant: TenantId, request: &SearchRequest) -> Result<SearchResults> {
        search(&self.engine(), &self.searches, tenant, request)
    }

    /// Numbers of searches on this node.
    pub fn searches(&self) -> &SearchCounters {
        &self.searches
    }

    // ---- Graph of memories, and graph of vectors ----

    /// Memories connected to `id`, nearest first, then by edge weight. Each occurs once, with
    /// the shortest path over memories that `access` allows. `None` if `id` does not exist.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn neighbours(
        &self,
        tenant: TenantId,
        id: MemoryId,
        access: &Access,
        depth: u32,
        limit: usize,
    ) -> Result<Option<Vec<Neighbour>>> {
        neighbours(&self.engine(), tenant, id, access, depth, limit)
    }

    /// The hottest memories and the edges between them.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn graph_view(&self, tenant: TenantId, request: &HotRequest) -> Result<GraphView> {
        graph_view(&self.engine(), tenant, request)
    }

    /// Edges that a new memory with this text, key points and unit vector should get.
    pub fn suggestions(
        &self,
        tenant: TenantId,
        label: &str,
        key_points: &[String],
        vector: &[f32],
    ) -> Vec<Suggestion> {
        suggestions(&self.engine(), tenant, label, key_points, vector)
    }

    /// Coverage of a tenant's vector graph. All 0 without a graph.
    pub fn graph_counts(&self, tenant: TenantId) -> GraphCounts {
        self.index(tenant).map(|index| index.read().graph_counts()).unwrap_or_default()
    }

    // ---- Analytics ----

    /// Counts and averages over the memories that match `filter`, in both tiers.
    pub fn overview(&self, tenant: TenantId, filter: &Filter) -> Overview {
        overview(&self.engine(), tenant, filter)
    }

    /// Number of memories per type, in the order of `MemoryType::ALL`, that would be cold
    /// under `thermo` after each number of `days`.
    pub fn forecast_cold(
        &self,
        tenant: TenantId,
        thermo: &Thermo,
        days: &[u32],
    ) -> [ColdForecast; 6] {
        forecast_cold(&self.engine(), tenant, thermo, days)
    }

    // ---- Triggers. Deliveries are in `outbox`, events in `journal`. ----

    /// A tenant's triggers in the order of evaluation, with their firing counts.
    pub fn triggers(&self, tenant: TenantId) -> Vec<(Arc<CompiledTrigger>, Firings)> {
        let engine = self.engine();
        let with_firings = |compiled: Arc<CompiledTrigger>| {
            let firings = engine.registry.firings(tenant, compiled.id);
            (compiled, firings)
        };
        engine.registry.triggers(tenant).all().into_iter().map(with_firings).collect()
    }

    /// Firing counts of a trigger.
    pub fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.engine().registry.firings(tenant, id)
    }

    /// Whether a tenant has an enabled trigger for `event`.
    pub fn has_triggers_on(&self, tenant: TenantId, event: TriggerEvent) -> bool {
        self.trigger_set(tenant).has_event(event)
    }

    // ---- Verification ----

    /// Results of verify marks on this node.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }
}

/// What only the crate needs.
impl Reader {
    pub(crate) fn new(engine: Engine) -> Self {
        let current = Arc::new(RwLock::new(Arc::new(engine)));
        Self { current, verifier: Arc::default(), searches: Arc::default() }
    }

    /// The current engine. A reader keeps using it after a snapshot installation replaced it.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.current.read())
    }

    /// A weak handle to the current engine, for background threads.
    pub(crate) fn current(&self) -> Weak<RwLock<Arc<Engine>>> {
        Arc::downgrade(&self.current)
    }

    /// Replaces the engine after a snapshot installation.
    pub(crate) fn replace(&self, engine: Engine) {
        *self.current.write() = Arc::new(engine);
    }

    pub(crate) fn index(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.engine().registry.tenant(tenant)
    }

    pub(crate) fn trigger_set(&self, tenant: TenantId) -> Arc<Triggers> {
        self.engine().registry.triggers(tenant)
    }

    /// Day of a tenant's oldest receipt.
    pub(crate) fn oldest_receipt_day(&self, tenant: TenantId) -> Option<u32> {
        self.index(tenant)?.read().oldest_receipt_day()
    }

    /// See [`tick_candidates`].
    pub(crate) fn tick_candidates(
        &self,
        tenant: TenantId,
        tick: &Tick,
        thresholds: &[f64],
        reached: Option<MemoryId>,
        limit: usize,
    ) -> TickCandidates {
        tick_candidates(&self.engine(), tenant, tick, thresholds, reached, limit)
    }

    pub(crate) fn verifier_handle(&self) -> Arc<Verifier> {
        Arc::clone(&self.verifier)
    }
}

impl View for Reader {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.engine().state.bytes(key)
    }

    fn rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.engine().state.rows(prefix, limit)
    }
}
