//! Promises of the recall buffer to tenants and keys.

use storage::model::analytics::ReturnedMemory;

use super::*;
use crate::service::recall_counts::{KEY_INTERVAL, LAST_REPORT_ROOM, REPORT_ROOM};

const RECALLS: usize = REPORT_ROOM[ReportPart::Recalls as usize];
const KEYS: usize = REPORT_ROOM[ReportPart::Keys as usize];
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
fn search(buffer: &RecallBuffer, key: KeyId, ids: &[MemoryId], recalled: usize, triggers: usize) {
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

fn take(buffer: &RecallBuffer, at: Instant) -> Vec<TenantReport> {
    buffer.take(at, Timestamp(9), &REPORT_ROOM, |_| 60 * SECOND).tenants
}

fn report(buffer: &RecallBuffer, at: Instant) -> TenantReport {
    take(buffer, at).into_iter().next().unwrap_or_else(|| TenantReport::empty(TENANT))
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
    assert_eq!(recalls(&buffer, Instant::now()).len(), RECALLS);
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
    let recalled = |_| {
        let reports = take(&buffer, Instant::now());
        let of_third = reports.iter().find(|report| report.tenant == third);
        of_third.map_or(0, |report| report.recalls.len())
    };
    assert_eq!((0..2).map(recalled).sum::<usize>(), TENANT_MEMORIES_FEW);
    buffer.count((third, KEY), true, &ids(1 << 40, TENANT_MEMORIES_FEW));
    assert_eq!(buffer.dropped(), 1, "the reported ones make room");
}

#[test]
fn reported_ones_of_the_largest_make_room() {
    let (buffer, start) = (RecallBuffer::default(), Instant::now());
    buffer.count((OTHER_TENANT, KEY), true, &ids(0, 1_000));
    count(&buffer, 0, TENANT_MEMORIES_MAX - 1_000);
    while !take(&buffer, start).is_empty() {}
    assert_eq!(buffer.memories.load(Ordering::Relaxed), TENANT_MEMORIES_MAX);
    buffer.count((OTHER_TENANT, OTHER_KEY), true, &ids(0, 1));
    take(&buffer, start);
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
        let reports = take(&buffer, start + SECOND);
        let other = reports.into_iter().find(|report| report.tenant == OTHER_TENANT);
        quiet.push(other.map(|other| (other.recalls.len(), other.returned.len())));
    }
    assert_eq!(quiet, [Some((1, 1)); 3], "it never waits");
}

#[test]
fn expensive_results_leave_room_for_other_tenants() {
    let (buffer, start) = (RecallBuffer::default(), Instant::now());
    let mut served = [0, 0];
    for round in 1..5 {
        for tenant in [TENANT, OTHER_TENANT] {
            find(&buffer, (tenant, KEY), &[id(1)], 300);
        }
        let reports = take(&buffer, start + round * SECOND);
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
    let keys = (KEYS + 50) as u64;
    (1..=tenants).for_each(|id| buffer.count((TenantId(id), KEY), false, &[]));
    for key in 0..keys {
        buffer.count_request(OTHER_TENANT, KeyId(key.to_be_bytes()), Duration::ZERO, 0);
    }
    let counts = || {
        let reports = take(&buffer, start);
        (reports.len(), reports.iter().map(|report| report.keys.len()).sum::<usize>())
    };
    assert_eq!(counts(), (REPORT_TENANTS_MAX, KEYS));
    assert_eq!(counts(), (21, 50));
    assert_eq!(counts(), (0, 0));
}

#[test]
fn keys_take_turns() {
    let (buffer, start) = (RecallBuffer::default(), Instant::now());
    count(&buffer, 0, 1_000);
    assert_eq!(recalls(&buffer, start).len(), RECALLS);
    search(&buffer, OTHER_KEY, &ids(5_000, 20), 5, 0);
    let second = recalls(&buffer, start);
    assert_eq!(second.iter().filter(|(of, _)| *of >= id(5_000)).count(), 5);
    assert_eq!(second.len(), RECALLS);
}

#[test]
fn frequent_recalls_keep_no_others_waiting() {
    let (buffer, start) = (RecallBuffer::default(), Instant::now());
    count(&buffer, 0, RECALLS + 20);
    assert_eq!(recalls(&buffer, start).len(), RECALLS);
    let waited = recalls(&buffer, start + SECOND);
    assert_eq!(waited.len(), 20);
    count(&buffer, 0, RECALLS + 20);
    // Those whose report is longest ago come first.
    let again = recalls(&buffer, start + 61 * SECOND);
    assert_eq!(again.len(), RECALLS);
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
    let usage = Usage { requests: 2, nodes_added: 1, latency_micros: 80, latency_max_micros: 50 };
    assert_eq!((first.usage, &first.keys[..]), (usage, &[(KEY, Timestamp(9))][..]));
    buffer.count_request(TENANT, KEY, Duration::from_micros(1), 0);
    let again = report(&buffer, start + SECOND);
    assert_eq!((again.usage.requests, again.keys.len()), (1, 0));
}

/// Its room is used up, so the next report follows soon.
#[test]
fn full_reports_are_marked() {
    let (buffer, now, clock) = (RecallBuffer::default(), Instant::now(), Timestamp(9));
    let is_full = || buffer.take(now, clock, &REPORT_ROOM, |_| 60 * SECOND).is_full;
    count(&buffer, 0, RECALLS + 1);
    assert_eq!([is_full(), is_full()], [true, false]);
    find(&buffer, (TENANT, KEY), &ids(0, 3), 20);
    assert_eq!([is_full(), is_full()], [true, false]);
    count(&buffer, 1_000, RECALLS + 1);
    let last = buffer.take(now, clock, &LAST_REPORT_ROOM, |_| Duration::ZERO);
    assert_eq!((last.tenants[0].recalls.len(), last.is_full), (RECALLS + 1, false));
}
