//! The recall buffer: results of searches, requests and key uses of this node, until a background
//! task reports them to the leader. The first results of a search are recalls; all results are
//! returned, for the triggers that wait for it.
//!
//! The first recall of a memory is reported at once. Further recalls within the tenant's
//! `recall_min_interval` are counted and reported together at its end. So a search in a loop
//! neither writes without bound nor keeps a memory hot for ever.
//!
//! A report has room for some recalls, and for some [results](Returned) that fire triggers. Tenants
//! have equal parts of it, and the keys of a tenant take turns, so that none waits for what another
//! one has searched.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use storage::model::analytics::{REPORT_TENANTS_MAX, TenantReport, Usage};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp};
use storage::{EqualParts, OwnerCounts};

use crate::budget::KeyOfTenant;
use crate::service::recall_counts::{Needs, PART_MAX, PARTS, Part, TenantContents};
use crate::service::returned::Turn;

/// Most memories with recalls in the buffer: over all tenants, and of one tenant. A tenant with few
/// may exceed the limit of all. At a limit the reported ones of the tenant are removed, and after a
/// report those of the tenants with the most, if the buffer is nearly full: their next recall is
/// reported before the interval ends, and is then counted only. If none is reported yet, further
/// memories are dropped and counted.
const MEMORIES_MAX: usize = 50_000;
const TENANT_MEMORIES_MAX: usize = MEMORIES_MAX / 4 * 3;
const TENANT_MEMORIES_FEW: usize = 64;

/// Returned memories, requests and key uses since the last report. Each tenant has a lock of its
/// own: no request waits for a lock that the work of another tenant holds.
#[derive(Default)]
pub(crate) struct RecallBuffer {
    tenants: RwLock<Tenants>,
    /// Memories with recalls, of all tenants.
    memories: AtomicUsize,
    dropped: AtomicU64,
}

/// The lock of each tenant.
type Tenants = BTreeMap<TenantId, Arc<Mutex<TenantContents>>>;

/// What a tenant needs of a report.
struct Due {
    tenant: TenantId,
    needs: Needs,
    /// See [`TenantContents::reported_at`].
    reported_at: Turn,
    served: [Turn; PARTS],
}

