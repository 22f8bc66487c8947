//! What this node saw and the cluster should know: recalls, requests, keys in use. Kept
//! until the node's duty fetches a report of it; nothing is decided here.
//!
//! The first recall of a memory goes out with the next report. Further ones within the
//! tenant's `recall_min_interval` are counted, and go out together at its end: a search
//! in a loop neither writes without end nor makes anything immortal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use storage::model::analytics::{REPORT_RECALLS_MAX, TenantReport, Usage};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::tenant::KeyId;

/// Memories whose recalls are remembered at once, of all tenants. When it is reached, those
/// that wait for no report are forgotten: they may go out again before their interval is
/// over, and are then counted only. If all wait, more are dropped.
const RECALLS_MAX: usize = 50_000;
/// A key's use is reported once in so long.
const KEY_INTERVAL: Duration = Duration::from_secs(300);

/// What was seen since the last report.
#[derive(Default)]
pub(crate) struct Observed(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    tenants: BTreeMap<TenantId, OfTenant>,
    recalls: usize,
    /// Whether those that wait for no report were forgotten since the last one.
    swept: bool,
    dropped: u64,
}

#[derive(Default)]
struct OfTenant {
    recalls: HashMap<MemoryId, Recalls>,
    searches: u64,
    searches_with_results: u64,
    usage: Usage,
    keys: HashMap<KeyId, KeyUse>,
}

/// Recalls of one memory.
#[derive(Default)]
struct Recalls {
    /// Not reported yet.
    waiting: u32,
    reported: Option<Instant>,
}

#[derive(Default)]
struct KeyUse {
    used: bool,
    reported: Option<Instant>,
}

impl Observed {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().expect("no code panics while it holds what was seen")
    }

    /// A search returned these memories.
    pub(crate) fn recalled(&self, tenant: TenantId, ids: impl ExactSizeIterator<Item = MemoryId>) {
        let mut seen = self.seen();
        if seen.recalls + ids.len() > RECALLS_MAX && !seen.swept {
            seen.sweep();
        }
        let Seen { tenants, recalls, dropped, .. } = &mut *seen;
        let of_tenant = tenants.entry(tenant).or_default();
        of_tenant.searches += 1;
        of_tenant.searches_with_results += u64::from(ids.len() > 0);
        for id in ids {
            match of_tenant.recalls.get_mut(&id) {
                Some(known) => known.waiting = known.waiting.saturating_add(1),
                None if *recalls < RECALLS_MAX => {
                    *recalls += 1;
                    of_tenant.recalls.insert(id, Recalls { waiting: 1, reported: None });
                }
                None => *dropped += 1,
            }
        }
    }

    /// A request of a key was answered.
    pub(crate) fn answered(&self, tenant: TenantId, key: KeyId, took: Duration, added: u64) {
        let mut seen = self.seen();
        let of_tenant = seen.tenants.entry(tenant).or_default();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        of_tenant.usage.add(&Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        });
        of_tenant.keys.entry(key).or_default().used = true;
    }

    /// Recalls that were dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.seen().dropped
    }

    /// What is to be reported now; empty when there is nothing. `interval` is a tenant's
    /// `recall_min_interval`.
    pub(crate) fn take(
        &self,
        now: Instant,
        clock: Timestamp,
        interval: impl Fn(TenantId) -> Duration,
    ) -> Vec<TenantReport> {
        let mut seen = self.seen();
        let mut room = REPORT_RECALLS_MAX;
        let mut reports = Vec::new();
        for (tenant, of_tenant) in &mut seen.tenants {
            let interval = interval(*tenant);
            let report = of_tenant.take(*tenant, now, clock, interval, &mut room);
            reports.extend(report);
        }
        seen.recalls = seen.tenants.values().map(|of_tenant| of_tenant.recalls.len()).sum();
        seen.swept = false;
        reports
    }
}

impl Seen {
    fn sweep(&mut self) {
        for of_tenant in self.tenants.values_mut() {
            of_tenant.recalls.retain(|_, known| known.waiting > 0);
        }
        self.recalls = self.tenants.values().map(|of_tenant| of_tenant.recalls.len()).sum();
        self.swept = true;
    }
}

