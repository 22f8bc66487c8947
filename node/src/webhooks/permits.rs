//! Permits that bound concurrent requests, per node, tenant, owner of the trigger, and host. A
//! request holds its permit until its outcome is recorded; dropping the permit frees it.
//!
//! Receivers that hang delay no other receiver:
//!
//! - A request that is open for [`SLOW_AFTER`] is *slow*. Slow requests have limits of their own.
//! - A host that is new or slow gets one permit at a time from its tenant. Such hosts together have
//!   half of the permits. A host that times out again is paused. Each further timeout doubles the
//!   pause.
//! - The triggers of one API key have three quarters of their tenant's permits.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::model::id::{KeyId, TenantId};
use storage::model::trigger::DeliveryId;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hosts::{Hosts, Pace, SLOW_AFTER};

/// Limits of concurrent requests.
struct Limits {
    /// Requests that are not slow.
    quick: usize,
    /// Slow requests. Further ones count against `quick`.
    slow: usize,
    /// Requests, slow or not, to hosts that were not quick when the requests began.
    unproven: usize,
}

/// A tenant without requests may exceed these by one.
const NODE: Limits = Limits { quick: 64, slow: 192, unproven: 128 };
const TENANT: Limits = Limits { quick: 32, slow: 64, unproven: 48 };
const OWNER: Limits = Limits { quick: 24, slow: 48, unproven: 36 };

#[derive(Default)]
pub(super) struct HostPermits {
    taken: Mutex<Taken>,
    /// Notified when a permit is freed.
    pub(super) freed: Notify,
}

/// A tenant, and the API key that owns a trigger.
type Owner = (TenantId, Option<KeyId>);

#[derive(Default)]
struct Taken {
    open: HashMap<(TenantId, DeliveryId), Open>,
    of_node: Load,
    tenants: HashMap<TenantId, Load>,
    owners: HashMap<Owner, Load>,
    hosts: Hosts,
}

/// An open request.
struct Open {
    owner: Owner,
    host: String,
    started: Instant,
    is_slow: bool,
    is_unproven: bool,
}

/// Numbers of open requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    open: usize,
    /// Those of them that are slow.
    slow: usize,
    /// Those of them to hosts that were not quick.
    unproven: usize,
}

/// A taken permit; dropping it frees it.
pub(super) struct Permit {
    permits: Arc<HostPermits>,
    pub(super) tenant: TenantId,
    pub(super) id: DeliveryId,
}

impl Load {
    /// Whether a request to a host of this pace fits.
    fn has_room(self, limits: &Limits, pace: Pace) -> bool {
        // To a slow host, it counts as slow from its beginning.
        let is_quick = pace != Pace::Slow;
        let has_quick = self.open - self.slow.min(limits.slow) < limits.quick;
        (has_quick || !is_quick) && (pace == Pace::Quick || self.unproven < limits.unproven)
    }

    fn add(&mut self, open: &Open) {
        self.open += 1;
        self.slow += usize::from(open.is_slow);
        self.unproven += usize::from(open.is_unproven);
    }

    fn remove(&mut self, open: &Open) {
        self.open -= 1;
        self.slow -= usize::from(open.is_slow);
        self.unproven -= usize::from(open.is_unproven);
    }
}

impl Taken {
    fn has_room(&self, owner: Owner, pace: Pace) -> bool {
        let of_owner = self.owners.get(&owner).copied().unwrap_or_default();
        of_owner.has_room(&OWNER, pace) && self.tenant_has_room(owner.0, pace)
    }

    fn tenant_has_room(&self, tenant: TenantId, pace: Pace) -> bool {
        let Some(of_tenant) = self.tenants.get(&tenant) else { return true };
        of_tenant.has_room(&TENANT, pace) && self.of_node.has_room(&NODE, pace)
    }

    /// The counts that a request belongs to.
    fn loads(&mut self, owner: Owner) -> [&mut Load; 3] {
        let of_tenant = self.tenants.entry(owner.0).or_default();
        [&mut self.of_node, of_tenant, self.owners.entry(owner).or_default()]
    }