impl RecallBuffer {
    /// Counts a search of a key, which found something or not, and what it `recalled`.
    pub(crate) fn count(
        &self,
        (tenant, key): KeyOfTenant,
        has_results: bool,
        recalled: &[MemoryId],
    ) {
        let dropped = self.change(&self.of(tenant), |of_tenant, others| {
            of_tenant.searches += 1;
            of_tenant.searches_with_results += u64::from(has_results);
            let mut dropped = 0;
            for id in recalled {
                let has_room = room(of_tenant, others) > 0;
                if of_tenant.count(key, *id, has_room) {
                    continue;
                }
                of_tenant.make_room();
                let has_room = room(of_tenant, others) > 0;
                dropped += u64::from(!of_tenant.count(key, *id, has_room));
            }
            dropped
        });
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Keeps the results of a search of a key for the triggers that wait for each.
    pub(crate) fn add_results<W: Borrow<OwnerCounts>>(
        &self,
        (tenant, key): KeyOfTenant,
        results: impl ExactSizeIterator<Item = (MemoryId, W)>,
    ) {
        let dropped = self.of(tenant).lock().returned.push(key, results);
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Counts a request of a key, the time that it took, and the memories that it created.
    pub(crate) fn count_request(&self, tenant: TenantId, key: KeyId, took: Duration, added: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usage = Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        };
        self.of(tenant).lock().count_request(key, &usage);
    }

    /// Recalls and results that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes what is due for a report at `now`, as much as it has room for: writes wait while the
    /// leader decides it. `interval` returns a tenant's `recall_min_interval`.
    pub(crate) fn take(
        &self,
        now: Instant,
        clock: Timestamp,
        interval: impl Fn(TenantId) -> Duration,
    ) -> Vec<TenantReport> {
        let tenants = self.tenants.read().clone();
        let due = due(&tenants, now, &interval);
        let mut reports: BTreeMap<_, _> =
            due.iter().map(|due| (due.tenant, TenantReport::empty(due.tenant))).collect();
        divide(&tenants, now, &due, Part::Recalls, |of_tenant, id, room| {
            let recalls = of_tenant.take_recalls(now, interval(id), room);
            let count = recalls.len();
            reports.entry(id).and_modify(|report| report.recalls = recalls);
            count
        });
        divide(&tenants, now, &due, Part::Firings, |of_tenant, id, room| {
            let (returned, firings) = of_tenant.returned.take(now, room);
            reports.entry(id).and_modify(|report| report.returned = returned);
            firings
        });
        divide(&tenants, now, &due, Part::Keys, |of_tenant, id, room| {
            let keys = of_tenant.take_keys(now, clock, room);
            let count = keys.len();
            reports.entry(id).and_modify(|report| report.keys = keys);
            count
        });
        for (place, Due { tenant, .. }) in due.iter().enumerate() {
            if let (Some(of_tenant), Some(report)) = (tenants.get(tenant), reports.get_mut(tenant))
            {
                of_tenant.lock().take_counts((now, place), report);
            }
        }
        for (id, of_tenant) in tenants {
            self.change(&of_tenant, |of_tenant, _| of_tenant.remove_idle(now, interval(id)));
        }
        self.remove_idle();
        self.make_room();
        let is_empty = |report: &TenantReport| *report == TenantReport::empty(report.tenant);
        reports.into_values().filter(|report| !is_empty(report)).collect()
    }

    /// The contents of a tenant, new ones if it has none.
    fn of(&self, tenant: TenantId) -> Arc<Mutex<TenantContents>> {
        let known = self.tenants.read().get(&tenant).cloned();
        known.unwrap_or_else(|| Arc::clone(self.tenants.write().entry(tenant).or_default()))
    }

    /// Changes the contents of a tenant, with the number of memories of the others at hand.
    fn change<T>(
        &self,
        of_tenant: &Mutex<TenantContents>,
        change: impl FnOnce(&mut TenantContents, usize) -> T,
    ) -> T {
        let mut of_tenant = of_tenant.lock();
        let before = of_tenant.memories;
        let others = self.memories.load(Ordering::Relaxed).saturating_sub(before);
        let changed = change(&mut of_tenant, others);
        // Wraps around if there are fewer now.
        self.memories.fetch_add(of_tenant.memories.wrapping_sub(before), Ordering::Relaxed);
        changed
    }

    /// If the buffer is nearly full, removes the reported memories of the tenants with the most.
    fn make_room(&self) {
        let is_nearly_full = || self.memories.load(Ordering::Relaxed) > TENANT_MEMORIES_MAX;
        if !is_nearly_full() {
            return;
        }
        let tenants = self.tenants.read().clone();
        let mut tenants: Vec<_> =
            tenants.values().map(|of_tenant| (of_tenant.lock().memories, of_tenant)).collect();
        tenants.sort_by_key(|(memories, _)| Reverse(*memories));
        for (_, of_tenant) in tenants {
            if !is_nearly_full() {
                break;
            }
            self.change(of_tenant, |of_tenant, _| of_tenant.remove_reported());
        }
    }

    /// Removes the tenants that no further report needs, so that idle ones cost nothing. A request
    /// may be about to count for one: it holds the contents then.
    fn remove_idle(&self) {
        let is_idle = |of_tenant: &Arc<Mutex<TenantContents>>| {
            Arc::strong_count(of_tenant) == 1 && of_tenant.lock().is_idle()
        };
        self.tenants.write().retain(|_, of_tenant| !is_idle(of_tenant));
    }
}

/// How many more memories with recalls a tenant may have; the `others` have that many.
fn room(of_tenant: &TenantContents, others: usize) -> usize {
    let of_all = MEMORIES_MAX.saturating_sub(others).min(TENANT_MEMORIES_MAX);
    of_all.max(TENANT_MEMORIES_FEW).saturating_sub(of_tenant.memories)
}

/// The tenants that a report may include, with what each needs of it. If there are too many, those
/// that were reported longest ago.
fn due(tenants: &Tenants, now: Instant, interval: &impl Fn(TenantId) -> Duration) -> Vec<Due> {
    let due = tenants.iter().filter_map(|(id, of_tenant)| {
        let of_tenant = of_tenant.lock();
        let needs = of_tenant.needs(now, interval(*id));
        let TenantContents { reported_at, served, .. } = *of_tenant;
        (needs != [0; PARTS] || of_tenant.has_counts()).then_some(Due {
            tenant: *id,
            needs,
            reported_at,
            served,
        })
    });
    let mut due: Vec<_> = due.collect();
    if due.len() > REPORT_TENANTS_MAX {
        due.sort_by_key(|due| due.reported_at);
        due.truncate(REPORT_TENANTS_MAX);
    }
    due
}

/// Divides a part of a report among the tenants that need some of it. Those that need no more
/// than an equal part come first, then those that had some longest ago: what cannot be divided
/// may take the room of others, so they take turns. `take` returns how much it took.
fn divide(
    tenants: &Tenants,
    now: Instant,
    due: &[Due],
    part_of: Part,
    mut take: impl FnMut(&mut TenantContents, TenantId, usize) -> usize,
) {
    let at = part_of as usize;
    let mut due: Vec<_> = due.iter().filter(|due| due.needs[at] > 0).collect();
    let room = PART_MAX[at];
    let equal = room / due.len().max(1);
    due.sort_by_key(|due| match due.needs[at] > equal {
        true => (Some(due.served[at]), 0),
        false => (None, due.needs[at]),
    });
    let mut parts = EqualParts::new(room, due.len());
    for (place, Due { tenant, .. }) in due.into_iter().enumerate() {
        let part = parts.part().max(1).min(parts.left());
        let Some(of_tenant) = tenants.get(tenant).filter(|_| part > 0) else { break };
        let mut of_tenant = of_tenant.lock();
        let taken = take(&mut of_tenant, *tenant, part);
        if taken > 0 {
            of_tenant.served[at] = (now, place);
        }
        parts.spend(taken);
    }
}

#[cfg(test)]
mod tests {
    use storage::model::analytics::{REPORT_KEYS_MAX, REPORT_RECALLS_MAX, ReturnedMemory};

