//! The recall buffer: results of searches, requests and key uses of this node, until a background
//! task reports them to the leader. The first results of a search are recalls.
//!
//! The first recall of a memory is reported at once. Further recalls within the tenant's
//! `recall_min_interval` are counted and reported together at its end. So a search in a loop
//! neither writes without bound nor keeps a memory hot for ever.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_MEMORIES_MAX, Returned, TenantReport, Usage};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::tenant::KeyId;

/// Most memories in the buffer, over all tenants. At the limit the reported ones are removed:
/// their next recall is reported before the interval ends, and is then counted only. If none
/// is reported yet, further memories are dropped and counted.
const MEMORIES_MAX: usize = 50_000;
/// Cost of a firing of a trigger in a report, in memories.
const FIRING_COST: usize = 4;
/// Interval at which the use of a key is reported.
const KEY_INTERVAL: Duration = Duration::from_secs(300);

/// Returned memories, requests and key uses since the last report.
#[derive(Default)]
pub(crate) struct RecallBuffer(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    tenants: BTreeMap<TenantId, TenantContents>,
    /// Memories of all tenants.
    memories: usize,
    /// Whether reported memories were removed since the last report.
    swept: bool,
    dropped: u64,
}

#[derive(Default)]
struct TenantContents {
    memories: HashMap<MemoryId, Uses>,
    searches: u64,
    searches_with_results: u64,
    usage: Usage,
    keys: HashMap<KeyId, Uses>,
}

/// Uses of a memory or a key.
#[derive(Default)]
struct Uses {
    unreported: u32,
    /// Those of the unreported that are recalls.
    recalls: u32,
    reported: Option<Instant>,
}

impl RecallBuffer {
    /// Counts a search, and the memories that it returned, best first. The first `recalled` of them
    /// are recalls. The others are counted only if triggers wait for them (`with_others`).
    pub(crate) fn count(
        &self,
        tenant: TenantId,
        returned: &[MemoryId],
        recalled: usize,
        with_others: bool,
    ) {
        let counted = if with_others { returned.len() } else { recalled.min(returned.len()) };
        let mut contents = self.0.lock();
        if contents.memories + counted > MEMORIES_MAX && !contents.swept {
            contents.sweep();
        }
        let Contents { tenants, memories, dropped, .. } = &mut *contents;
        let of_tenant = tenants.entry(tenant).or_default();
        of_tenant.searches += 1;
        of_tenant.searches_with_results += u64::from(!returned.is_empty());
        for (rank, id) in returned[..counted].iter().enumerate() {
            let uses = match of_tenant.memories.entry(*id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) if *memories < MEMORIES_MAX => {
                    *memories += 1;
                    new.insert(Uses::default())
                }
                Entry::Vacant(_) => {
                    *dropped += 1;
                    continue;
                }
            };
            uses.unreported = uses.unreported.saturating_add(1);
            uses.recalls = uses.recalls.saturating_add(u32::from(rank < recalled));
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
        let mut room = REPORT_MEMORIES_MAX;
        let mut reports = Vec::new();
        for (tenant, of_tenant) in &mut contents.tenants {
            let (interval, firings) = (interval(*tenant), FIRING_COST * triggers(*tenant));
            let cost = |uses: u32| (uses as usize).saturating_mul(firings).saturating_add(1);
            let due = take_due(&mut of_tenant.memories, now, interval, &mut room, cost);
            let report = of_tenant.take(*tenant, now, clock, due);
            reports.extend(report);
        }
        contents.memories =
            contents.tenants.values().map(|of_tenant| of_tenant.memories.len()).sum();
        contents.swept = false;
        reports
    }
}

impl Contents {
    fn sweep(&mut self) {
        for of_tenant in self.tenants.values_mut() {
            of_tenant.memories.retain(|_, known| known.unreported > 0);
        }
        self.memories = self.tenants.values().map(|of_tenant| of_tenant.memories.len()).sum();
        self.swept = true;
    }
}

