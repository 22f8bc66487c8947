//! Permits that bound concurrent requests, per node, tenant and host. A request holds its permit
//! until its outcome is recorded; dropping the permit frees it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::model::delivery::DeliveryId;
use storage::model::id::TenantId;
use tokio::sync::Notify;

/// Concurrent requests per node. A tenant without requests may exceed it by one, so that slow
/// receivers of other tenants do not delay it.
const NODE_MAX: usize = 64;
/// Concurrent requests per tenant.
const TENANT_MAX: usize = 32;
/// Concurrent requests per host.
const HOST_MAX: usize = 8;

#[derive(Default)]
pub(super) struct HostPermits {
    taken: Mutex<Taken>,
    /// Notified when a permit is freed.
    pub(super) freed: Notify,
}

#[derive(Default)]
struct Taken {
    deliveries: HashSet<(TenantId, DeliveryId)>,
    tenants: HashMap<TenantId, usize>,
    hosts: HashMap<String, usize>,
}

/// A taken permit; dropping it frees it.
pub(super) struct Permit {
    permits: Arc<HostPermits>,
    pub(super) tenant: TenantId,
    pub(super) id: DeliveryId,
    host: String,
}

impl Taken {
    fn has_room(&self, tenant: TenantId) -> bool {
        let of_tenant = self.tenants.get(&tenant).copied().unwrap_or(0);
        of_tenant < TENANT_MAX && (self.deliveries.len() < NODE_MAX || of_tenant == 0)
    }
}

impl HostPermits {
    /// Whether a tenant may start another request.
    pub(super) fn has_room(&self, tenant: TenantId) -> bool {
        self.taken.lock().has_room(tenant)
    }

    /// Takes a permit. `None` if a limit is reached or the delivery is already in progress. The
    /// empty host has no limit: its deliveries send no request.
    pub(super) fn take(
        self: &Arc<Self>,
        tenant: TenantId,
        id: DeliveryId,
        host: &str,
    ) -> Option<Permit> {
        let mut taken = self.taken.lock();
        let of_host = taken.hosts.get(host).copied().unwrap_or(0);
        let is_crowded = of_host >= HOST_MAX && !host.is_empty();
        if !taken.has_room(tenant) || is_crowded || !taken.deliveries.insert((tenant, id)) {
            return None;
        }
        *taken.tenants.entry(tenant).or_default() += 1;
        *taken.hosts.entry(host.to_owned()).or_default() += 1;
        Some(Permit { permits: Arc::clone(self), tenant, id, host: host.to_owned() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken.lock();
        taken.deliveries.remove(&(self.tenant, self.id));
        decrement(&mut taken.tenants, &self.tenant);
        decrement(&mut taken.hosts, &self.host);
        drop(taken);
        self.permits.freed.notify_one();
    }
}

fn decrement<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::model::id::TriggerId;

    fn id(number: u64) -> DeliveryId {
        DeliveryId { trigger: TriggerId([1; 16]), number }
    }

    #[test]
    fn delivery_has_one_permit_until_it_ends() {
        let permits = Arc::new(HostPermits::default());
        let permit = permits.take(TenantId(1), id(1), "a").unwrap();
        assert!(permits.take(TenantId(1), id(1), "a").is_none());
        drop(permit);
        assert!(permits.take(TenantId(1), id(1), "a").is_some());
        assert!(permits.taken.lock().tenants.is_empty() && permits.taken.lock().hosts.is_empty());
    }

    #[test]
    fn limits_leave_every_tenant_one_request() {
        let permits = Arc::new(HostPermits::default());
        let mut taken = Vec::new();
        let mut fill = |tenant: u32| {
            let hosts = ["a", "b", "c", "d", "e"].map(|host| format!("{host}{tenant}"));
            for number in 0..100 {
                let host = &hosts[number as usize % hosts.len()];
                taken.extend(permits.take(TenantId(tenant), id(number), host));
            }
            taken.len()
        };
        assert_eq!(fill(1), 32);
        assert_eq!(fill(2), 64);
        assert_eq!(fill(3), 65, "a tenant without requests gets one");
        let crowded = Arc::new(HostPermits::default());
        let one_host: Vec<_> = (0..20).map(|n| crowded.take(TenantId(1), id(n), "a")).collect();
        assert_eq!(one_host.iter().flatten().count(), 8);
    }
}