    use super::*;
    use crate::service::recall_counts::KEY_INTERVAL;

    const TENANT: TenantId = TenantId(1);
    const OTHER_TENANT: TenantId = TenantId(2);
    const KEY: KeyId = KeyId([7; 8]);
    const OTHER_KEY: KeyId = KeyId([9; 8]);
    const SECOND: Duration = Duration::from_secs(1);

    fn id(number: u64) -> MemoryId {
        MemoryId(u128::from(number).to_be_bytes())
    }

    fn ids(first: u64, count: usize) -> Vec<MemoryId> {
        (first..).map(id).take(count).collect()
    }

    /// Counts a search by `key` that returns `ids` and recalls the first ones. `triggers` wait for it.
    fn search(
        buffer: &RecallBuffer,
        key: KeyId,
        ids: &[MemoryId],
        recalled: usize,
        triggers: usize,
    ) {
        buffer.count((TENANT, key), !ids.is_empty(), &ids[..recalled.min(ids.len())]);
        find(buffer, (TENANT, key), ids, triggers);
    }

    /// Adds results for which `triggers` wait.
    fn find(buffer: &RecallBuffer, key: KeyOfTenant, ids: &[MemoryId], triggers: usize) {
        let waiting: OwnerCounts = (triggers > 0).then_some((None, triggers)).into_iter().collect();
        buffer.add_results(key, ids.iter().map(|id| (*id, &waiting)));
    }

    /// Counts a search that recalls `count` memories.
    fn count(buffer: &RecallBuffer, first: u64, count: usize) {
        search(buffer, KEY, &ids(first, count), count, 0);
    }

    fn report(buffer: &RecallBuffer, at: Instant) -> TenantReport {
        let reports = buffer.take(at, Timestamp(9), |_| 60 * SECOND);
        reports.into_iter().next().unwrap_or_else(|| TenantReport::empty(TENANT))
    }

    fn recalls(buffer: &RecallBuffer, at: Instant) -> Vec<(MemoryId, u32)> {
        report(buffer, at).recalls
    }

