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

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::model::analytics::{REPORT_RECALLS_MAX, ReturnedMemory, TenantReport, Usage};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp};

use crate::service::returned::{REPORT_FIRINGS_MAX, Returned, Waiting};

/// Most memories with recalls in the buffer: over all tenants, and of one tenant or key. At a limit the
/// reported ones are removed: their next recall is reported before the interval ends, and is then
/// counted only. If none is reported yet, further memories are dropped and counted.
const MEMORIES_MAX: usize = 50_000;
const TENANT_MEMORIES_MAX: usize = MEMORIES_MAX / 4 * 3;
/// Interval at which the use of a key is reported.
const KEY_INTERVAL: Duration = Duration::from_secs(300);

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

#[derive(Default)]
struct TenantContents {
    keys: BTreeMap<KeyId, KeyContents>,
    returned: Returned,
    /// When something of it was last reported.
    served_at: Option<Instant>,
    searches: u64,
    searches_with_results: u64,
    usage: Usage,
}

/// What one key has searched.
#[derive(Default)]
struct KeyContents {
    recalls: HashMap<MemoryId, Recalls>,
    /// When recalls were last reported: the others' turn comes first.
    recalls_at: Option<Instant>,
    /// Whether the key was used since its use was last reported.
    is_used: bool,
    use_reported: Option<Instant>,
}

/// Recalls of a memory.
#[derive(Default)]
struct Recalls {
    unreported: u32,
    reported: Option<Instant>,
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
        let mut tenant_memories = of_tenant.memories();
        of_tenant.searches += 1;
        of_tenant.searches_with_results += u64::from(!returned.is_empty());
        let of_key = of_tenant.keys.entry(key).or_default();
        for id in recalled {
            let has_room = *memories < MEMORIES_MAX && tenant_memories < TENANT_MEMORIES_MAX;
            if let Some(known) = of_key.recalls.get_mut(id) {
                known.unreported = known.unreported.saturating_add(1);
            } else if has_room {
                (*memories, tenant_memories) = (*memories + 1, tenant_memories + 1);
                of_key.recalls.insert(*id, Recalls { unreported: 1, reported: None });
            } else {
                *dropped += 1;
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
        of_tenant.usage.add(&Usage {
            requests: 1,
            nodes_added: added,
            latency_micros: micros,
            latency_max_micros: micros,
        });
        of_tenant.keys.entry(key).or_default().is_used = true;
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
        let (mut recalls, mut returned) = (BTreeMap::new(), BTreeMap::new());
        contents.divide(REPORT_RECALLS_MAX, TenantContents::unreported, |id, of_tenant, room| {
            recalls.insert(id, of_tenant.take_recalls(now, interval(id), room));
        });
        let firings = |of_tenant: &TenantContents| of_tenant.returned.firings();
        contents.divide(REPORT_FIRINGS_MAX, firings, |id, of_tenant, room| {
            returned.insert(id, of_tenant.returned.take(now, room));
        });
        let mut reports = Vec::new();
        for (tenant, of_tenant) in &mut contents.tenants {
            let recalls = recalls.remove(tenant).unwrap_or_default();
            let returned = returned.remove(tenant).unwrap_or_default();
            let is_served = !recalls.is_empty() || !returned.is_empty();
            of_tenant.served_at = if is_served { Some(now) } else { of_tenant.served_at };
            reports.extend(of_tenant.take(*tenant, now, clock, recalls, returned));
        }
        // Tenants that are idle cost no further report anything.
        contents.tenants.retain(|_, of_tenant| !of_tenant.is_empty());
        contents.memories = contents.tenants.values().map(TenantContents::memories).sum();
        contents.swept = false;
        reports
    }
}

impl Contents {
    /// Divides the room of a report among all tenants: each gets an equal part of what those that
    /// need less leave (max-min fairness). `needs` is what a tenant could take. If there is not
    /// room for all, those that were served longest ago come first.
    fn divide(
        &mut self,
        mut room: usize,
        needs: impl Fn(&TenantContents) -> usize,
        mut take: impl FnMut(TenantId, &mut TenantContents, &mut usize),
    ) {
        let needy = self.tenants.values().filter(|of_tenant| needs(of_tenant) > 0).count();
        let is_scarce = needy > room;
        let mut tenants: Vec<_> = self.tenants.iter_mut().collect();
        tenants.sort_by_key(|(_, of_tenant)| match (is_scarce, needs(of_tenant)) {
            (true, needed) => (needed == 0, of_tenant.served_at, 0),
            (false, needed) => (false, None, needed),
        });
        let count = tenants.len();
        for (at, (tenant, of_tenant)) in tenants.into_iter().enumerate() {
            let part = (room / (count - at)).max(1).min(room);
            let mut rest = part;
            take(*tenant, of_tenant, &mut rest);
            room -= part - rest;
        }
    }

