//! The registry: the in-memory data of all tenants of one state. It contains indexes, API
//! keys, access rules and triggers. Each opened state has its own registry, rebuilt from its rows.
//! Graphs are not part of the rebuild: the graph builder adds them in the background.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use index::data::IndexChange;
use index::data::TenantIndex;
use index::schedule::Schedule;
use index::triggers::Triggers;
use model::access::{Caller, Rules};
use model::api_key::{ApiKey, KeyText};
use model::audit::{AuditChain, AuditEnds};
use model::cluster::Cluster;
use model::cluster::{Models, VectorPlace};
use model::id::{KeyId, TenantId, Timestamp, TriggerId};
use model::tenant::{Limit, Tenancy, Tenant, TenantState};
use model::trigger::Firings;
use model::trigger::Outbox;
use parking_lot::{Mutex, RwLock};

use crate::codec::{self, Record};
use crate::error::{Error, Result};
use crate::rebuild::rebuild;
use crate::table::key::{Kind, fixed, split};
use crate::table::state::State;
use crate::table::view::View;

/// The in-memory data of a state.
#[derive(Default)]
pub(crate) struct Registry {
    /// See [`crate::engine::Options::exact_max`].
    pub(crate) exact_max: usize,
    /// Every message between nodes reads it.
    cluster: RwLock<Option<Arc<Cluster>>>,
    /// Every command with a text reads it.
    models: RwLock<Models>,
    tenants: RwLock<HashMap<TenantId, Arc<TenantIndex>>>,
    tenancy: RwLock<Arc<Tenancy>>,
    suspended: RwLock<HashSet<TenantId>>,
    /// Requests per minute of tenants that have a limit: every request reads it.
    request_limits: RwLock<HashMap<TenantId, u64>>,
    keys: RwLock<HashMap<KeyId, (TenantId, ApiKey)>>,
    rules: RwLock<HashMap<TenantId, Rules>>,
    triggers: RwLock<HashMap<TenantId, Arc<Triggers>>>,
    /// Firing counts, in memory because every evaluation reads them.
    firings: RwLock<HashMap<(TenantId, TriggerId), Firings>>,
    schedule: Mutex<Schedule>,
    /// Tenants whose graph needs work, for the graph builder.
    stale_graphs: Mutex<BTreeSet<TenantId>>,
    /// Deleted tenants, whose indexes the graph builder drops: that takes time.
    removed: Mutex<Vec<(TenantId, Arc<TenantIndex>)>>,
}

impl Registry {
    /// Builds the registry of `state`, without the indexes of the memories.
    pub(crate) fn without_memories(state: &State, exact_max: usize) -> Result<Self> {
        let registry = Self { exact_max, ..Self::default() };
        *registry.cluster.write() = state.cluster()?;
        *registry.models.write() = state.models()?;
        registry.put_tenancy(state.tenancy()?);
        for_each(state, Kind::Tenant, |tenant, [], row| {
            registry.put_tenant(tenant, row);
        })?;
        for_each(state, Kind::ApiKey, |tenant, id, row| registry.put_key(tenant, KeyId(id), row))?;
        for_each(state, Kind::Rules, |tenant, [], row| registry.put_rules(tenant, row))?;
        let mut triggers: HashMap<TenantId, Vec<_>> = HashMap::new();
        for_each(state, Kind::Trigger, |tenant, id, row| {
            triggers.entry(tenant).or_default().push((TriggerId(id), row));
        })?;
        for (tenant, all) in triggers {
            registry.change_triggers(tenant, |of_tenant| *of_tenant = Triggers::of(all));
        }
        for_each(state, Kind::Firings, |tenant, id, row| {
            registry.put_firings(tenant, TriggerId(id), row);
        })?;
        for_each(state, Kind::Outbox, |tenant, [], row| registry.put_outbox(tenant, row))?;
        let mut chains = Vec::new();
        for_each(state, Kind::AuditEnds, |tenant, [chain], ends: AuditEnds| {
            chains.push((tenant, chain, ends));
        })?;
        for (tenant, chain, ends) in chains {
            let known = AuditChain::ALL.get(usize::from(chain)).copied();
            registry.put_audit_ends(tenant, known.ok_or_else(|| unknown_chain(chain))?, &ends);
        }
        Ok(registry)
    }