    #[test]
    fn first_results_are_recalls() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        search(&buffer, KEY, &[id(3), id(1), id(2)], 2, 0);
        let first = report(&buffer, start);
        assert_eq!((first.searches, first.searches_with_results), (1, 1));
        assert_eq!((first.recalls, first.returned), (vec![(id(1), 1), (id(3), 1)], vec![]));
        search(&buffer, KEY, &[id(3), id(1), id(2)], 2, 1);
        let second = report(&buffer, start);
        assert_eq!(second.recalls, [], "within the interval");
        let of = |number| ReturnedMemory { owner: None, id: id(number), times: 1 };
        assert_eq!(second.returned, [1, 2, 3].map(of));
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
        assert_eq!(buffer.memories.load(Ordering::Relaxed), 0, "nothing is kept for ever");
        assert!(buffer.tenants.read().is_empty());
    }

    #[test]
    fn excess_recalls_are_dropped_and_counted() {
        let buffer = RecallBuffer::default();
        count(&buffer, 0, TENANT_MEMORIES_MAX + 5);
        assert_eq!(buffer.dropped(), 5);
        assert_eq!(recalls(&buffer, Instant::now()).len(), REPORT_RECALLS_MAX);
        let ids = ids(1 << 40, MEMORIES_MAX);
        buffer.count((OTHER_TENANT, OTHER_KEY), true, &ids);
        assert_eq!(buffer.dropped() as usize, 5 + TENANT_MEMORIES_MAX);
    }

    #[test]
    fn full_buffer_has_room_for_few_of_others() {
        let (buffer, third) = (RecallBuffer::default(), TenantId(3));
        count(&buffer, 0, TENANT_MEMORIES_MAX);
        buffer.count((OTHER_TENANT, KEY), true, &ids(0, MEMORIES_MAX - TENANT_MEMORIES_MAX));
        buffer.count((third, KEY), true, &ids(0, TENANT_MEMORIES_FEW + 1));
        assert_eq!(buffer.dropped(), 1);
        let reports = buffer.take(Instant::now(), Timestamp(9), |_| 60 * SECOND);
        let of_third = reports.iter().find(|report| report.tenant == third).unwrap();
        assert_eq!(of_third.recalls.len(), TENANT_MEMORIES_FEW);
        buffer.count((third, KEY), true, &ids(1 << 40, TENANT_MEMORIES_FEW));
        assert_eq!(buffer.dropped(), 1, "the reported ones make room");
    }

