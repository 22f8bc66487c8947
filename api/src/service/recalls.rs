//! The recall buffer: recalls, requests and key uses of this node, until a background task
//! reports them to the leader.
//!
//! The first recall of a memory is reported at once. Further recalls within the tenant's
//! `recall_min_interval` are counted and reported together at its end. So a search in a loop
//! neither writes without bound nor keeps a memory hot for ever.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_RECALLS_MAX, TenantReport, Usage};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::tenant::KeyId;

/// Most memories in the buffer, over all tenants. At the limit the reported ones are removed:
/// their next recall is reported before the interval ends, and is then counted only. If none
/// is reported yet, further memories are dropped and counted.
const RECALLS_MAX: usize = 50_000;
/// Cost of a firing of a trigger in a report, in recalls.
const FIRING_COST: usize = 4;
/// Interval at which the use of a key is reported.
const KEY_INTERVAL: Duration = Duration::from_secs(300);

/// Recalls, requests and key uses since the last report.
#[derive(Default)]
pub(crate) struct RecallBuffer(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    tenants: BTreeMap<TenantId, TenantContents>,
    recalls: usize,
    /// Whether reported memories were removed since the last report.
    swept: bool,
    dropped: u64,
}

#[derive(Default)]
struct TenantContents {
    recalls: HashMap<MemoryId, Uses>,
    searches: u64,
    searches_with_results: u64,
    usage: Usage,
    keys: HashMap<KeyId, Uses>,
}

/// Uses of a memory or a key.
#[derive(Default)]
struct Uses {
    unreported: u32,
    reported: Option<Instant>,
}

impl RecallBuffer {
    /// Counts a search that returned these memories.
    pub(crate) fn count(&self, tenant: TenantId, ids: impl ExactSizeIterator<Item = MemoryId>) {
        let mut contents = self.0.lock();
        if contents.recalls + ids.len() > RECALLS_MAX && !contents.swept {
            contents.sweep();
        }
        let Contents { tenants, recalls, dropped, .. } = &mut *contents;
        let of_tenant = tenants.entry(tenant).or_default();
        of_tenant.searches += 1;
        of_tenant.searches_with_results += u64::from(ids.len() > 0);
        for id in ids {
            match of_tenant.recalls.get_mut(&id) {
                Some(known) => known.unreported = known.unreported.saturating_add(1),
                None if *recalls < RECALLS_MAX => {
                    *recalls += 1;
                    of_tenant.recalls.insert(id, Uses { unreported: 1, reported: None });
                }
                None => *dropped += 1,
            }
        }
    }

    /// Counts a request of a key, the time that it took, and the memories that it created.
    pub(crate) fn count_request(&self, tenant: TenantId, key: KeyId, took: Duration, added: u64) {
        let mut contents = self.0.lock();
        let of_tenant = contents.tenants.entry(tenant).or_default();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        of_tenant.usage.add(&Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        });
        of_tenant.keys.entry(key).or_default().unreported = 1;
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Takes what is due for a report at `now`, as much as it has room for: writes wait while the
    /// leader decides it. `interval` returns a tenant's `recall_min_interval`, `triggers` the
    /// number of its triggers that wait for recalls.
    pub(crate) fn take(
        &self,
        now: Instant,
        clock: Timestamp,
        interval: impl Fn(TenantId) -> Duration,
        triggers: impl Fn(TenantId) -> usize,
    ) -> Vec<TenantReport> {
        let mut contents = self.0.lock();
        let mut room = REPORT_RECALLS_MAX;
        let mut reports = Vec::new();
        for (tenant, of_tenant) in &mut contents.tenants {
            let (interval, firings) = (interval(*tenant), FIRING_COST * triggers(*tenant));
            let cost = |uses: u32| (uses as usize).saturating_mul(firings).saturating_add(1);
            let recalls = take_due(&mut of_tenant.recalls, now, interval, &mut room, cost);
            let report = of_tenant.take(*tenant, now, clock, recalls);
            reports.extend(report);
        }
        contents.recalls = contents.tenants.values().map(|of_tenant| of_tenant.recalls.len()).sum();
        contents.swept = false;
        reports
    }
}

impl Contents {
    fn sweep(&mut self) {
        for of_tenant in self.tenants.values_mut() {
            of_tenant.recalls.retain(|_, known| known.unreported > 0);
        }
        self.recalls = self.tenants.values().map(|of_tenant| of_tenant.recalls.len()).sum();
        self.swept = true;
    }
}

impl TenantContents {
    fn take(
        &mut self,
        tenant: TenantId,
        now: Instant,
        clock: Timestamp,
        mut recalls: Vec<(MemoryId, u32)>,
    ) -> Option<TenantReport> {
        let mut unlimited = usize::MAX;
        let keys = take_due(&mut self.keys, now, KEY_INTERVAL, &mut unlimited, |_| 1);
        let keys: Vec<_> = keys.into_iter().map(|(key, _)| (key, clock)).collect();
        let (searches, usage) =
            (std::mem::take(&mut self.searches), std::mem::take(&mut self.usage));
        let searches_with_results = std::mem::take(&mut self.searches_with_results);
        let has_content =
            !recalls.is_empty() || !keys.is_empty() || searches > 0 || usage.requests > 0;
        // In order, so that reports can be compared.
        recalls.sort_unstable();
        has_content.then_some(TenantReport {
            tenant,
            recalls,
            searches,
            searches_with_results,
            usage,
            keys,
        })
    }
}

