//! Permits that bound concurrent requests, per node, tenant and host. A request holds its permit
//! until its outcome is recorded; dropping the permit frees it.
//!
//! Receivers that hang delay no other receiver:
//!
//! - A request that is open for [`SLOW_AFTER`] is *slow*. Slow requests have limits of their own.
//! - A host that times out gets one permit at a time from its tenant, until it responds. If that
//!   request times out too, the host is paused. Each further timeout doubles the pause.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::model::delivery::DeliveryId;
use storage::model::id::TenantId;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Concurrent requests per node that are not slow. A tenant without requests may exceed it by one.
const NODE_MAX: usize = 64;
/// Concurrent requests per tenant that are not slow.
const TENANT_MAX: usize = 32;
/// Concurrent requests per host.
const HOST_MAX: usize = 8;
/// A request that is open for this long is slow.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Slow requests per node. Further ones count against [`NODE_MAX`].
const NODE_SLOW_MAX: usize = 192;
/// Slow requests per tenant. Further ones count against [`TENANT_MAX`].
const TENANT_SLOW_MAX: usize = 64;
/// Pause of a host after its second timeout.
const HOST_PAUSE_MIN: Duration = Duration::from_secs(5);
/// Longest pause of a host.
const HOST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most hosts that timed out in the memory of a node. The one with the oldest timeout goes first.
const TIMED_OUT_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct HostPermits {
    taken: Mutex<Taken>,
    /// Notified when a permit is freed.
    pub(super) freed: Notify,
}

#[derive(Default)]
struct Taken {
    open: HashMap<(TenantId, DeliveryId), Open>,
    of_node: Load,
    tenants: HashMap<TenantId, Load>,
    hosts: HashMap<String, usize>,
    timed_out: HashMap<(TenantId, String), TimedOut>,
}

/// An open request.
struct Open {
    host: String,
    started: Instant,
    is_slow: bool,
}

/// Numbers of open requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    open: usize,
    /// Those of them that are slow.
    slow: usize,
}

/// A host whose last request of a tenant timed out.
struct TimedOut {
    /// Timeouts since its last response.
    timeouts: u32,
    /// Time of the last one.
    last_at: Instant,
}

/// A taken permit; dropping it frees it.
pub(super) struct Permit {
    permits: Arc<HostPermits>,
    pub(super) tenant: TenantId,
    pub(super) id: DeliveryId,
    host: String,
    started: Instant,
}

impl Load {
    /// Open requests without at most `slow_max` slow ones.
    fn quick(self, slow_max: usize) -> usize {
        self.open - self.slow.min(slow_max)
    }

    fn add(&mut self, is_slow: bool) {
        self.open += 1;
        self.slow += usize::from(is_slow);
    }

    fn remove(&mut self, is_slow: bool) {
        self.open -= 1;
        self.slow -= usize::from(is_slow);
    }
}

impl TimedOut {
    /// The time from which the host gets a permit again.
    fn until(&self) -> Instant {
        let Some(doublings) = self.timeouts.checked_sub(2) else { return self.last_at };
        self.last_at + (HOST_PAUSE_MIN * (1 << doublings.min(16))).min(HOST_PAUSE_MAX)
    }
}

impl Taken {
    fn of_tenant(&self, tenant: TenantId) -> Load {
        self.tenants.get(&tenant).copied().unwrap_or_default()
    }

    fn has_room(&self, tenant: TenantId) -> bool {
        let of_tenant = self.of_tenant(tenant);
        of_tenant.quick(TENANT_SLOW_MAX) < TENANT_MAX
            && (of_tenant.open == 0 || self.of_node.quick(NODE_SLOW_MAX) < NODE_MAX)
    }

    /// Whether a host that timed out may get a permit. It takes one of the slow requests, and
    /// leaves half of these to others.
    fn has_room_after_timeout(&self, tenant: TenantId, host: &str) -> bool {
        let is_of_host =
            |(key, open): (&(TenantId, DeliveryId), &Open)| key.0 == tenant && open.host == host;
        self.of_tenant(tenant).slow < TENANT_SLOW_MAX / 2
            && self.of_node.slow < NODE_SLOW_MAX / 2
            && !self.open.iter().any(is_of_host)
    }

    fn mark_slow(&mut self, now: Instant) {
        for ((tenant, _), open) in &mut self.open {
            if !open.is_slow && open.started + SLOW_AFTER <= now {
                open.is_slow = true;
                self.of_node.slow += 1;
                self.tenants.entry(*tenant).or_default().slow += 1;
            }
        }
    }