    /// Builds the indexes of the memories of `state`, without graphs. Adds their number to `indexed`.
    pub(crate) fn index_memories(&self, state: &State, indexed: &AtomicU64) -> Result<()> {
        for (tenant, index) in self.all() {
            rebuild(state, tenant, &index, indexed)?;
            self.schedule_tick(state, tenant)?;
            self.mark_if_stale(tenant, &index);
        }
        Ok(())
    }

    /// Queues a tenant with a stale graph for the graph builder. Returns whether it was added.
    pub(crate) fn mark_if_stale(&self, tenant: TenantId, index: &TenantIndex) -> bool {
        let data = index.read();
        let is_stale = data.coverage.is_stale(data.live(), self.exact_max);
        drop(data);
        is_stale && self.stale_graphs.lock().insert(tenant)
    }

    /// Removes and returns the next tenant after `last` from the queue, round-robin.
    pub(crate) fn take_stale(&self, last: TenantId) -> Option<TenantId> {
        let mut stale = self.stale_graphs.lock();
        let above = (Bound::Excluded(last), Bound::Unbounded);
        let next = stale.range(above).next().or_else(|| stale.first()).copied()?;
        stale.take(&next)
    }

    pub(crate) fn tenant(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.tenants.read().get(&tenant).cloned()
    }

    /// All tenants in order of their number.
    pub(crate) fn all(&self) -> Vec<(TenantId, Arc<TenantIndex>)> {
        let tenants = self.tenants.read();
        let mut all: Vec<_> =
            tenants.iter().map(|(tenant, index)| (*tenant, Arc::clone(index))).collect();
        all.sort_by_key(|(tenant, _)| *tenant);
        all
    }

