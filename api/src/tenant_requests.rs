//! Requests of each of the busiest tenants, and of all others together, for metrics. The number of
//! tenants with counts of their own is bounded. A tenant that becomes one of the busiest starts at 0.
//! The counts of one that is no longer among them go to the others, so their sum never falls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::id::TenantId;

/// Most tenants that have counts of their own.
pub(crate) const BUSIEST_MAX: usize = 100;
/// Interval at which the busiest tenants are found again.
const INTERVAL: Duration = Duration::from_secs(60);

/// Counts of requests since the start of the process, or since a tenant is one of the busiest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests with a valid key.
    pub requests: u64,
    /// Of these, requests that were rejected at a limit: 429.
    pub rejected: u64,
    /// Time until their responses were ready.
    pub micros: u64,
}

/// The requests of tenants on this node.
pub(crate) struct TenantRequests(Mutex<Counts>);

struct Counts {
    busiest: BTreeMap<TenantId, RequestCounts>,
    others: RequestCounts,
    /// Requests of late: each interval halves them. At most one entry for each tenant.
    recent: HashMap<TenantId, u64>,
    ranked_at: Instant,
}

impl Default for TenantRequests {
    fn default() -> Self {
        Self(Mutex::new(Counts {
            busiest: BTreeMap::new(),
            others: RequestCounts::default(),
            recent: HashMap::new(),
            ranked_at: Instant::now(),
        }))
    }
}

impl TenantRequests {
    /// Counts a request.
    pub(crate) fn count(&self, tenant: TenantId, is_rejected: bool, took: Duration) {
        self.count_at(Instant::now(), tenant, is_rejected, took);
    }

    fn count_at(&self, now: Instant, tenant: TenantId, is_rejected: bool, took: Duration) {
        let mut counts = self.0.lock();
        if now.saturating_duration_since(counts.ranked_at) >= INTERVAL {
            counts.rank();
            counts.ranked_at = now;
        }
        *counts.recent.entry(tenant).or_default() += 1;
        let has_room = counts.busiest.len() < BUSIEST_MAX;
        let of_tenant = match counts.busiest.get_mut(&tenant) {
            Some(of_tenant) => of_tenant,
            None if has_room => counts.busiest.entry(tenant).or_default(),
            None => &mut counts.others,
        };
        of_tenant.requests += 1;
        of_tenant.rejected += u64::from(is_rejected);
        of_tenant.micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }

    /// The counts of the busiest tenants, and of all others together.
    pub(crate) fn all(&self) -> (BTreeMap<TenantId, RequestCounts>, RequestCounts) {
        let counts = self.0.lock();
        (counts.busiest.clone(), counts.others)
    }
}

impl Counts {
    /// Finds the busiest tenants. Equally busy ones keep what they have.
    fn rank(&mut self) {
        for tenant in self.busiest.keys() {
            self.recent.entry(*tenant).or_default();
        }
        let rank = |(tenant, requests): (&TenantId, &u64)| {
            (Reverse(*requests), !self.busiest.contains_key(tenant), *tenant)
        };
        let mut ranks: Vec<_> = self.recent.iter().map(rank).collect();
        ranks.sort_unstable();
        ranks.truncate(BUSIEST_MAX);
        let mut before = std::mem::take(&mut self.busiest);
        for (.., tenant) in ranks {
            self.busiest.insert(tenant, before.remove(&tenant).unwrap_or_default());
        }
        for leaving in before.into_values() {
            self.others.requests += leaving.requests;
            self.others.rejected += leaving.rejected;
            self.others.micros += leaving.micros;
        }
        self.recent.retain(|_, requests| {
            *requests /= 2;
            *requests > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(counts: &TenantRequests, tenant: u32) -> Option<u64> {
        counts.all().0.get(&TenantId(tenant)).map(|of_tenant| of_tenant.requests)
    }

    #[test]
    fn busiest_tenants_have_counts_of_their_own() {
        let (counts, start) = (TenantRequests::default(), Instant::now());
        let count = |tenant, after| {
            counts.count_at(start + after, TenantId(tenant), false, Duration::from_micros(3));
        };
        let most = BUSIEST_MAX as u32;
        for tenant in 1..=most + 2 {
            count(tenant, Duration::ZERO);
        }
        assert_eq!((counts.all().0.len(), counts.all().1.requests), (BUSIEST_MAX, 2));
        for _ in 0..3 {
            count(most + 1, Duration::ZERO);
        }
        assert_eq!(requests(&counts, most + 1), None, "until the interval ends");
        count(1, INTERVAL);
        assert_eq!((requests(&counts, 1), requests(&counts, most + 1)), (Some(2), Some(0)));
        assert_eq!(requests(&counts, most), None, "one of them made room");
        count(most + 1, INTERVAL);
        assert_eq!(requests(&counts, most + 1), Some(1));
        assert_eq!(counts.all().1, RequestCounts { requests: 6, rejected: 0, micros: 18 });
        assert_eq!(counts.all().0.len(), BUSIEST_MAX);
    }

    #[test]
    fn idle_tenants_are_removed() {
        let (counts, start) = (TenantRequests::default(), Instant::now());
        counts.count_at(start, TenantId(1), true, Duration::ZERO);
        counts.count_at(start + INTERVAL, TenantId(2), false, Duration::ZERO);
        assert_eq!(counts.0.lock().recent.len(), 1);
        assert_eq!(counts.all().0[&TenantId(1)].rejected, 1, "its counts stay while there is room");
    }
}
