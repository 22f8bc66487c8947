//! Read access to the newest applied state. [`Reader`] lists the whole read interface.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use index::coverage::GraphCounts;
use index::data::Counts;
use index::data::TenantIndex;
use index::triggers::{CompiledTrigger, OwnerCounts, Triggers};
use model::access::Caller;
use model::api_key::ApiKey;
use model::audit::AuditChain;
use model::cluster::Models;
use model::cluster::{Cluster, Position};
use model::guard::Guard;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::EventName;
use model::memory::{Memory, MemoryRecord, MemoryType};
use model::receipt::{ReceiptKey, Retention};
use model::release::Release;
use model::tenant::{Limit, Tenancy};
use model::thermo::Thermo;
use model::trigger::Firings;
use model::trigger::Outbox;
use model::vector::Vector;
use model::versions::Versions;
use parking_lot::RwLock;

use crate::change::{Change, all_of};
use crate::codec;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::search::query::SearchCounters;
use crate::table::key::{Key, Kind, fixed, prefix_end, receipt_of, split};
use crate::table::state::count;
use crate::table::view::{Row, View};
use crate::verify::{Verifier, hash_rows};

/// Read access to the newest applied state. Cheap to clone. Readers block a writer at most
/// for one chunk of rows. All reads use the cluster clock of the last batch. A read fails only
/// if the state cannot be read.
///
/// The methods stand in the file of their subject:
///
/// | subject | methods | file |
/// |---|---|---|
/// | position, tenants, keys, single memories, triggers | below | `reader.rs` |
/// | single records | the trait [`View`] | `table/view.rs` |
/// | lists | `list`, `hottest`, `ids` | `search/list.rs` |
/// | search | `search` | `search/execute.rs` |
/// | edges | `neighbours`, `graph_view`, `suggestions` | `search/related.rs` |
/// | analytics | `overview`, `forecast` | `search/overview.rs` |
/// | events | `journal`, `trigger_journal`, `journal_after`, `last_event` | `journal.rs` |
/// | deliveries | `due`, `dead_letters`, `deliveries` | `outbox.rs` |
/// | receipts | `old_receipts` | here |
/// | audit log | `audit` | `audit.rs` |
/// | traces of memories that are purged | `traces` | `traces.rs` |
#[derive(Clone)]
pub struct Reader {
    current: Arc<RwLock<Arc<Engine>>>,
    /// Odd while the memories are not indexed.
    indexings: Arc<AtomicU64>,
    verifier: Arc<Verifier>,
    searches: Arc<SearchCounters>,
    applied: Arc<AppliedCounters>,
    release: Release,
}

impl Reader {
    /// Position in the log up to which the state is applied.
    pub fn position(&self) -> Position {
        self.engine().position.read().clone()
    }

    /// SHA-256 of all rows, as in [`crate::VerifyResult`].
    pub fn hash(&self) -> Result<[u8; 32]> {
        hash_rows(&self.engine().state.snapshot(), Duration::ZERO)
    }

    /// The result of `read`; `None` if the memories were not indexed all the time. Their indexes are
    /// dropped while a received state is indexed, if there is no room for both.
    pub fn while_indexed<T>(&self, read: impl FnOnce(&Self) -> T) -> Option<T> {
        let before = self.indexings.load(Ordering::SeqCst);
        if !is_indexed(before) {
            return None;
        }
        let value = read(self);
        (self.indexings.load(Ordering::SeqCst) == before).then_some(value)
    }

    /// Bytes that RocksDB holds in RAM for the state.
    pub fn cache_bytes(&self) -> u64 {
        self.engine().state.cache_bytes()
    }

    /// Bytes of the files of the state.
    pub fn state_bytes(&self) -> u64 {
        self.engine().state.file_bytes()
    }