    fn mark_slow(&mut self, now: Instant) {
        let mut open = std::mem::take(&mut self.open);
        let is_old = |open: &&mut Open| !open.is_slow && open.started + SLOW_AFTER <= now;
        for open in open.values_mut().filter(is_old) {
            open.is_slow = true;
            self.loads(open.owner).into_iter().for_each(|load| load.slow += 1);
            self.hosts.mark_slow(open.owner.0, &open.host);
        }
        self.open = open;
    }

    fn take(&mut self, owner: Owner, id: DeliveryId, host: &str, now: Instant) -> bool {
        let Some(pace) = self.hosts.pace(owner.0, host, now) else { return false };
        if self.open.contains_key(&(owner.0, id)) || !self.has_room(owner, pace) {
            return false;
        }
        let (is_slow, is_unproven) = (pace == Pace::Slow, pace != Pace::Quick);
        let open = Open { owner, host: host.to_owned(), started: now, is_slow, is_unproven };
        self.loads(owner).into_iter().for_each(|load| load.add(&open));
        self.hosts.open(owner.0, host, is_slow);
        self.open.insert((owner.0, id), open);
        true
    }

    fn free(&mut self, tenant: TenantId, id: DeliveryId) {
        let Some(open) = self.open.remove(&(tenant, id)) else { return };
        self.loads(open.owner).into_iter().for_each(|load| load.remove(&open));
        self.tenants.retain(|_, load| load.open > 0);
        self.owners.retain(|_, load| load.open > 0);
        self.hosts.close(tenant, &open.host, open.is_slow);
    }
}

impl HostPermits {
    /// Whether a tenant may start another request to some host.
    pub(super) fn has_room(&self, tenant: TenantId) -> bool {
        let taken = self.taken.lock();
        [Pace::Quick, Pace::Slow].into_iter().any(|pace| taken.tenant_has_room(tenant, pace))
    }

    /// Counts requests that are open for long as slow.
    pub(super) fn mark_slow(&self) {
        self.taken.lock().mark_slow(Instant::now());
    }

    /// Takes a permit for a delivery of a trigger of `owner`. `None` if a limit is reached, the
    /// host is paused, or the delivery is already in progress.
    pub(super) fn take(
        self: &Arc<Self>,
        owner: Owner,
        id: DeliveryId,
        host: &str,
    ) -> Option<Permit> {
        let is_taken = self.taken.lock().take(owner, id, host, Instant::now());
        let permits = Arc::clone(self);
        is_taken.then(|| Permit { permits, tenant: owner.0, id })
    }
}