impl OfTenant {
    fn take(
        &mut self,
        tenant: TenantId,
        now: Instant,
        clock: Timestamp,
        interval: Duration,
        room: &mut usize,
    ) -> Option<TenantReport> {
        let due = |at: Option<Instant>, interval| at.is_none_or(|at| now - at >= interval);
        let mut recalls = Vec::new();
        for (id, known) in &mut self.recalls {
            if known.waiting > 0 && due(known.reported, interval) && *room > 0 {
                recalls.push((*id, std::mem::take(&mut known.waiting)));
                known.reported = Some(now);
                *room -= 1;
            }
        }
        // What was reported so long ago that the next one goes out at once is forgotten.
        self.recalls.retain(|_, known| known.waiting > 0 || !due(known.reported, interval));
        let mut keys = Vec::new();
        for (key, known) in &mut self.keys {
            if known.used && due(known.reported, KEY_INTERVAL) {
                keys.push((*key, clock));
                *known = KeyUse { used: false, reported: Some(now) };
            }
        }
        self.keys.retain(|_, known| known.used || !due(known.reported, KEY_INTERVAL));
        let (searches, usage) =
            (std::mem::take(&mut self.searches), std::mem::take(&mut self.usage));
        let searches_with_results = std::mem::take(&mut self.searches_with_results);
        let something =
            !recalls.is_empty() || !keys.is_empty() || searches > 0 || usage.requests > 0;
        // In an order of its own, so that a test can tell what a report says.
        recalls.sort_unstable();
        something.then_some(TenantReport {
            tenant,
            recalls,
            searches,
            searches_with_results,
            usage,
            keys,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn id(number: u8) -> MemoryId {
        MemoryId([number; 16])
    }

    fn recalls(observed: &Observed, at: Instant) -> Vec<(MemoryId, u32)> {
        let reports = observed.take(at, Timestamp(0), |_| 60 * SECOND);
        reports.into_iter().flat_map(|report| report.recalls).collect()
    }

    #[test]
    fn the_first_recall_goes_out_at_once_and_the_next_together_at_the_end_of_the_interval() {
        let (observed, start) = (Observed::default(), Instant::now());
        observed.recalled(TENANT, [id(1), id(2)].into_iter());
        assert_eq!(recalls(&observed, start), [(id(1), 1), (id(2), 1)]);
        for _ in 0..3 {
            observed.recalled(TENANT, [id(1)].into_iter());
        }
        assert_eq!(recalls(&observed, start + 30 * SECOND), []);
        assert_eq!(recalls(&observed, start + 60 * SECOND), [(id(1), 3)]);
        assert_eq!(recalls(&observed, start + 200 * SECOND), []);
        assert_eq!(observed.seen().recalls, 0, "nothing is remembered for ever");
    }

    #[test]
    fn what_exceeds_the_room_is_dropped_and_counted_and_a_report_is_bounded() {
        let observed = Observed::default();
        let ids = (0..RECALLS_MAX + 5).map(|number| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            MemoryId(bytes)
        });
        observed.recalled(TENANT, ids);
        assert_eq!(observed.dropped(), 5);
        assert_eq!(recalls(&observed, Instant::now()).len(), REPORT_RECALLS_MAX);
    }

    #[test]
    fn what_was_reported_gives_way_when_there_is_no_room() {
        let (observed, start) = (Observed::default(), Instant::now());
        let ids = |first: u64| {
            (first..first + RECALLS_MAX as u64)
                .map(|number| MemoryId(u128::from(number).to_be_bytes()))
        };
        let recalled = |first| {
            let ids: Vec<_> = ids(first).collect();
            observed.recalled(TENANT, ids.into_iter());
        };
        recalled(0);
        while !recalls(&observed, start).is_empty() {}
        recalled(1 << 40);
        assert_eq!(observed.dropped(), 0);
    }

    #[test]
    fn a_key_that_alone_is_due_is_reported() {
        let (observed, start) = (Observed::default(), Instant::now());
        let key = KeyId([7; 8]);
        let report = |at| observed.take(at, Timestamp(9), |_| SECOND).pop();
        observed.answered(TENANT, key, Duration::ZERO, 0);
        assert_eq!(report(start).map(|report| report.keys.len()), Some(1));
        observed.answered(TENANT, key, Duration::ZERO, 0);
        assert_eq!(report(start + SECOND).map(|report| report.keys.len()), Some(0));
        assert_eq!(report(start + KEY_INTERVAL).map(|report| report.keys.len()), Some(1));
    }

    #[test]
    fn searches_requests_and_keys_are_summed_until_they_are_reported() {
        let (observed, start) = (Observed::default(), Instant::now());
        observed.recalled(TENANT, [].into_iter());
        let key = KeyId([7; 8]);
        observed.answered(TENANT, key, Duration::from_micros(30), 1);
        observed.answered(TENANT, key, Duration::from_micros(50), 0);
        let reports = observed.take(start, Timestamp(9), |_| SECOND);
        assert_eq!((reports[0].searches, reports[0].searches_with_results), (1, 0));
        let usage =
            Usage { requests: 2, nodes_added: 1, latency_micros: 80, latency_max_micros: 50 };
        assert_eq!((reports[0].usage, &reports[0].keys[..]), (usage, &[(key, Timestamp(9))][..]));
        observed.answered(TENANT, key, Duration::from_micros(1), 0);
        let again = observed.take(start + SECOND, Timestamp(9), |_| SECOND);
        assert_eq!((again[0].usage.requests, again[0].keys.len()), (1, 0));
    }
}