    /// All tenants in order of their numbers.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.engine().registry.all().into_iter().map(|(tenant, _)| tenant).collect()
    }

    /// A memory, and the vector of its text.
    pub fn with_vector(&self, tenant: TenantId, id: MemoryId) -> Result<Option<(Memory, Vector)>> {
        let engine = self.engine();
        let snapshot = engine.state.snapshot();
        let Some(memory) = snapshot.memory(tenant, id)? else { return Ok(None) };
        let place = snapshot.models()?.place;
        let vector = snapshot.record(&Key::vector(place, tenant, id))?;
        let vector = vector.ok_or_else(|| Error::missing("vector", tenant, id))?;
        Ok(Some((memory, vector)))
    }

    /// Number of a tenant's memories in the cold tier.
    pub fn cold_memories(&self, tenant: TenantId) -> u64 {
        self.index(tenant).map_or(0, |index| index.read().cold())
    }

    /// Numbers of a tenant's records. All 0 for unknown tenants.
    pub fn counts(&self, tenant: TenantId) -> Counts {
        self.index(tenant).map(|index| index.read().counts()).unwrap_or_default()
    }

    /// Coverage of a tenant's vector graph. All 0 without a graph.
    pub fn graph_counts(&self, tenant: TenantId) -> GraphCounts {
        self.index(tenant).map(|index| index.read().coverage.counts()).unwrap_or_default()
    }

    /// The rules of the guard of a tenant, unless they have the `known` version.
    pub fn guard(&self, tenant: TenantId, known: Option<u64>) -> Option<Guard> {
        let Some(index) = self.index(tenant) else { return Some(Guard::default()) };
        let data = index.read();
        let guard = &data.tenant.guard;
        (known != Some(guard.version)).then(|| guard.clone())
    }

    /// The configuration of a tenant.
    pub fn thermo(&self, tenant: TenantId) -> Thermo {
        self.engine().thermo(tenant)
    }

    /// Tenants with a decay tick that is due at the cluster clock or in progress. One without
    /// memories needs none, and a suspended one waits.
    pub fn tick_due(&self) -> Vec<TenantId> {
        let engine = self.engine();
        engine.registry.due_ticks(engine.clock())
    }

    /// Leaves out the ticks of a tenant on this node, after [`Self::tick_finds`] found nothing.
    pub fn leave_out_ticks(&self, tenant: TenantId, until: Timestamp, version: u64) {
        let engine = self.engine();
        engine.registry.leave_out_ticks(tenant, engine.clock(), until, version);
    }

    /// Tenants with deliveries, except those that are suspended.
    pub fn with_deliveries(&self) -> Vec<TenantId> {
        self.engine().registry.with_deliveries()
    }

    /// The outboxes of all tenants together.
    pub fn all_outboxes(&self) -> Outbox {
        self.engine().registry.all_outboxes()
    }

    /// Chains of audit logs whose first entry is older than `time`, at most `limit`.
    pub(crate) fn audits_before(
        &self,
        time: Timestamp,
        limit: usize,
    ) -> Vec<(TenantId, AuditChain)> {
        self.engine().registry.audits_before(time, limit)
    }

    /// The caller with API key `key`, if the key is valid. Compares in constant time.
    pub fn authenticate(&self, key: &str) -> Option<Caller> {
        self.engine().registry.authenticate(key, self.engine().clock())
    }

    /// Whether the embedding model is being changed.
    pub fn is_model_changing(&self) -> bool {
        self.engine().registry.models().next.is_some()
    }

    /// The feature level of the cluster; 0 before it is bootstrapped.
    pub fn feature_level(&self) -> u16 {
        self.engine().registry.cluster().map_or(0, |cluster| cluster.release.level)
    }

    /// The release of this node.
    pub fn own_release(&self) -> Release {
        self.release
    }

    /// The cluster clock: the time of the last batch, at most some seconds ago.
    pub fn clock(&self) -> Timestamp {
        self.engine().clock()
    }

    /// The name of a key.
    pub fn key_name(&self, id: KeyId) -> Option<String> {
        self.engine().registry.key_name(id)
    }

    /// Whether the text of a key with this SHA-256 is valid, and its tenant is not suspended.
    pub fn is_usable(&self, id: KeyId, hash: &[u8; 32]) -> bool {
        let engine = self.engine();
        engine.registry.is_usable(id, hash, engine.clock())
    }

    /// A limit of a tenant; `None` is unlimited.
    pub fn limit(&self, tenant: TenantId, limit: Limit) -> Option<u64> {
        self.engine().registry.limit(tenant, limit)
    }

    /// What all tenants share, without reading the disk.
    pub fn present_tenancy(&self) -> Arc<Tenancy> {
        self.engine().registry.tenancy()
    }

    /// Number of rows that belong to a tenant. Reads all of them.
    pub fn tenant_rows(&self, tenant: TenantId) -> Result<u64> {
        Kind::of_tenants().map(|kind| self.rows_of(kind, tenant)).sum()
    }

    /// Number of a tenant's API keys.
    pub fn key_count(&self, tenant: TenantId) -> Result<u64> {
        self.rows_of(Kind::ApiKey, tenant)
    }

    fn rows_of(&self, kind: Kind, tenant: TenantId) -> Result<u64> {
        let (start, end) = all_of(kind, tenant);
        count(self.engine().state.range(&start, &end))
    }

    /// Keys of a tenant in order of their ids, at most `limit`, the first one after `after`. Each
    /// with the time of its last use, within some minutes.
    pub fn keys_after(
        &self,
        tenant: TenantId,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<(KeyId, ApiKey, Option<Timestamp>)>> {
        let engine = self.engine();
        let (mut start, end) = all_of(Kind::ApiKey, tenant);
        if let Some(after) = after {
            start = prefix_end(&Key::ApiKey(tenant, after).bytes());
        }
        let keys = engine.state.range(&start, &end).take(limit).map(|row| {
            let (key, row) = row?;
            let id = KeyId(fixed(split(&key)?.1)?);
            Ok((id, codec::decode(&row)?, self.record(&Key::KeyUsed(tenant, id))?))
        });
        keys.collect()
    }

    /// A memory with its heat at the cluster clock.
    pub fn get(&self, tenant: TenantId, id: MemoryId) -> Result<Option<MemoryRecord>> {
        let engine = self.engine();
        let (now, thermo) = (engine.clock(), engine.thermo(tenant));
        engine.state.snapshot().memory_record(tenant, id, &thermo, now)
    }

    /// The texts that a memory had before.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn versions(&self, tenant: TenantId, id: MemoryId) -> Result<Versions> {
        let row: Option<Versions> = self.record(&Key::MemoryVersions(tenant, id))?;
        Ok(row.unwrap_or_default())
    }

    /// A tenant's triggers in the order of evaluation, with their firing counts.
    pub fn triggers(&self, tenant: TenantId) -> Vec<(Arc<CompiledTrigger>, Firings)> {
        let registry = &self.engine().registry;
        let all = registry.triggers(tenant).all().into_iter();
        all.map(|compiled| (Arc::clone(&compiled), registry.firings(tenant, compiled.id))).collect()
    }

    /// Firing counts of a trigger.
    pub fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.engine().registry.firings(tenant, id)
    }

    /// The owners of the enabled triggers of a tenant that wait for the recall of a memory like this
    /// one, each with the number of these triggers. Labels and heats are not compared.
    pub fn owners_on_recall(
        &self,
        tenant: TenantId,
        namespace: &str,
        memory_type: MemoryType,
    ) -> OwnerCounts {
        self.trigger_set(tenant).owners_on_recall(namespace, memory_type)
    }

    /// Results of verify marks on this node.
    pub fn verifier(&self) -> &Arc<Verifier> {
        &self.verifier
    }

    /// Numbers of searches on this node.
    pub fn searches(&self) -> &SearchCounters {
        &self.searches
    }

    /// Numbers of what this node has applied.
    pub fn applied(&self) -> &AppliedCounters {
        &self.applied
    }

    pub(crate) fn new(engine: Engine, release: Release) -> Self {
        let current = Arc::new(RwLock::new(Arc::new(engine)));
        let (indexings, verifier, searches, applied) = Default::default();
        Self { current, indexings, verifier, searches, applied, release }
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
        if !is_indexed(self.indexings.load(Ordering::SeqCst)) {
            self.indexings.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Replaces the engine by one without the indexes of the memories, until the next
    /// [replacement](Self::replace).
    pub(crate) fn release(&self, engine: Engine) {
        self.indexings.fetch_add(1, Ordering::SeqCst);
        *self.current.write() = Arc::new(engine);
    }

    pub(crate) fn index(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.engine().registry.tenant(tenant)
    }

    pub(crate) fn trigger_set(&self, tenant: TenantId) -> Arc<Triggers> {
        self.engine().registry.triggers(tenant)
    }
}

/// Whether the memories are indexed at this number of droppings and replacements.
fn is_indexed(indexings: u64) -> bool {
    indexings.is_multiple_of(2)
}

impl View for Reader {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.engine().state.bytes(key)
    }

    fn rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<Row>> {
        self.engine().state.rows(prefix, limit)
    }

    fn cluster(&self) -> Result<Option<Arc<Cluster>>> {
        Ok(self.engine().registry.cluster())
    }

    fn models(&self) -> Result<Models> {
        Ok(self.engine().registry.models())
    }
}

