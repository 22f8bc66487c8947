//! The hosts of webhook receivers: their open requests, and how fast they responded last.

use std::collections::HashMap;
use std::time::Duration;

use storage::model::id::TenantId;
use tokio::time::Instant;

/// Concurrent requests per host, of all tenants.
const HOST_MAX: usize = 8;
/// A request that is open for this long is slow.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(1);
/// Pause of a host after its second timeout.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Longest pause of a host.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most hosts without open requests in the memory of a node. The one with the oldest response goes
/// first, and is new again.
const REMEMBERED_MAX: usize = 4_096;

/// How fast a host responds to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// It has not responded yet.
    New,
    /// Its last response came before [`SLOW_AFTER`], and no open request is older.
    Quick,
    Slow,
}

/// The hosts of all tenants.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: HashMap<(TenantId, String), Host>,
    /// Open requests per host, of all tenants.
    open: HashMap<String, usize>,
}

/// A host, as one tenant reaches it.
#[derive(Default)]
struct Host {
    open: usize,
    slow: usize,
    /// Time of the last response or timeout, and whether it came before [`SLOW_AFTER`].
    last: Option<(Instant, bool)>,
    /// Timeouts since its last response.
    timeouts: u32,
}

impl Host {
    fn pace(&self) -> Pace {
        match self.last {
            _ if self.slow > 0 => Pace::Slow,
            None => Pace::New,
            Some((_, true)) => Pace::Quick,
            Some((_, false)) => Pace::Slow,
        }
    }

    fn is_paused(&self, now: Instant) -> bool {
        let (Some((last_at, _)), Some(doublings)) = (self.last, self.timeouts.checked_sub(2))
        else {
            return false;
        };
        now < last_at + (PAUSE_MIN * (1 << doublings.min(16))).min(PAUSE_MAX)
    }
}

impl Hosts {
    /// The pace of a host if it may get another request, else `None`. The empty host stands for
    /// deliveries that send no request.
    pub(super) fn pace(&self, tenant: TenantId, host: &str, now: Instant) -> Option<Pace> {
        if host.is_empty() {
            return Some(Pace::Quick);
        }
        let is_crowded = self.open.get(host).is_some_and(|open| *open >= HOST_MAX);
        let Some(known) = self.hosts.get(&(tenant, host.to_owned())) else {
            return (!is_crowded).then_some(Pace::New);
        };
        let pace = known.pace();
        let is_busy = known.open > 0 && pace != Pace::Quick;
        (!is_crowded && !is_busy && !known.is_paused(now)).then_some(pace)
    }

    /// Counts a request to a host.
    pub(super) fn open(&mut self, tenant: TenantId, host: &str, is_slow: bool) {
        if host.is_empty() {
            return;
        }
        let key = (tenant, host.to_owned());
        if !self.hosts.contains_key(&key) {
            self.make_room();
        }
        let known = self.hosts.entry(key).or_default();
        (known.open, known.slow) = (known.open + 1, known.slow + usize::from(is_slow));
        *self.open.entry(host.to_owned()).or_default() += 1;
    }

    /// An open request has become slow.
    pub(super) fn mark_slow(&mut self, tenant: TenantId, host: &str) {
        if let Some(known) = self.hosts.get_mut(&(tenant, host.to_owned())) {
            known.slow += 1;
        }
    }

    /// Records the response to a request that started at `started`, or its timeout. Requests that
    /// were open at the last timeout belong to the same outage.
    pub(super) fn record(
        &mut self,
        tenant: TenantId,
        host: &str,
        started: Instant,
        is_timeout: bool,
        now: Instant,
    ) {
        let Some(known) = self.hosts.get_mut(&(tenant, host.to_owned())) else { return };
        let is_new_outage = known.timeouts == 0 || known.last.is_some_and(|(at, _)| at <= started);
        match is_timeout {
            true if !is_new_outage => return,
            true => known.timeouts = known.timeouts.saturating_add(1),
            false => known.timeouts = 0,
        }
        known.last = Some((now, !is_timeout && now < started + SLOW_AFTER));
    }

