//! How many requests may be under way, and which ones are. Each takes a permit until what became
//! of it is recorded; a permit is free again however its request ends.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use storage::model::delivery::DeliveryId;
use storage::model::id::TenantId;
use tokio::sync::Notify;

/// Requests at once: of a node, of a tenant, to a host. A tenant with none under way may always
/// begin one, so that no tenant's receivers that hang keep another's waiting.
const NODE_MAX: usize = 64;
const TENANT_MAX: usize = 32;
const HOST_MAX: usize = 8;

/// All permits of a node.
#[derive(Default)]
pub(super) struct HostPermits {
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    deliveries: HashSet<(TenantId, DeliveryId)>,
    tenants: HashMap<TenantId, usize>,
    hosts: HashMap<String, usize>,
}

/// A permit that is taken, until this is dropped.
pub(super) struct Permit {
    permits: Arc<HostPermits>,
    tenant: TenantId,
    id: DeliveryId,
    host: String,
}

impl Taken {
    fn has_room(&self, tenant: TenantId) -> bool {
        let of_tenant = self.tenants.get(&tenant).copied().unwrap_or(0);
        of_tenant < TENANT_MAX && (self.deliveries.len() < NODE_MAX || of_tenant == 0)
    }
}

impl HostPermits {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no code panics while it holds what is under way")
    }

    /// Whether a tenant may begin another request.
    pub(super) fn has_room(&self, tenant: TenantId) -> bool {
        self.taken().has_room(tenant)
    }

    /// Takes a permit for a delivery that is not under way; no host bounds what is sent nowhere.
    pub(super) fn take(
        self: &Arc<Self>,
        tenant: TenantId,
        id: DeliveryId,
        host: &str,
    ) -> Option<Permit> {
        let mut taken = self.taken();
        let of_host = taken.hosts.get(host).copied().unwrap_or(0);
        let is_crowded = of_host >= HOST_MAX && !host.is_empty();
        if !taken.has_room(tenant) || is_crowded || !taken.deliveries.insert((tenant, id)) {
            return None;
        }
        *taken.tenants.entry(tenant).or_default() += 1;
        *taken.hosts.entry(host.to_owned()).or_default() += 1;
        Some(Permit { permits: Arc::clone(self), tenant, id, host: host.to_owned() })
    }

    /// Waits until a permit is free again.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.taken();
        taken.deliveries.remove(&(self.tenant, self.id));
        leave(&mut taken.tenants, &self.tenant);
        leave(&mut taken.hosts, &self.host);
        drop(taken);
        self.permits.freed.notify_one();
    }
}

fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
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
    fn a_delivery_is_under_way_once_and_its_place_is_free_again() {
        let permits = Arc::new(HostPermits::default());
        let permit = permits.take(TenantId(1), id(1), "a").unwrap();
        assert!(permits.take(TenantId(1), id(1), "a").is_none());
        drop(permit);
        assert!(permits.take(TenantId(1), id(1), "a").is_some());
        assert!(permits.taken().tenants.is_empty() && permits.taken().hosts.is_empty());
    }

    #[test]
    fn hosts_tenants_and_the_node_have_bounds_and_nobody_is_shut_out() {
        let permits = Arc::new(HostPermits::default());
        let mut held = Vec::new();
        let mut fill = |tenant: u32| {
            let hosts = ["a", "b", "c", "d", "e"].map(|host| format!("{host}{tenant}"));
            for number in 0..100 {
                let host = &hosts[number as usize % hosts.len()];
                held.extend(permits.take(TenantId(tenant), id(number), host));
            }
            held.len()
        };
        assert_eq!(fill(1), 32);
        assert_eq!(fill(2), 64);
        assert_eq!(fill(3), 65, "one of a tenant that has none");
        let crowded = Arc::new(HostPermits::default());
        let one: Vec<_> = (0..20).map(|n| crowded.take(TenantId(1), id(n), "a")).collect();
        assert_eq!(one.iter().flatten().count(), 8);
    }
}
