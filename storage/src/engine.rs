//! One opened state with its indexes, and the handles to it: the `Reader` that
//! everybody may hold, and what `Writer` shares with it. Rules are not here.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use rocksdb::Env;

use crate::error::Result;
use crate::index::coverage::GraphCounts;
use crate::index::registry::Registry;
use crate::index::tenant::TenantIndex;
use crate::index::triggers::{CompiledTrigger, Triggers};
use crate::model::access::Access;
use crate::model::cluster::Position;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::memory::MemoryRecord;
use crate::model::tenant::{ApiKey, Caller, KeyId};
use crate::model::thermo::Thermo;
use crate::model::trigger::{Firings, TriggerEvent};
use crate::table::key::Key;
use crate::table::state::State;
use crate::table::view::View;
use crate::verify::Verifier;

/// An opened state and everything derived from it.
pub(crate) struct Engine {
    pub(crate) state: Arc<State>,
    pub(crate) registry: Registry,
    pub(crate) position: RwLock<Position>,
}

/// How an engine is opened.
#[derive(Clone)]
pub struct Options {
    /// Memories that a search scores all of, rather than ask a graph. A tenant with more
    /// than that gets one.
    pub exact_max: usize,
    /// The file system below RocksDB, for simulation; `None` is the machine's own.
    pub env: Option<Env>,
}

impl Default for Options {
    fn default() -> Self {
        Self { exact_max: EXACT_MAX, env: None }
    }
}

impl Engine {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        let state = State::open(path, options.env.as_ref())?;
        let position = state.record::<Position>(&Key::Position)?.unwrap_or_default();
        let registry = Registry::rebuild(&state, options.exact_max)?;
        Ok(Self { state: Arc::new(state), registry, position: RwLock::new(position) })
    }
}

/// Default of [`Options::exact_max`]: as many rows as are scanned in a few milliseconds.
const EXACT_MAX: usize = 50_000;

/// How many searches were answered in which way.
#[derive(Debug, Default)]
pub struct SearchCounters {
    exact: AtomicU64,
    by_graph: AtomicU64,
}

impl SearchCounters {
    pub(crate) fn count(&self, by_graph: bool) {
        let counter = if by_graph { &self.by_graph } else { &self.exact };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// SearchCounters that looked at every memory that passed their filter.
    pub fn exact(&self) -> u64 {
        self.exact.load(Ordering::Relaxed)
    }

    /// SearchCounters that a graph was asked for.
    pub fn by_graph(&self) -> u64 {
        self.by_graph.load(Ordering::Relaxed)
    }
}

/// How many things a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Memories, both tiers.
    pub memories: u64,
    /// Receipts of today and yesterday.
    pub receipts: u64,
    /// Journal events.
    pub events: u64,
    /// Edges between memories.
    pub edges: u64,
}

/// Read access to the newest applied state. Cheap to clone; never blocks a
/// writer for longer than one chunk of rows.
#[derive(Clone)]
pub struct Reader {
    current: Arc<RwLock<Arc<Engine>>>,
    verifier: Arc<Verifier>,
    searches: Arc<SearchCounters>,
}

impl Reader {
    pub(crate) fn new(engine: Engine) -> Self {
        let current = Arc::new(RwLock::new(Arc::new(engine)));
        Self { current, verifier: Arc::default(), searches: Arc::default() }
    }

    pub(crate) fn current(&self) -> Weak<RwLock<Arc<Engine>>> {
        Arc::downgrade(&self.current)
    }