    /// Removes the reported memories if `count` more have no room, once per report.
    fn make_room(&mut self, tenant: TenantId, count: usize) {
        let of_tenant = self.tenants.get(&tenant).map_or(0, TenantContents::memories);
        let has_room =
            self.memories + count <= MEMORIES_MAX && of_tenant + count <= TENANT_MEMORIES_MAX;
        if has_room || self.swept {
            return;
        }
        for of_key in self.tenants.values_mut().flat_map(|it| it.keys.values_mut()) {
            of_key.recalls.retain(|_, known| known.unreported > 0);
        }
        self.memories = self.tenants.values().map(TenantContents::memories).sum();
        self.swept = true;
    }
}

impl TenantContents {
    /// Whether nothing is left of it after a report.
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.returned.is_empty()
    }

    /// Memories with recalls that are not reported yet.
    fn unreported(&self) -> usize {
        let recalls = self.keys.values().flat_map(|of_key| of_key.recalls.values());
        recalls.filter(|known| known.unreported > 0).count()
    }

    fn memories(&self) -> usize {
        self.keys.values().map(|of_key| of_key.recalls.len()).sum()
    }

    /// Takes recalls that are due: their last report is `interval` ago. Of each key, those that were
    /// never reported come first, then those whose report is longest ago, so that none waits for
    /// ever.
    fn take_recalls(
        &mut self,
        now: Instant,
        interval: Duration,
        room: &mut usize,
    ) -> Vec<(MemoryId, u32)> {
        let is_due = |known: &Recalls| known.reported.is_none_or(|at| now - at >= interval);
        let mut queues: Vec<_> = self
            .keys
            .iter()
            .map(|(key, of_key)| {
                let due = of_key.recalls.iter().filter(|(_, it)| it.unreported > 0 && is_due(it));
                let mut due: Vec<_> =
                    due.map(|(id, known)| (Reverse(known.reported), *id)).collect();
                // The last one is taken first.
                due.sort_unstable();
                (of_key.recalls_at, *key, due)
            })
            .collect();
        queues.sort_unstable_by_key(|(at, key, _)| (*at, *key));
        let mut counts = BTreeMap::new();
        while *room > 0 && queues.iter().any(|(_, _, due)| !due.is_empty()) {
            for (_, key, due) in &mut queues {
                let Some(of_key) = self.keys.get_mut(key).filter(|_| *room > 0) else { break };
                let Some((_, id)) = due.pop() else { continue };
                *room -= 1;
                of_key.recalls_at = Some(now);
                let reported = Recalls { unreported: 0, reported: Some(now) };
                let taken = of_key.recalls.insert(id, reported).unwrap_or_default();
                *counts.entry(id).or_insert(0_u32) += taken.unreported;
            }
        }
        for of_key in self.keys.values_mut() {
            // Those whose next recall is reported at once need not be kept.
            of_key.recalls.retain(|_, known| known.unreported > 0 || !is_due(known));
        }
        counts.into_iter().collect()
    }

    fn take(
        &mut self,
        tenant: TenantId,
        now: Instant,
        clock: Timestamp,
        recalls: Vec<(MemoryId, u32)>,
        returned: Vec<ReturnedMemory>,
    ) -> Option<TenantReport> {
        let mut keys = Vec::new();
        self.keys.retain(|key, of_key| {
            let is_due = |at: Option<Instant>| at.is_none_or(|at| now - at >= KEY_INTERVAL);
            if of_key.is_used && is_due(of_key.use_reported) {
                (of_key.is_used, of_key.use_reported) = (false, Some(now));
                keys.push((*key, clock));
            }
            !of_key.recalls.is_empty() || !is_due(of_key.use_reported)
        });
        let (searches, usage) =
            (std::mem::take(&mut self.searches), std::mem::take(&mut self.usage));
        let searches_with_results = std::mem::take(&mut self.searches_with_results);
        let has_content = !recalls.is_empty()
            || !returned.is_empty()
            || !keys.is_empty()
            || searches > 0
            || usage.requests > 0;
        has_content.then_some(TenantReport {
            tenant,
            recalls,
            returned,
            searches,
            searches_with_results,
            usage,
            keys,
            uses: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
