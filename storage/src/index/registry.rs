//! The registry: the in-memory data of all tenants of one state. It contains indexes, API
//! keys, access rules and triggers. Each opened state has its own registry, rebuilt from its rows.
//! Graphs are not part of the rebuild: the graph builder adds them in the background.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};

use crate::codec::{self, Record};
use crate::error::Result;
use crate::index::data::IndexChange;
use crate::index::rebuild::rebuild;
use crate::index::tenant::TenantIndex;
use crate::index::triggers::Triggers;
use crate::model::access::{Caller, Rules};
use crate::model::id::{KeyId, TenantId, TriggerId};
use crate::model::tenant::{ApiKey, KeyText, Tenant};
use crate::model::trigger::Firings;
use crate::table::key::{Kind, fixed, split};
use crate::table::state::State;
use crate::table::view::View;

/// The in-memory data of a state.
#[derive(Default)]
pub(crate) struct Registry {
    /// See [`crate::engine::Options::exact_max`].
    pub(crate) exact_max: usize,
    tenants: RwLock<HashMap<TenantId, Arc<TenantIndex>>>,
    keys: RwLock<HashMap<KeyId, (TenantId, ApiKey)>>,
    rules: RwLock<HashMap<TenantId, Rules>>,
    triggers: RwLock<HashMap<TenantId, Arc<Triggers>>>,
    /// Firing counts, in memory because every evaluation reads them.
    firings: RwLock<HashMap<(TenantId, TriggerId), Firings>>,
    /// Tenants whose graph needs work, for the graph builder.
    stale_graphs: Mutex<BTreeSet<TenantId>>,
}

impl Registry {
    /// Builds the registry of `state`, without graphs. Adds the number of indexed memories to
    /// `indexed`.
    pub(crate) fn rebuild(state: &State, exact_max: usize, indexed: &AtomicU64) -> Result<Self> {
        let registry = Self { exact_max, ..Self::default() };
        let dimension = dimension(state)?;
        for_each(state, Kind::Tenant, |tenant, [], row| {
            registry.put_tenant(tenant, row, dimension);
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
        for (tenant, index) in registry.all() {
            rebuild(state, tenant, &index, indexed)?;
            registry.mark_if_stale(tenant, &index);
        }
        Ok(registry)
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

    pub(crate) fn put_tenant(&self, id: TenantId, tenant: Tenant, dimension: usize) {
        match self.tenant(id) {
            Some(index) => index.apply([IndexChange::Tenant(tenant)]),
            None => {
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

    pub(crate) fn has_key(&self, id: KeyId) -> bool {
        self.keys.read().contains_key(&id)
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

    /// The caller with API key `text`, if the key is valid.
    pub(crate) fn authenticate(&self, text: &str) -> Option<Caller> {
        let id = KeyText::id_of(text)?;
        let keys = self.keys.read();
        let (tenant, key) = keys.get(&id).filter(|(_, key)| key.matches(text))?;
        let rules = self.rules.read();
        let access = rules.get(tenant).map(|rules| rules.access_of(id, &key.name, key.role));
        Some(Caller {
            tenant: *tenant,
            key: id,
            role: key.role,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            access: access.unwrap_or_default(),
        })
    }
}

/// Dimension of the vectors of a state. 0 before bootstrap.
pub(crate) fn dimension(state: &State) -> Result<usize> {
    Ok(state.cluster()?.map_or(0, |cluster| cluster.model.dimension as usize))
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