impl Permit {
    /// Records whether the host responded in time.
    pub(super) fn record(&self, is_timeout: bool) {
        let mut taken = self.permits.taken.lock();
        let Taken { open, hosts, .. } = &mut *taken;
        if let Some(open) = open.get(&(self.tenant, self.id)) {
            hosts.record(self.tenant, &open.host, open.started, is_timeout, Instant::now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.taken.lock().free(self.tenant, self.id);
        self.permits.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use storage::model::id::TriggerId;

    const OF_TENANT: TenantId = TenantId(1);
    const ATTACKER: Owner = (OF_TENANT, Some(KeyId([1; 8])));
    const HONEST: Owner = (OF_TENANT, Some(KeyId([2; 8])));

    fn id(number: usize) -> DeliveryId {
        DeliveryId { trigger: TriggerId([1; 16]), number: number as u64 }
    }

    /// Takes permits for 20 deliveries to each of `count` hosts. Returns how many were taken.
    fn fill(taken: &mut Taken, owner: Owner, count: usize, now: Instant) -> usize {
        let of_host = |host: usize| (0..20).map(move |number| (host, id(host * 20 + number)));
        let deliveries = (0..count).flat_map(of_host);
        let name = |host: &usize| format!("host {host} of {owner:?}");
        deliveries.filter(|(host, id)| taken.take(owner, *id, &name(host), now)).count()
    }

    /// All of the first `count` hosts of `owner` respond to a request at once.
    fn prove(taken: &mut Taken, owner: Owner, count: usize, now: Instant) {
        for host in 0..count {
            let name = format!("host {host} of {owner:?}");
            assert!(taken.take(owner, id(host), &name, now));
            taken.hosts.record(owner.0, &name, now, false, now);
            taken.free(owner.0, id(host));
        }
    }

    #[test]
    fn delivery_has_one_permit_until_it_ends() {
        let permits = Arc::new(HostPermits::default());
        let permit = permits.take(HONEST, id(1), "a").unwrap();
        assert!(permits.take(HONEST, id(1), "a").is_none());
        permit.record(false);
        drop(permit);
        let again = permits.take(HONEST, id(1), "a").unwrap();
        assert!(permits.take(HONEST, id(1), "a").is_none(), "the host is quick, but it is open");
        drop(again);
        let taken = permits.taken.lock();
        assert!(taken.tenants.is_empty() && taken.owners.is_empty() && taken.open.is_empty());
        assert_eq!(taken.of_node, Load::default());
    }

    #[test]
    fn limits_leave_every_owner_and_tenant_a_part() {
        let (mut taken, now) = (Taken::default(), Instant::now());
        let owners: Vec<Owner> = (1..=3).map(|key| (TenantId(key), None)).collect();
        for owner in [ATTACKER, HONEST, owners[1], owners[2]] {
            prove(&mut taken, owner, 5, now);
        }
        assert_eq!(fill(&mut taken, ATTACKER, 5, now), 24);
        let other: Vec<bool> = (500..520).map(|n| taken.take(HONEST, id(n), "", now)).collect();
        assert_eq!(other.into_iter().filter(|is_taken| *is_taken).count(), 8);
        assert_eq!(fill(&mut taken, owners[1], 5, now), 24);
        assert_eq!(fill(&mut taken, (TenantId(2), Some(KeyId([1; 8]))), 9, now), 8);
        assert_eq!(fill(&mut taken, owners[2], 5, now), 1, "the node is full");
    }

    /// Receivers that respond just before the timeout, and were quick before.
    #[test]
    fn slow_hosts_leave_room_to_others() {
        let (mut taken, start) = (Taken::default(), Instant::now());
        prove(&mut taken, ATTACKER, 12, start);
        let mut now = start;
        for _ in 0..15 {
            fill(&mut taken, ATTACKER, 12, now);
            now += SLOW_AFTER;
            taken.mark_slow(now);
        }
        assert_eq!(taken.of_node, Load { open: 72, slow: 72, unproven: 0 });
        assert!(taken.take(HONEST, id(1_000), "good", now), "another key has room");
        let names: Vec<_> =
            taken.open.iter().map(|(key, open)| (key.1, open.host.clone())).collect();
        for (id, host) in names {
            if host != "good" {
                taken.hosts.record(OF_TENANT, &host, start, false, now);
                taken.free(OF_TENANT, id);
            }
        }
        // They are slow: each has one request, and these do not count against those of quick hosts.
        assert_eq!(fill(&mut taken, ATTACKER, 9, now), 9);
        assert_eq!(taken.owners[&ATTACKER], Load { open: 9, slow: 9, unproven: 9 });
        assert!(taken.take(ATTACKER, id(1_001), "good too", now));
        assert_eq!(taken.owners.len(), 2);
    }

    #[test]
    fn new_hosts_leave_room_to_quick_ones() {
        let (mut taken, start) = (Taken::default(), Instant::now());
        let quick = |taken: &mut Taken, number| {
            let now = start + Duration::from_secs(20);
            let is_taken = taken.take(ATTACKER, id(number), "quick", now);
            taken.hosts.record(OF_TENANT, "quick", now, false, now);
            is_taken
        };
        assert!(quick(&mut taken, 5_000));
        let mut now = start;
        for _ in 0..5 {
            fill(&mut taken, ATTACKER, 200, now);
            now += SLOW_AFTER;
            taken.mark_slow(now);
        }
        assert_eq!(taken.owners[&ATTACKER].unproven, OWNER.unproven);
        assert!(quick(&mut taken, 5_001));
    }
}