    /// Takes a permit for a request. The empty host has no limit: its deliveries send no request.
    fn take(&mut self, tenant: TenantId, id: DeliveryId, host: &str, now: Instant) -> bool {
        let timed_out = self.timed_out.get(&(tenant, host.to_owned()));
        let (is_paused, is_slow) =
            (timed_out.is_some_and(|host| now < host.until()), timed_out.is_some());
        let of_host = self.hosts.get(host).copied().unwrap_or(0);
        let is_crowded = of_host >= HOST_MAX && !host.is_empty();
        if is_paused || is_crowded || self.open.contains_key(&(tenant, id)) {
            return false;
        }
        let has_room = match is_slow {
            true => self.has_room_after_timeout(tenant, host),
            false => self.has_room(tenant),
        };
        if has_room {
            let open = Open { host: host.to_owned(), started: now, is_slow };
            self.open.insert((tenant, id), open);
            self.of_node.add(is_slow);
            self.tenants.entry(tenant).or_default().add(is_slow);
            *self.hosts.entry(host.to_owned()).or_default() += 1;
        }
        has_room
    }

    fn free(&mut self, tenant: TenantId, id: DeliveryId) {
        let Some(open) = self.open.remove(&(tenant, id)) else { return };
        self.of_node.remove(open.is_slow);
        if let Some(load) = self.tenants.get_mut(&tenant) {
            load.remove(open.is_slow);
        }
        self.tenants.retain(|_, load| load.open > 0);
        decrement(&mut self.hosts, &open.host);
    }

    /// Records that a request to a host timed out. Requests that were open at the last timeout
    /// belong to the same outage.
    fn time_out(&mut self, tenant: TenantId, host: &str, started: Instant, now: Instant) {
        let key = (tenant, host.to_owned());
        if let Some(known) = self.timed_out.get_mut(&key) {
            if started >= known.last_at {
                *known = TimedOut { timeouts: known.timeouts.saturating_add(1), last_at: now };
            }
            return;
        }
        if self.timed_out.len() >= TIMED_OUT_MAX {
            let oldest = self.timed_out.iter().min_by_key(|(_, host)| host.last_at);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.timed_out.remove(&key));
        }
        self.timed_out.insert(key, TimedOut { timeouts: 1, last_at: now });
    }
}

impl HostPermits {
    /// Whether a tenant may start another request.
    pub(super) fn has_room(&self, tenant: TenantId) -> bool {
        self.taken.lock().has_room(tenant)
    }

    /// Counts requests that are open for long as slow.
    pub(super) fn mark_slow(&self) {
        self.taken.lock().mark_slow(Instant::now());
    }

    /// Takes a permit. `None` if a limit is reached, the host is paused, or the delivery is
    /// already in progress.
    pub(super) fn take(
        self: &Arc<Self>,
        tenant: TenantId,
        id: DeliveryId,
        host: &str,
    ) -> Option<Permit> {
        let started = Instant::now();
        let is_taken = self.taken.lock().take(tenant, id, host, started);
        let permits = Arc::clone(self);
        is_taken.then(|| Permit { permits, tenant, id, host: host.to_owned(), started })
    }
}

