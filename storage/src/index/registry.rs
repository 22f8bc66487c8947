//! The registry: the in-memory data of all tenants of one state. It contains indexes, API
//! keys, access rules and triggers. Each opened state has its own registry.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::error::Result;
use crate::index::data::{IndexChange, IndexData};
use crate::index::tenant::TenantIndex;
use crate::index::triggers::Triggers;
use crate::model::access::{Access, Rules};
use crate::model::caller::Caller;
use crate::model::id::{TenantId, TriggerId};
use crate::model::tenant::{ApiKey, KeyId, KeyText, Tenant};
use crate::model::trigger::Firings;
use crate::table::state::State;
use crate::table::view::View;

/// The in-memory data of a state.
pub(crate) struct Registry {
    exact_max: usize,
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
    /// An empty registry.
    pub(super) fn new(exact_max: usize) -> Self {
        Self {
            exact_max,
            tenants: RwLock::default(),
            keys: RwLock::default(),
            rules: RwLock::default(),
            triggers: RwLock::default(),
            firings: RwLock::default(),
            stale_graphs: Mutex::default(),
        }
    }

    /// See [`crate::engine::Options::exact_max`].
    pub(crate) fn exact_max(&self) -> usize {
        self.exact_max
    }

    /// Queues a tenant for the graph builder if its graph is stale. Returns whether the tenant
    /// was added to the queue.
    pub(crate) fn mark_if_stale(&self, tenant: TenantId, index: &TenantIndex) -> bool {
        let is_stale = |data: &IndexData| data.coverage.is_stale(data.live(), self.exact_max);
        is_stale(&index.read()) && self.stale_graphs.lock().insert(tenant)
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

    /// Firing counts of a trigger.
    pub(crate) fn firings(&self, tenant: TenantId, id: TriggerId) -> Firings {
        self.firings.read().get(&(tenant, id)).copied().unwrap_or_default()
    }

    /// The triggers of a tenant.
    pub(crate) fn triggers(&self, tenant: TenantId) -> Arc<Triggers> {
        self.triggers.read().get(&tenant).cloned().unwrap_or_default()
    }

    /// The caller with API key `text`, if the key is valid.
    pub(crate) fn authenticate(&self, text: &str) -> Option<Caller> {
        let id = KeyText::id_of(text)?;
        let keys = self.keys.read();
        let (tenant, key) = keys.get(&id)?;
        key.matches(text).then(|| Caller {
            tenant: *tenant,
            key: id,
            role: key.role,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            access: self.access(*tenant, id, key),
        })
    }

    /// Access of a key.
    fn access(&self, tenant: TenantId, id: KeyId, key: &ApiKey) -> Access {
        let rules = self.rules.read();
        rules.get(&tenant).map(|rules| rules.access_of(id, &key.name, key.role)).unwrap_or_default()
    }
}

/// Dimension of the vectors of a state. 0 before bootstrap.
pub(crate) fn dimension(state: &State) -> Result<usize> {
    Ok(state.cluster()?.map_or(0, |cluster| cluster.model.dimension as usize))
}