    /// The present engine. Whoever holds it finishes on it, also when a snapshot
    /// is installed meanwhile.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.current.read())
    }

    pub(crate) fn replace(&self, engine: Engine) {
        *self.current.write() = Arc::new(engine);
    }

    /// How searches were answered.
    pub fn searches(&self) -> &SearchCounters {
        &self.searches
    }

    /// What the graph of a tenant holds; nothing, if there is none.
    pub fn graph_counts(&self, tenant: TenantId) -> GraphCounts {
        self.index(tenant).map(|index| index.read().graph_counts()).unwrap_or_default()
    }

    /// Results of verify marks on this node.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub(crate) fn verifier_handle(&self) -> Arc<Verifier> {
        Arc::clone(&self.verifier)
    }

    /// How far the state has come.
    pub fn position(&self) -> Position {
        self.engine().position.read().clone()
    }

    /// Who presents `key`, compared in constant time.
    pub fn authenticate(&self, key: &str) -> Option<Caller> {
        self.engine().registry.authenticate(key)
    }

    /// All tenants in order of their number.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.engine().registry.all().into_iter().map(|(tenant, _)| tenant).collect()
    }

    /// How many things a tenant has.
    pub fn counts(&self, tenant: TenantId) -> Counts {
        let Some(index) = self.index(tenant) else { return Counts::default() };
        let inner = index.read();
        Counts {
            memories: inner.live() as u64,
            receipts: inner.receipts(),
            events: inner.events(),
            edges: inner.edges(),
        }
    }

    /// A memory with its heat as of the cluster clock.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn get(&self, tenant: TenantId, id: MemoryId) -> Result<Option<MemoryRecord>> {
        let engine = self.engine();
        let now = engine.position.read().clock;
        engine.state.at_once().memory_record(tenant, id, &thermo(&engine, tenant), now)
    }

    /// The configuration in force for a tenant.
    pub fn thermo(&self, tenant: TenantId) -> Thermo {
        thermo(&self.engine(), tenant)
    }

    /// Tenants whose tick is due by the cluster clock, or under way.
    pub fn tick_due(&self) -> Vec<TenantId> {
        let engine = self.engine();
        let now = engine.position.read().clock;
        let is_due = |tenant: &TenantId| {
            let Ok(Some(tick)) = engine.state.tick(*tenant) else { return false };
            let interval = thermo(&engine, *tenant).tick_interval_seconds;
            tick.is_due(now, interval)
        };
        self.tenants().into_iter().filter(is_due).collect()
    }

    /// The day of the oldest receipt of a tenant.
    pub(crate) fn oldest_receipt_day(&self, tenant: TenantId) -> Option<u32> {
        self.index(tenant)?.read().oldest_receipt_day()
    }

    /// Whether a key is one still.
    pub fn has_key(&self, id: KeyId) -> bool {
        self.engine().registry.has_key(id)
    }

    /// What a key may touch; `None` if it is no key any more.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn access(&self, tenant: TenantId, id: KeyId) -> Result<Option<Access>> {
        let key: Option<ApiKey> = self.record(&Key::ApiKey(tenant, id))?;
        let rules = self.access_rules(tenant)?;
        Ok(key.map(|key| rules.of(id, &key.name, key.role)))
    }

    /// A tenant's triggers in the order in which they are asked, with what they have done.
    pub fn triggers(&self, tenant: TenantId) -> Vec<(Arc<CompiledTrigger>, Firings)> {
        let engine = self.engine();
        let all = engine.registry.triggers(tenant).all().into_iter();
        let with_firings = |compiled: Arc<CompiledTrigger>| {
            let firings = engine.registry.firings(tenant, compiled.id);
            (compiled, firings)
        };
        all.map(with_firings).collect()
    }

    /// What a trigger has done so far.
    pub fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.engine().registry.firings(tenant, id)
    }

    /// Whether a trigger of a tenant that is enabled waits for `event`.
    pub fn has_triggers_on(&self, tenant: TenantId, event: TriggerEvent) -> bool {
        self.trigger_set(tenant).has_event(event)
    }

    pub(crate) fn trigger_set(&self, tenant: TenantId) -> Arc<Triggers> {
        self.engine().registry.triggers(tenant)
    }

    pub(crate) fn index(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.engine().registry.tenant(tenant)
    }
}

impl View for Reader {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.engine().state.bytes(key)
    }

    fn rows(&self, prefix: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.engine().state.rows(prefix, most)
    }
}

/// The configuration in force for a tenant.
pub(crate) fn thermo(engine: &Engine, tenant: TenantId) -> Thermo {
    let index = engine.registry.tenant(tenant);
    index.map(|index| (*index.read().tenant().thermo).clone()).unwrap_or_default()
}