    /// The cluster, once it is bootstrapped.
    pub(crate) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.read().clone()
    }

    pub(crate) fn put_cluster(&self, cluster: Cluster) {
        *self.cluster.write() = Some(Arc::new(cluster));
    }

    /// Which vectors are in use, and which are to come.
    pub(crate) fn models(&self) -> Models {
        self.models.read().clone()
    }

    /// The place of the vectors in use.
    pub(crate) fn vector_place(&self) -> VectorPlace {
        self.models.read().place
    }

    pub(crate) fn put_models(&self, models: Models) {
        *self.models.write() = models;
    }

    /// What all tenants share.
    pub(crate) fn tenancy(&self) -> Arc<Tenancy> {
        Arc::clone(&self.tenancy.read())
    }

    pub(crate) fn put_tenancy(&self, tenancy: Tenancy) {
        let tiers_differ = self.tenancy().tiers != tenancy.tiers;
        *self.tenancy.write() = Arc::new(tenancy);
        if tiers_differ {
            self.all().iter().for_each(|(id, index)| {
                self.set_request_limit(*id, &index.read().tenant);
            });
        }
    }

    /// Removes all that belongs to a tenant. Reads that are under way finish on its index.
    pub(crate) fn remove_tenant(&self, id: TenantId) {
        let index = self.tenants.write().remove(&id);
        self.suspended.write().remove(&id);
        self.request_limits.write().remove(&id);
        self.schedule.lock().remove(id);
        self.keys.write().retain(|_, (tenant, _)| *tenant != id);
        self.rules.write().remove(&id);
        self.triggers.write().remove(&id);
        self.firings.write().retain(|(tenant, _), _| *tenant != id);
        self.stale_graphs.lock().remove(&id);
        self.removed.lock().extend(index.map(|index| (id, index)));
    }

    /// Schedules the tick of a tenant that has memories and is not suspended.
    pub(crate) fn schedule_tick(&self, state: &State, id: TenantId) -> Result<()> {
        let due_at = match self.tenant(id) {
            Some(index) if !self.is_suspended(id) => {
                let interval = index.read().tenant.thermo.tick_interval_seconds;
                let tick = state.tick(id)?;
                tick.filter(|_| index.read().live() > 0).map(|tick| tick.due_at(interval))
            }
            _ => None,
        };
        self.schedule.lock().set_tick(id, due_at);
        Ok(())
    }

    /// Schedules the tick of a tenant that has changed: at the latest an interval after `now`.
    pub(crate) fn schedule_change(
        &self,
        state: &State,
        id: TenantId,
        now: Timestamp,
    ) -> Result<()> {
        let due_at = self.schedule.lock().tick_due_at(id);
        match (due_at, self.after_interval(id, now)) {
            (None, _) => self.schedule_tick(state, id)?,
            (Some(due_at), Some(next)) if due_at > next => {
                self.schedule.lock().set_tick(id, Some(next));
            }
            _ => {}
        }
        Ok(())
    }

    fn after_interval(&self, id: TenantId, now: Timestamp) -> Option<Timestamp> {
        let interval = self.tenant(id)?.read().tenant.thermo.tick_interval_seconds;
        Some(Timestamp(now.0 + i64::from(interval) * Timestamp::SECOND_MICROS))
    }

    /// Tenants whose tick is due. Those without memories are taken from the schedule.
    pub(crate) fn due_ticks(&self, now: Timestamp) -> Vec<TenantId> {
        // Locked while the memories are counted: `apply` adds a memory, then reads the schedule.
        let mut schedule = self.schedule.lock();
        let (due, idle) = schedule
            .due_ticks(now)
            .into_iter()
            .partition(|id| self.tenant(*id).is_some_and(|index| index.read().live() > 0));
        let idle: Vec<_> = idle;
        idle.into_iter().for_each(|id| schedule.set_tick(id, None));
        due
    }

    /// Leaves out the ticks of a tenant until a time, and for an interval at least. If its index
    /// has another version, for an interval only.
    pub(crate) fn leave_out_ticks(
        &self,
        id: TenantId,
        now: Timestamp,
        until: Timestamp,
        version: u64,
    ) {
        let (Some(index), Some(next)) = (self.tenant(id), self.after_interval(id, now)) else {
            return;
        };
        // Locked while the version is compared: `apply` changes the index, then the schedule.
        let mut schedule = self.schedule.lock();
        if schedule.tick_due_at(id).is_some() {
            let is_same = index.read().version() == version;
            schedule.set_tick(id, Some(if is_same { until.max(next) } else { next }));
        }
    }

    pub(crate) fn put_outbox(&self, id: TenantId, outbox: Outbox) {
        self.schedule.lock().set_outbox(id, outbox);
    }

    /// Tenants with pending deliveries that are not suspended.
    pub(crate) fn with_deliveries(&self) -> Vec<TenantId> {
        let schedule = self.schedule.lock();
        let pending = schedule.outboxes().iter().filter(|(_, outbox)| outbox.pending > 0);
        pending.map(|(id, _)| *id).filter(|id| !self.is_suspended(*id)).collect()
    }

    /// The outboxes of all tenants together.
    pub(crate) fn all_outboxes(&self) -> Outbox {
        let schedule = self.schedule.lock();
        schedule.outboxes().values().copied().fold(Outbox::default(), Outbox::plus)
    }

    pub(crate) fn put_audit_ends(&self, id: TenantId, chain: AuditChain, ends: &AuditEnds) {
        self.schedule.lock().set_audit(id, chain, ends.first_at);
    }

    /// Chains of audit logs whose first entry is older than `time`, at most `limit`.
    pub(crate) fn audits_before(
        &self,
        time: Timestamp,
        limit: usize,
    ) -> Vec<(TenantId, AuditChain)> {
        self.schedule.lock().audits_before(time, limit)
    }

    fn is_suspended(&self, id: TenantId) -> bool {
        self.suspended.read().contains(&id)
    }

    /// Deleted tenants, each once.
    pub(crate) fn take_removed(&self) -> Vec<(TenantId, Arc<TenantIndex>)> {
        std::mem::take(&mut self.removed.lock())
    }

    fn set_request_limit(&self, id: TenantId, tenant: &Tenant) {
        match tenant.limit(&self.tenancy(), Limit::RequestsPerMinute) {
            Some(limit) => self.request_limits.write().insert(id, limit),
            None => self.request_limits.write().remove(&id),
        };
    }

    pub(crate) fn put_tenant(&self, id: TenantId, tenant: Tenant) {
        self.set_request_limit(id, &tenant);
        match tenant.state {
            TenantState::Active => self.suspended.write().remove(&id),
            TenantState::Suspended => self.suspended.write().insert(id),
        };
        match self.tenant(id) {
            Some(index) => index.apply([IndexChange::Tenant(tenant)]),
            None => {
                let dimension = self.cluster().map_or(0, |it| it.model.dimension as usize);
                self.tenants.write().insert(id, Arc::new(TenantIndex::new(tenant, dimension)));
            }
        }
    }

    pub(crate) fn put_key(&self, tenant: TenantId, id: KeyId, key: ApiKey) {
        self.keys.write().insert(id, (tenant, key));
    }

    pub(crate) fn remove_key(&self, id: KeyId) {
        self.keys.write().remove(&id);
    }

    /// The name of a key.
    pub(crate) fn key_name(&self, id: KeyId) -> Option<String> {
        self.keys.read().get(&id).map(|(_, key)| key.name.clone())
    }

    /// Whether the text of a key with this hash is valid at `now`, and its tenant is not suspended.
    pub(crate) fn is_usable(&self, id: KeyId, hash: &[u8; 32], now: Timestamp) -> bool {
        let keys = self.keys.read();
        let is_valid = |key: &ApiKey| key.matches(hash, now) && key.is_valid_at(now);
        let key = keys.get(&id).filter(|(_, key)| is_valid(key));
        key.is_some_and(|(tenant, _)| !self.is_suspended(*tenant))
    }

    /// A limit of a tenant; `None` is unlimited.
    pub(crate) fn limit(&self, tenant: TenantId, limit: Limit) -> Option<u64> {
        self.tenant(tenant)?.read().tenant.limit(&self.tenancy(), limit)
    }

    pub(crate) fn put_rules(&self, tenant: TenantId, rules: Rules) {
        self.rules.write().insert(tenant, rules);
    }

    pub(crate) fn change_triggers(&self, tenant: TenantId, change: impl FnOnce(&mut Triggers)) {
        // Copy on write: readers keep the version that they hold.
        change(Arc::make_mut(self.triggers.write().entry(tenant).or_default()));
    }

    pub(crate) fn remove_trigger(&self, tenant: TenantId, id: TriggerId) {
        self.change_triggers(tenant, |all| all.remove(id));
        self.firings.write().remove(&(tenant, id));
    }

    pub(crate) fn put_firings(&self, tenant: TenantId, id: TriggerId, firings: Firings) {
        self.firings.write().insert((tenant, id), firings);
    }

    pub(crate) fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.firings.read().get(&(tenant, id)).copied().unwrap_or_default()
    }

    pub(crate) fn triggers(&self, tenant: TenantId) -> Arc<Triggers> {
        self.triggers.read().get(&tenant).cloned().unwrap_or_default()
    }

    /// The caller with API key `text`, if the key is valid at `now`.
    pub(crate) fn authenticate(&self, text: &str, now: Timestamp) -> Option<Caller> {
        let id = KeyText::id_of(text)?;
        let keys = self.keys.read();
        let key_hash = KeyText::hash(text);
        let is_valid = |key: &ApiKey| key.matches(&key_hash, now) && key.is_valid_at(now);
        let (tenant, key) = keys.get(&id).filter(|(_, key)| is_valid(key))?;
        let rules = self.rules.read();
        let access = rules.get(tenant).map(|rules| rules.access_of(id, key));
        Some(Caller {
            tenant: *tenant,
            is_suspended: self.is_suspended(*tenant),
            requests_per_minute: self.request_limits.read().get(tenant).copied(),
            key: id,
            key_hash,
            role: key.role,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            access: access.unwrap_or_else(|| Rules::default().access_of(id, key)),
        })
    }
}

/// Calls `put` with each record of a kind: its tenant, the rest of its key, and its value.
fn for_each<R: Record, const N: usize>(
    state: &State,
    kind: Kind,
    mut put: impl FnMut(TenantId, [u8; N], R),
) -> Result<()> {
    for row in state.range(&[kind as u8], &[kind as u8 + 1]) {
        let (key, value) = row?;
        let (tenant, rest) = split(&key)?;
        put(tenant, fixed(rest)?, codec::decode(&value)?);
    }
    Ok(())
}

fn unknown_chain(number: u8) -> Error {
    Error::Corrupt { what: "key of an audit chain", detail: format!("chain {number}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::table::key::Key;
    use crate::table::state::Environment;

    #[test]
    fn chain_of_no_known_kind_is_corruption() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path(), Environment::Machine).unwrap();
        let mut key = Key::AuditEnds(TenantId(1), AuditChain::Data).bytes();
        *key.last_mut().unwrap() = 9;
        let mut batch = rocksdb::WriteBatch::default();
        batch.put(key, codec::encode(&AuditEnds::default()));
        state.write(batch).unwrap();
        let opened = Registry::without_memories(&state, 0).map(drop);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    }
}