    #[test]
    fn reported_ones_of_the_largest_make_room() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        buffer.count((OTHER_TENANT, KEY), true, &ids(0, 1_000));
        count(&buffer, 0, TENANT_MEMORIES_MAX - 1_000);
        while !buffer.take(start, Timestamp(9), |_| 60 * SECOND).is_empty() {}
        assert_eq!(buffer.memories.load(Ordering::Relaxed), TENANT_MEMORIES_MAX);
        buffer.count((OTHER_TENANT, OTHER_KEY), true, &ids(0, 1));
        buffer.take(start, Timestamp(9), |_| 60 * SECOND);
        assert_eq!(buffer.memories.load(Ordering::Relaxed), 1_001);
    }

    #[test]
    fn reported_entries_make_room() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 0, TENANT_MEMORIES_MAX);
        while !recalls(&buffer, start).is_empty() {}
        count(&buffer, 1 << 40, TENANT_MEMORIES_MAX);
        assert_eq!(buffer.dropped(), 0);
    }

    #[test]
    fn tenants_have_equal_parts_of_a_report() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let mut quiet = Vec::new();
        for round in 0..3 {
            let all = ids(1_000 * round, 1_000);
            buffer.count((TENANT, KEY), true, &all);
            find(&buffer, (TENANT, KEY), &ids(1, 100), 20);
            buffer.count((OTHER_TENANT, OTHER_KEY), true, &[id(7_000 + round)]);
            find(&buffer, (OTHER_TENANT, OTHER_KEY), &[id(7)], 1);
            let reports = buffer.take(start + SECOND, Timestamp(9), |_| 60 * SECOND);
            let other = reports.into_iter().find(|report| report.tenant == OTHER_TENANT).unwrap();
            quiet.push((other.recalls.len(), other.returned.len()));
        }
        assert_eq!(quiet, [(1, 1); 3], "it never waits");
    }

    #[test]
    fn expensive_results_leave_room_for_other_tenants() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let mut served = [0, 0];
        for round in 1..5 {
            for tenant in [TENANT, OTHER_TENANT] {
                find(&buffer, (tenant, KEY), &[id(1)], 300);
            }
            let reports = buffer.take(start + round * SECOND, Timestamp(9), |_| 60 * SECOND);
            let number = |of| {
                let of = reports.iter().filter(|report| report.tenant == of);
                of.map(|report| report.returned.len()).sum::<usize>()
            };
            let of_both = [TENANT, OTHER_TENANT].map(number);
            assert_eq!(of_both.iter().sum::<usize>(), 1, "one takes the whole room");
            served = [served[0] + of_both[0], served[1] + of_both[1]];
        }
        assert_eq!(served, [2, 2]);
    }

    #[test]
    fn tenants_and_keys_beyond_a_report_come_next() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let tenants = (REPORT_TENANTS_MAX + 20) as u32;
        let keys = (REPORT_KEYS_MAX + 50) as u64;
        (1..=tenants).for_each(|id| buffer.count((TenantId(id), KEY), false, &[]));
        for key in 0..keys {
            buffer.count_request(OTHER_TENANT, KeyId(key.to_be_bytes()), Duration::ZERO, 0);
        }
        let counts = || {
            let reports = buffer.take(start, Timestamp(9), |_| 60 * SECOND);
            (reports.len(), reports.iter().map(|report| report.keys.len()).sum::<usize>())
        };
        assert_eq!(counts(), (REPORT_TENANTS_MAX, REPORT_KEYS_MAX));
        assert_eq!(counts(), (21, 50));
        assert_eq!(counts(), (0, 0));
    }

    #[test]
    fn keys_take_turns() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 0, 1_000);
        assert_eq!(recalls(&buffer, start).len(), 500);
        search(&buffer, OTHER_KEY, &ids(5_000, 20), 5, 0);
        let second = recalls(&buffer, start);
        assert_eq!(second.iter().filter(|(of, _)| *of >= id(5_000)).count(), 5);
        assert_eq!(second.len(), 500);
    }

    #[test]
    fn frequent_recalls_keep_no_others_waiting() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 0, 700);
        assert_eq!(recalls(&buffer, start).len(), 500);
        let waited = recalls(&buffer, start + SECOND);
        assert_eq!(waited.len(), 200);
        count(&buffer, 0, 700);
        // Those whose report is longest ago come first.
        let again = recalls(&buffer, start + 61 * SECOND);
        assert_eq!(again.len(), 500);
        assert_eq!(recalls(&buffer, start + 61 * SECOND), waited);
    }

    #[test]
    fn due_key_use_is_reported_alone() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        let keys = |at| report(&buffer, at).keys.len();
        buffer.count_request(TENANT, KEY, Duration::ZERO, 0);
        assert_eq!(keys(start), 1);
        buffer.count_request(TENANT, KEY, Duration::ZERO, 0);
        assert_eq!(keys(start + SECOND), 0);
        assert_eq!(keys(start + KEY_INTERVAL), 1);
    }

    #[test]
    fn requests_are_summed_until_reported() {
        let (buffer, start) = (RecallBuffer::default(), Instant::now());
        count(&buffer, 0, 0);
        buffer.count_request(TENANT, KEY, Duration::from_micros(30), 1);
        buffer.count_request(TENANT, KEY, Duration::from_micros(50), 0);
        let first = report(&buffer, start);
        assert_eq!((first.searches, first.searches_with_results), (1, 0));
        let usage =
            Usage { requests: 2, nodes_added: 1, latency_micros: 80, latency_max_micros: 50 };
        assert_eq!((first.usage, &first.keys[..]), (usage, &[(KEY, Timestamp(9))][..]));
        buffer.count_request(TENANT, KEY, Duration::from_micros(1), 0);
        let again = report(&buffer, start + SECOND);
        assert_eq!((again.usage.requests, again.keys.len()), (1, 0));
    }
}