/// Ticks, and events by kind.
#[derive(Default)]
pub struct AppliedCounters {
    ticks: AtomicU64,
    events: [AtomicU64; EventName::ALL.len()],
}

impl AppliedCounters {
    pub(crate) fn count(&self, changes: &[Change]) {
        for change in changes {
            let counter = match change {
                Change::TickPut(..) => &self.ticks,
                Change::EventAppended(_, event) => &self.events[event.kind.name() as usize],
                _ => continue,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ticks of all tenants.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Events of a kind, of all tenants.
    pub fn events(&self, name: EventName) -> u64 {
        self.events[name as usize].load(Ordering::Relaxed)
    }
}

impl Reader {
    /// The first `limit` receipts of an API key at or before `until` that pass `filter`, the
    /// oldest first. Removed receipts before them cost nothing.
    pub(crate) fn old_receipts(
        &self,
        tenant: TenantId,
        owner: KeyId,
        retention: Retention,
        until: Timestamp,
        limit: usize,
        filter: impl Fn(&ReceiptKey) -> bool,
    ) -> Result<Vec<(Timestamp, ReceiptKey)>> {
        let index = self.index(tenant);
        let oldest = index.and_then(|index| index.read().receipts.oldest(owner, retention));
        let Some(oldest) = oldest.filter(|oldest| *oldest <= until) else { return Ok(Vec::new()) };
        let key = |at| Key::ReceiptAge(tenant, owner, retention, at, [0; 32]).bytes();
        let engine = self.engine();
        let rows = engine.state.range(&key(oldest), &key(Timestamp(until.0.saturating_add(1))));
        let receipts = rows.map(|row| receipt_of(&row?.0).map(|(_, _, at, hash)| (at, hash)));
        let passes = |receipt: &Result<(Timestamp, ReceiptKey)>| {
            receipt.as_ref().map_or(true, |(_, hash)| filter(hash))
        };
        receipts.filter(passes).take(limit).collect()
    }
}
