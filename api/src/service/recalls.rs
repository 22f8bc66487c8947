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

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::EqualParts;
use storage::model::analytics::{REPORT_TENANTS_MAX, TenantReport, Usage};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp};

use crate::service::recall_counts::{Needs, PART_MAX, PARTS, Part, TenantContents};
use crate::service::returned::Waiting;

/// Most memories with recalls in the buffer: over all tenants, and of one tenant or key. At a limit the
/// reported ones are removed: their next recall is reported before the interval ends, and is then
/// counted only. If none is reported yet, further memories are dropped and counted.
const MEMORIES_MAX: usize = 50_000;
const TENANT_MEMORIES_MAX: usize = MEMORIES_MAX / 4 * 3;

/// Returned memories, requests and key uses since the last report.
#[derive(Default)]
pub(crate) struct RecallBuffer(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    tenants: BTreeMap<TenantId, TenantContents>,
    /// Memories with recalls, of all tenants.
    memories: usize,
    /// Whether reported memories were removed since the last report.
    swept: bool,
    dropped: u64,
}

impl RecallBuffer {
    /// Counts a search of a key, and the memories that it returned. Those of `recalled` are recalls.
    /// All are kept for the triggers that wait for each.
    pub(crate) fn count(
        &self,
        (tenant, key): (TenantId, KeyId),
        returned: &[(MemoryId, &Waiting)],
        recalled: &[MemoryId],
    ) {
        let mut contents = self.0.lock();
        contents.make_room(tenant, recalled.len());
        let Contents { tenants, memories, dropped, .. } = &mut *contents;
        let of_tenant = tenants.entry(tenant).or_default();
        of_tenant.searches += 1;
        of_tenant.searches_with_results += u64::from(!returned.is_empty());
        for id in recalled {
            let has_room = *memories < MEMORIES_MAX && of_tenant.memories < TENANT_MEMORIES_MAX;
            match of_tenant.count(key, *id, has_room) {
                Some(is_new) => *memories += usize::from(is_new),
                None => *dropped += 1,
            }
        }
        let pushed =
            returned.iter().map(|(id, waiting)| of_tenant.returned.push(key, *id, waiting));
        *dropped += pushed.sum::<u64>();
    }

    /// Counts a request of a key, the time that it took, and the memories that it created.
    pub(crate) fn count_request(&self, tenant: TenantId, key: KeyId, took: Duration, added: u64) {
        let mut contents = self.0.lock();
        let of_tenant = contents.tenants.entry(tenant).or_default();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usage = Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        };
        of_tenant.count_request(key, &usage);
    }

    /// Recalls and results that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Takes what is due for a report at `now`, as much as it has room for: writes wait while the
    /// leader decides it. `interval` returns a tenant's `recall_min_interval`.
    pub(crate) fn take(
        &self,
        now: Instant,
        clock: Timestamp,
        interval: impl Fn(TenantId) -> Duration,
    ) -> Vec<TenantReport> {
        let mut contents = self.0.lock();
        let due = contents.due(now, &interval);
        let mut reports: BTreeMap<_, _> =
            due.iter().map(|(id, _)| (*id, TenantReport::empty(*id))).collect();
        contents.divide(now, &due, Part::Recalls, |of_tenant, id, room| {
            let recalls = of_tenant.take_recalls(now, interval(id), room);
            let count = recalls.len();
            reports.entry(id).and_modify(|report| report.recalls = recalls);
            count
        });
        contents.divide(now, &due, Part::Firings, |of_tenant, id, room| {
            let (returned, firings) = of_tenant.returned.take(now, room);
            reports.entry(id).and_modify(|report| report.returned = returned);
            firings
        });
        contents.divide(now, &due, Part::Keys, |of_tenant, id, room| {
            let keys = of_tenant.take_keys(now, clock, room);
            let count = keys.len();
            reports.entry(id).and_modify(|report| report.keys = keys);
            count
        });
        for (id, report) in &mut reports {
            if let Some(of_tenant) = contents.tenants.get_mut(id) {
                of_tenant.take_counts(now, report);
            }
        }
        contents.remove_idle(now, &interval);
        let is_empty = |report: &TenantReport| *report == TenantReport::empty(report.tenant);
        reports.into_values().filter(|report| !is_empty(report)).collect()
    }
}