impl Permit {
    /// Records whether the host responded in time.
    pub(super) fn record(&self, is_timeout: bool) {
        let mut taken = self.permits.taken.lock();
        match is_timeout {
            true => taken.time_out(self.tenant, &self.host, self.started, Instant::now()),
            false => drop(taken.timed_out.remove(&(self.tenant, self.host.clone()))),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.taken.lock().free(self.tenant, self.id);
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

    const TENANT: TenantId = TenantId(1);

    fn id(number: u64) -> DeliveryId {
        DeliveryId { trigger: TriggerId([1; 16]), number }
    }

    /// Takes permits for 20 deliveries to each host. Returns how many were taken.
    fn fill(taken: &mut Taken, tenant: TenantId, hosts: &[&str], now: Instant) -> usize {
        let mut count = 0;
        for (at, host) in hosts.iter().enumerate() {
            for number in 0..20 {
                count += usize::from(taken.take(tenant, id(at as u64 * 20 + number), host, now));
            }
        }
        count
    }

    #[test]
    fn delivery_has_one_permit_until_it_ends() {
        let permits = Arc::new(HostPermits::default());
        let permit = permits.take(TENANT, id(1), "a").unwrap();
        assert!(permits.take(TENANT, id(1), "a").is_none());
        drop(permit);
        assert!(permits.take(TENANT, id(1), "a").is_some());
        let taken = permits.taken.lock();
        assert!(taken.tenants.is_empty() && taken.hosts.is_empty());
        assert_eq!(taken.of_node, Load::default());
    }

    #[test]
    fn limits_leave_every_tenant_one_request() {
        let (mut taken, now) = (Taken::default(), Instant::now());
        let hosts = ["a", "b", "c", "d", "e"];
        assert_eq!(fill(&mut taken, TenantId(1), &hosts, now), 32);
        let hosts = ["f", "g", "h", "i", "j"];
        assert_eq!(fill(&mut taken, TenantId(2), &hosts, now), 32);
        assert_eq!(fill(&mut taken, TenantId(3), &["k"], now), 1);
        assert_eq!(fill(&mut Taken::default(), TENANT, &["a"], now), 8);
    }

    #[test]
    fn slow_requests_leave_room_to_others() {
        let (mut taken, start) = (Taken::default(), Instant::now());
        assert_eq!(fill(&mut taken, TENANT, &["a", "b", "c", "d"], start), 32);
        assert!(!taken.take(TENANT, id(1_000), "good", start));
        let later = start + SLOW_AFTER;
        taken.mark_slow(later);
        taken.mark_slow(later);
        assert_eq!(taken.of_tenant(TENANT), Load { open: 32, slow: 32 });
        assert!(taken.take(TENANT, id(1_000), "good", later));
        for number in 0..80 {
            taken.free(TENANT, id(number));
        }
        assert_eq!(taken.of_node, Load { open: 1, slow: 0 });
        // Slow requests are bounded too.
        let hosts: Vec<String> = (0..20).map(|host| format!("host {host}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut now = start;
        for _ in 0..10 {
            fill(&mut taken, TENANT, &hosts, now);
            now += SLOW_AFTER;
            taken.mark_slow(now);
        }
        assert_eq!(taken.of_tenant(TENANT).open, TENANT_MAX + TENANT_SLOW_MAX);
    }

    #[test]
    fn hanging_host_is_paused_and_gets_one_permit() {
        let (mut taken, start) = (Taken::default(), Instant::now());
        assert_eq!(fill(&mut taken, TENANT, &["a"], start), 8);
        let mut now = start + Duration::from_secs(15);
        for number in 0..8 {
            taken.time_out(TENANT, "a", start, now);
            taken.free(TENANT, id(number));
        }
        // The eight timeouts are one outage.
        for pause in [0, 5, 10, 20, 40, 60, 60] {
            if pause > 0 {
                assert_eq!(fill(&mut taken, TENANT, &["a"], now), 0);
            }
            now += Duration::from_secs(pause);
            assert_eq!(fill(&mut taken, TENANT, &["a"], now), 1);
            assert_eq!(taken.of_node, Load { open: 1, slow: 1 });
            let started = now;
            now += Duration::from_secs(15);
            taken.time_out(TENANT, "a", started, now);
            taken.free(TENANT, id(0));
        }
        // Another tenant may have another receiver at this host.
        assert_eq!(fill(&mut taken, TenantId(2), &["a"], now), 8);
    }

    #[test]
    fn response_ends_the_pause_of_a_host() {
        let permits = Arc::new(HostPermits::default());
        for _ in 0..2 {
            permits.take(TENANT, id(1), "a").unwrap().record(true);
        }
        assert!(permits.take(TENANT, id(2), "a").is_none());
        permits.take(TENANT, id(3), "b").unwrap().record(false);
        assert!(permits.take(TENANT, id(2), "a").is_none());
        let permit = permits.take(TenantId(2), id(4), "a").unwrap();
        permit.record(true);
        assert!(permits.take(TenantId(2), id(5), "a").is_none(), "one permit");
        permit.record(false);
        assert!(permits.take(TenantId(2), id(5), "a").is_some());
    }

    #[test]
    fn hosts_that_timed_out_are_bounded() {
        let (mut taken, start) = (Taken::default(), Instant::now());
        for number in 0..TIMED_OUT_MAX as u64 + 10 {
            let now = start + Duration::from_millis(number);
            taken.time_out(TENANT, &format!("host {number}"), now, now);
        }
        assert_eq!(taken.timed_out.len(), TIMED_OUT_MAX);
        let is_known = |number| taken.timed_out.contains_key(&(TENANT, format!("host {number}")));
        assert!(!is_known(9) && is_known(10));
    }
}