impl TenantContents {
    fn take(
        &mut self,
        tenant: TenantId,
        now: Instant,
        clock: Timestamp,
        memories: Vec<(MemoryId, Uses)>,
    ) -> Option<TenantReport> {
        let mut unlimited = usize::MAX;
        let keys = take_due(&mut self.keys, now, KEY_INTERVAL, &mut unlimited, |_| 1);
        let keys: Vec<_> = keys.into_iter().map(|(key, _)| (key, clock)).collect();
        let (searches, usage) =
            (std::mem::take(&mut self.searches), std::mem::take(&mut self.usage));
        let searches_with_results = std::mem::take(&mut self.searches_with_results);
        let has_content =
            !memories.is_empty() || !keys.is_empty() || searches > 0 || usage.requests > 0;
        let returned =
            |(id, Uses { unreported: times, recalls, .. })| Returned { id, times, recalls };
        let mut returned: Vec<_> = memories.into_iter().map(returned).collect();
        // In order, so that reports can be compared.
        returned.sort_unstable();
        has_content.then_some(TenantReport {
            tenant,
            returned,
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
) -> Vec<(K, Uses)> {
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
        let reported = Uses { reported: Some(now), ..Uses::default() };
        taken.push((*id, std::mem::replace(uses, reported)));
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

    /// Counts a search that recalls `count` memories.
    fn count(buffer: &RecallBuffer, first: u64, count: usize) {
        let ids: Vec<_> = (first..).map(id).take(count).collect();
        buffer.count(TENANT, &ids, count, false);
    }

    fn returned(reports: Vec<TenantReport>) -> Vec<(MemoryId, u32)> {
        let returned = reports.into_iter().flat_map(|report| report.returned);
        returned.map(|returned| (returned.id, returned.times)).collect()
    }

    fn recalls(buffer: &RecallBuffer, at: Instant) -> Vec<(MemoryId, u32)> {
        returned(buffer.take(at, Timestamp(0), |_| 60 * SECOND, |_| 0))
    }

    #[test]
    fn first_results_are_recalls() {
        let buffer = RecallBuffer::default();
        let report = |with_others| {
            buffer.count(TENANT, &[id(3), id(1), id(2)], 2, with_others);
            let report = buffer.take(Instant::now(), Timestamp(0), |_| Duration::ZERO, |_| 0).pop();
            let report = report.expect("a search is reported");
            assert_eq!((report.searches, report.searches_with_results), (1, 1));
            let returned = report.returned.into_iter();
            returned.map(|it| (it.id, it.times, it.recalls)).collect::<Vec<_>>()
        };
        assert_eq!(report(false), [(id(1), 1, 1), (id(3), 1, 1)]);
        assert_eq!(report(true), [(id(1), 1, 1), (id(2), 1, 0), (id(3), 1, 1)]);
    }

    #[test]
    fn later_recalls_are_reported_together() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 1, 2);
        assert_eq!(recalls(&buffer, start), [(id(1), 1), (id(2), 1)]);
        for _ in 0..3 {
            count(&buffer, 1, 1);
        }
        assert_eq!(recalls(&buffer, start + 30 * SECOND), []);
        assert_eq!(recalls(&buffer, start + 60 * SECOND), [(id(1), 3)]);
        assert_eq!(recalls(&buffer, start + 200 * SECOND), []);
        assert_eq!(buffer.0.lock().memories, 0, "nothing is kept for ever");
    }

    #[test]
    fn excess_recalls_are_dropped_and_counted() {
        let buffer = RecallBuffer::default();
        count(&buffer, 0, MEMORIES_MAX + 5);
        assert_eq!(buffer.dropped(), 5);
        assert_eq!(recalls(&buffer, Instant::now()).len(), REPORT_MEMORIES_MAX);
    }

    #[test]
    fn reported_entries_make_room() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 0, MEMORIES_MAX);
        while !recalls(&buffer, start).is_empty() {}
        count(&buffer, 1 << 40, MEMORIES_MAX);
        assert_eq!(buffer.dropped(), 0);
    }

    #[test]
    fn report_has_room_for_some_firings() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let report = || {
            let reports = buffer.take(start, Timestamp(0), |_| Duration::ZERO, |_| 2);
            returned(reports).len()
        };
        count(&buffer, 0, 200);
        let counts: [usize; 5] = std::array::from_fn(|_| report());
        assert_eq!(counts, [56, 56, 56, 32, 0], "9 memories each");
    }

    #[test]
    fn frequent_recalls_keep_no_others_waiting() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let report = |seconds: u32| {
            returned(buffer.take(start + seconds * SECOND, Timestamp(0), |_| SECOND, |_| 1))
        };
        let frequent = || (0..20).for_each(|_| count(&buffer, 1, 10));
        frequent();
        assert_eq!(report(0).len(), 7, "81 recalls each");
        frequent();
        assert_eq!(report(1).len(), 4, "first the three that wait, 161 recalls each");
        frequent();
        count(&buffer, 500, 1);
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
        count(&buffer, 0, 0);
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