impl Contents {
    /// The tenants that a report may include, with what each needs of it. If there are too many,
    /// those that were reported longest ago.
    fn due(
        &self,
        now: Instant,
        interval: &impl Fn(TenantId) -> Duration,
    ) -> Vec<(TenantId, Needs)> {
        let mut due: Vec<_> = self
            .tenants
            .iter()
            .map(|(id, of_tenant)| (of_tenant, *id, of_tenant.needs(now, interval(*id))))
            .filter(|(of_tenant, _, needs)| *needs != [0; PARTS] || of_tenant.has_counts())
            .collect();
        if due.len() > REPORT_TENANTS_MAX {
            due.sort_by_key(|(of_tenant, ..)| of_tenant.reported_at);
            due.truncate(REPORT_TENANTS_MAX);
        }
        due.into_iter().map(|(_, id, needs)| (id, needs)).collect()
    }

    /// Divides a part of a report among the tenants that need some of it. Those that need no more
    /// than an equal part come first, then those that had some longest ago: what cannot be divided
    /// may take the room of others, so they take turns. `take` returns how much it took.
    fn divide(
        &mut self,
        now: Instant,
        due: &[(TenantId, Needs)],
        part_of: Part,
        mut take: impl FnMut(&mut TenantContents, TenantId, usize) -> usize,
    ) {
        let at = part_of as usize;
        let mut needs: Vec<_> = due.iter().map(|(id, needs)| (needs[at], *id)).collect();
        needs.retain(|(needed, _)| *needed > 0);
        let room = PART_MAX[at];
        let equal = room / needs.len().max(1);
        needs.sort_by_key(|(needed, id)| match *needed > equal {
            true => (Some(self.tenants[id].served[at]), 0),
            false => (None, *needed),
        });
        let mut parts = EqualParts::new(room, needs.len());
        for (_, id) in needs {
            let part = parts.part().max(1).min(parts.left());
            let Some(of_tenant) = self.tenants.get_mut(&id).filter(|_| part > 0) else { break };
            let taken = take(of_tenant, id, part);
            if taken > 0 {
                of_tenant.served[at] = Some(now);
            }
            parts.spend(taken);
        }
    }

    /// Removes what no further report needs, so that idle tenants cost nothing.
    fn remove_idle(&mut self, now: Instant, interval: &impl Fn(TenantId) -> Duration) {
        self.tenants.retain(|id, of_tenant| {
            of_tenant.remove_idle(now, interval(*id));
            !of_tenant.is_idle()
        });
        self.memories = self.tenants.values().map(|of_tenant| of_tenant.memories).sum();
        self.swept = false;
    }

    /// Removes the reported memories if `count` more have no room, once per report.
    fn make_room(&mut self, tenant: TenantId, count: usize) {
        let of_tenant = self.tenants.get(&tenant).map_or(0, |of_tenant| of_tenant.memories);
        let has_room =
            self.memories + count <= MEMORIES_MAX && of_tenant + count <= TENANT_MEMORIES_MAX;
        if has_room || self.swept {
            return;
        }
        self.tenants.values_mut().for_each(TenantContents::remove_reported);
        self.memories = self.tenants.values().map(|of_tenant| of_tenant.memories).sum();
        self.swept = true;
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
        let waiting = if triggers > 0 { Waiting::from([(None, triggers)]) } else { Waiting::new() };
        let returned: Vec<_> = ids.iter().map(|id| (*id, &waiting)).collect();
        buffer.count((TENANT, key), &returned, &ids[..recalled.min(ids.len())]);
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
        assert_eq!(buffer.0.lock().memories, 0, "nothing is kept for ever");
        assert!(buffer.0.lock().tenants.is_empty());
    }

    #[test]
    fn excess_recalls_are_dropped_and_counted() {
        let buffer = RecallBuffer::default();
        count(&buffer, 0, TENANT_MEMORIES_MAX + 5);
        assert_eq!(buffer.dropped(), 5);
        assert_eq!(recalls(&buffer, Instant::now()).len(), REPORT_RECALLS_MAX);
        let ids = ids(1 << 40, MEMORIES_MAX);
        buffer.count((OTHER_TENANT, OTHER_KEY), &[], &ids);
        let reported = REPORT_RECALLS_MAX;
        assert_eq!(buffer.dropped() as usize, 5 + TENANT_MEMORIES_MAX - reported);
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
        let waiting = Waiting::from([(None, 20)]);
        let returned: Vec<_> = ids(1, 100).into_iter().map(|id| (id, &waiting)).collect();
        let mut quiet = Vec::new();
        for round in 0..3 {
            let all = ids(1_000 * round, 1_000);
            buffer.count((TENANT, KEY), &returned, &all);
            let one = Waiting::from([(None, 1)]);
            buffer.count((OTHER_TENANT, OTHER_KEY), &[(id(7), &one)], &[id(7_000 + round)]);
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
                let waiting = Waiting::from([(None, 300)]);
                buffer.count((tenant, KEY), &[(id(1), &waiting)], &[]);
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
        (1..=tenants).for_each(|id| buffer.count((TenantId(id), KEY), &[], &[]));
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