    /// A request has ended.
    pub(super) fn close(&mut self, tenant: TenantId, host: &str, is_slow: bool) {
        let key = (tenant, host.to_owned());
        if let Some(known) = self.hosts.get_mut(&key) {
            (known.open, known.slow) = (known.open - 1, known.slow - usize::from(is_slow));
            // It ended without a record.
            if known.open == 0 && known.last.is_none() {
                self.hosts.remove(&key);
            }
        }
        if let Some(open) = self.open.get_mut(host) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(host);
            }
        }
    }

    fn make_room(&mut self) {
        if self.hosts.len() >= REMEMBERED_MAX {
            let idle = self.hosts.iter().filter(|(_, host)| host.open == 0);
            let oldest = idle.min_by_key(|(_, host)| host.last.map(|(at, _)| at));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| self.hosts.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(1);

    /// Opens as many requests of a tenant to a host as it may get. Returns their number.
    fn fill(hosts: &mut Hosts, tenant: TenantId, host: &str, now: Instant) -> usize {
        let mut count = 0;
        while let Some(pace) = hosts.pace(tenant, host, now) {
            hosts.open(tenant, host, pace == Pace::Slow);
            count += 1;
        }
        count
    }

    /// Ends a request that started at `started`.
    fn end(hosts: &mut Hosts, started: Instant, is_timeout: bool, now: Instant) {
        let is_slow = hosts.hosts[&(TENANT, "a".to_owned())].slow > 0;
        hosts.record(TENANT, "a", started, is_timeout, now);
        hosts.close(TENANT, "a", is_slow);
    }

    #[test]
    fn only_quick_host_gets_several_requests() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        assert_eq!(fill(&mut hosts, TENANT, "a", start), 1, "it is new");
        end(&mut hosts, start, false, start);
        assert_eq!(fill(&mut hosts, TENANT, "a", start), 8, "it is quick");
        assert_eq!(fill(&mut hosts, TenantId(2), "a", start), 0, "the limit of all tenants");
        let late = start + Duration::from_secs(14);
        hosts.mark_slow(TENANT, "a");
        end(&mut hosts, start, false, start);
        hosts.mark_slow(TENANT, "a");
        assert_eq!(hosts.pace(TENANT, "a", late), None, "one request is slow");
        for _ in 0..7 {
            end(&mut hosts, start, false, late);
        }
        assert!(hosts.open.is_empty());
        for _ in 0..3 {
            assert_eq!(hosts.pace(TENANT, "a", late), Some(Pace::Slow));
            assert_eq!(fill(&mut hosts, TENANT, "a", late), 1);
            end(&mut hosts, start, false, late);
        }
        assert_eq!(fill(&mut hosts, TENANT, "a", late), 1);
        end(&mut hosts, late, false, late);
        assert_eq!(fill(&mut hosts, TENANT, "a", late), 8, "it is quick again");
    }

    #[test]
    fn hanging_host_is_paused() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        hosts.open(TENANT, "a", false);
        end(&mut hosts, start, false, start);
        assert_eq!(fill(&mut hosts, TENANT, "a", start), 8);
        let mut now = start + Duration::from_secs(15);
        // The eight timeouts are one outage.
        for _ in 0..8 {
            end(&mut hosts, start, true, now);
        }
        for pause in [0, 5, 10, 20, 40, 60, 60] {
            if pause > 0 {
                assert_eq!(fill(&mut hosts, TENANT, "a", now), 0);
            }
            now += Duration::from_secs(pause);
            assert_eq!(fill(&mut hosts, TENANT, "a", now), 1);
            let started = now;
            now += Duration::from_secs(15);
            end(&mut hosts, started, true, now);
        }
        // Another tenant may have another receiver at this host.
        assert_eq!(fill(&mut hosts, TenantId(2), "a", now), 1);
        now += PAUSE_MAX;
        assert_eq!(fill(&mut hosts, TENANT, "a", now), 1);
        end(&mut hosts, now, false, now);
        assert_eq!(fill(&mut hosts, TENANT, "a", now), 7, "a response ends the pause");
    }

    #[test]
    fn remembered_hosts_are_bounded() {
        let (mut hosts, start) = (Hosts::default(), Instant::now());
        hosts.open(TENANT, "open", false);
        for number in 0..REMEMBERED_MAX as u64 + 9 {
            let (host, now) = (format!("host {number}"), start + Duration::from_millis(number));
            hosts.open(TENANT, &host, false);
            hosts.record(TENANT, &host, now, true, now);
            hosts.close(TENANT, &host, false);
        }
        hosts.open(TENANT, "unrecorded", false);
        hosts.close(TENANT, "unrecorded", false);
        assert_eq!(hosts.hosts.len(), REMEMBERED_MAX - 1);
        let pace = |host: &str| hosts.pace(TENANT, host, start);
        assert_eq!((pace("host 10"), pace("host 11")), (Some(Pace::New), Some(Pace::Slow)));
        assert_eq!(pace("open"), None);
    }
}