/// Takes uses that are due, while there is `room`: their last report is `interval` ago. Those that
/// were never reported come first, then those whose report is longest ago, so that none waits for
/// ever. The last one may cost more than there is room for.
fn take_due<K: Copy + Eq + Hash>(
    all: &mut HashMap<K, Uses>,
    now: Instant,
    interval: Duration,
    room: &mut usize,
    cost: impl Fn(u32) -> usize,
) -> Vec<(K, u32)> {
    let is_due = |uses: &Uses| uses.reported.is_none_or(|at| now - at >= interval);
    let due = all.iter_mut().filter(|(_, uses)| uses.unreported > 0 && is_due(uses));
    let mut due: Vec<_> = due.collect();
    due.sort_unstable_by_key(|(_, uses)| uses.reported);
    let mut taken = Vec::new();
    for (id, uses) in due {
        if *room == 0 {
            break;
        }
        *room = room.saturating_sub(cost(uses.unreported));
        taken.push((*id, uses.unreported));
        *uses = Uses { unreported: 0, reported: Some(now) };
    }
    // Entries whose next use is reported at once need not be kept.
    all.retain(|_, uses| uses.unreported > 0 || !is_due(uses));
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn id(number: u64) -> MemoryId {
        MemoryId(u128::from(number).to_be_bytes())
    }

    fn ids(first: u64, count: usize) -> std::vec::IntoIter<MemoryId> {
        (first..).map(id).take(count).collect::<Vec<_>>().into_iter()
    }

    fn recalls(buffer: &RecallBuffer, at: Instant) -> Vec<(MemoryId, u32)> {
        let reports = buffer.take(at, Timestamp(0), |_| 60 * SECOND, |_| 0);
        reports.into_iter().flat_map(|report| report.recalls).collect()
    }

    #[test]
    fn later_recalls_are_reported_together() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        buffer.count(TENANT, ids(1, 2));
        assert_eq!(recalls(&buffer, start), [(id(1), 1), (id(2), 1)]);
        for _ in 0..3 {
            buffer.count(TENANT, ids(1, 1));
        }
        assert_eq!(recalls(&buffer, start + 30 * SECOND), []);
        assert_eq!(recalls(&buffer, start + 60 * SECOND), [(id(1), 3)]);
        assert_eq!(recalls(&buffer, start + 200 * SECOND), []);
        assert_eq!(buffer.0.lock().recalls, 0, "nothing is kept for ever");
    }

    #[test]
    fn excess_recalls_are_dropped_and_counted() {
        let buffer = RecallBuffer::default();
        buffer.count(TENANT, ids(0, RECALLS_MAX + 5));
        assert_eq!(buffer.dropped(), 5);
        assert_eq!(recalls(&buffer, Instant::now()).len(), REPORT_RECALLS_MAX);
    }

    #[test]
    fn reported_entries_make_room() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        buffer.count(TENANT, ids(0, RECALLS_MAX));
        while !recalls(&buffer, start).is_empty() {}
        buffer.count(TENANT, ids(1 << 40, RECALLS_MAX));
        assert_eq!(buffer.dropped(), 0);
    }

    #[test]
    fn report_has_room_for_some_firings() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let report = || {
            let reports = buffer.take(start, Timestamp(0), |_| Duration::ZERO, |_| 2);
            reports.into_iter().flat_map(|report| report.recalls).map(|(_, times)| times).collect()
        };
        buffer.count(TENANT, ids(0, 200));
        let counts: [Vec<u32>; 5] = std::array::from_fn(|_| report());
        assert_eq!(counts.map(|times| times.len()), [56, 56, 56, 32, 0], "9 recalls each");
    }

    #[test]
    fn frequent_recalls_keep_no_others_waiting() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let report = |seconds: u32| {
            let reports = buffer.take(start + seconds * SECOND, Timestamp(0), |_| SECOND, |_| 1);
            reports.into_iter().flat_map(|report| report.recalls).collect::<Vec<_>>()
        };
        let frequent = || (0..20).for_each(|_| buffer.count(TENANT, ids(1, 10)));
        frequent();
        assert_eq!(report(0).len(), 7, "81 recalls each");
        frequent();
        assert_eq!(report(1).len(), 4, "first the three that wait, 161 recalls each");
        frequent();
        buffer.count(TENANT, ids(500, 1));
        assert!(report(2).contains(&(id(500), 1)));
    }

    #[test]
    fn due_key_use_is_reported_alone() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let key = KeyId([7; 8]);
        let report = |at| buffer.take(at, Timestamp(9), |_| SECOND, |_| 0).pop();
        buffer.count_request(TENANT, key, Duration::ZERO, 0);
        assert_eq!(report(start).map(|report| report.keys.len()), Some(1));
        buffer.count_request(TENANT, key, Duration::ZERO, 0);
        assert_eq!(report(start + SECOND).map(|report| report.keys.len()), Some(0));
        assert_eq!(report(start + KEY_INTERVAL).map(|report| report.keys.len()), Some(1));
    }

    #[test]
    fn requests_are_summed_until_reported() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        buffer.count(TENANT, ids(0, 0));
        let key = KeyId([7; 8]);
        buffer.count_request(TENANT, key, Duration::from_micros(30), 1);
        buffer.count_request(TENANT, key, Duration::from_micros(50), 0);
        let reports = buffer.take(start, Timestamp(9), |_| SECOND, |_| 0);
        assert_eq!((reports[0].searches, reports[0].searches_with_results), (1, 0));
        let usage =
            Usage { requests: 2, nodes_added: 1, latency_micros: 80, latency_max_micros: 50 };
        assert_eq!((reports[0].usage, &reports[0].keys[..]), (usage, &[(key, Timestamp(9))][..]));
        buffer.count_request(TENANT, key, Duration::from_micros(1), 0);
        let again = buffer.take(start + SECOND, Timestamp(9), |_| SECOND, |_| 0);
        assert_eq!((again[0].usage.requests, again[0].keys.len()), (1, 0));
    }
}
