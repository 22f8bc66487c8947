//! Reports of nodes: each is recorded as a whole, and no tenant takes the part of others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use storage::model::analytics::{
    REPORT_KEYS_MAX, REPORT_RECALLS_MAX, REPORT_TENANTS_MAX, REPORT_USES_MAX, Report,
    ReturnedMemory, TenantReport, Usage,
};
use storage::model::api_key::{KEY_NAME_BYTES_MAX, KEY_NAMESPACES_MAX, NewApiKey};
use storage::model::audit::{AuditAction, AuditChain, KEY_USES_MAX, KeyUse};
use storage::model::details::METADATA_BYTES_MAX;
use storage::model::memory::LABEL_BYTES_MAX;
use storage::model::memory::ORIGIN_BYTES_MAX;
use storage::model::tenant::Role;
use storage::{AuditRequest, BATCH_BYTES, COMMAND_BYTES_MAX};

use crate::common::*;

const OTHER: TenantId = TenantId(2);
const RECALL: TriggerEvent = TriggerEvent::Recall;

fn of_tenant(tenant: TenantId, action: impl Into<TenantAction>) -> Command {
    Command::of_tenant(tenant, action)
}

/// The keys that were used, with the times.
fn uses(engine: &Engine) -> BTreeMap<KeyId, Timestamp> {
    let keys = engine.reader.keys_after(TENANT, None, usize::MAX).unwrap().into_iter();
    keys.filter_map(|(id, _, used)| Some((id, used?))).collect()
}

fn create_tenants(engine: &mut Engine, last: u32) {
    for id in 2..=last {
        let key = KeyId(u64::from(id).to_be_bytes());
        engine.run(1, &[create_tenant(&format!("tenant {id}"), "enterprise", key)]);
    }
}

/// A key with names as long as they may be.
fn large_key() -> NewApiKey {
    let namespaces = (0..KEY_NAMESPACES_MAX).map(|number| format!("{number:0128}"));
    NewApiKey {
        namespaces: namespaces.collect(),
        ..api_key(&"n".repeat(KEY_NAME_BYTES_MAX), Role::Reader)
    }
}

/// A kind of use of the longest form. Each is of a network of its own.
fn kind(number: u64) -> KeyUse {
    let network = IpAddr::V6(Ipv6Addr::from((u128::from(number) + 1) << 64 | 0xffff << 96));
    KeyUse { network, client: "c".repeat(ORIGIN_BYTES_MAX), role: Role::Reader }
}

fn key_id(number: u64) -> KeyId {
    KeyId((1_000_000 + number).to_be_bytes())
}

#[test]
fn largest_report_is_recorded() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    create_tenants(&mut engine, REPORT_TENANTS_MAX as u32);
    // Each use is of a key that has the most kinds of use, and finds its oldest ones old.
    let keys = (0..REPORT_USES_MAX as u64).map(key_id);
    for id in keys.clone() {
        engine.run(2, &[command(CreateKey { id, key: large_key() })]);
    }
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    for known in 0..KEY_USES_MAX as u64 {
        let uses = keys.clone().map(|id| (id, kind(known))).collect();
        engine.run(3, &[report_uses(next(), uses)]);
    }
    // Every recall warms many neighbours.
    let memories: Vec<_> = (0..65_u8).map(memory_id).collect();
    engine.fill(3, memories.iter().map(|id| new_memory(*id, &format!("memory {id}"))));
    for (at, source) in memories.iter().enumerate() {
        for target in memories.iter().skip(at + 1).take(16) {
            let relation = "related_to".into();
            let edge = EdgeRef { source: *source, target: *target, relation };
            engine.run(3, &[command(CreateEdge(edge))]);
        }
    }
    let usage = Usage { requests: u64::MAX / 2, latency_micros: u64::MAX / 2, ..Usage::default() };
    let counts = |tenant| TenantReport { searches: 1, usage, ..TenantReport::empty(tenant) };
    let mut tenants: Vec<_> = (1..=REPORT_TENANTS_MAX as u32).map(TenantId).map(counts).collect();
    let recalled = (0..REPORT_RECALLS_MAX).map(|at| (memories[at % memories.len()], 1));
    let used = (0..REPORT_KEYS_MAX).map(|at| key_id((at % REPORT_USES_MAX) as u64));
    tenants[0].recalls = recalled.collect();
    tenants[0].keys = used.map(|id| (id, Timestamp(4))).collect();
    tenants[0].uses = keys.clone().map(|id| (id, kind(1_000))).collect();
    // Each of its owners fires on a memory with the longest label, before all others.
    tenants[0].returned = (0..30).map(|number| waiting_memory(&mut engine, number)).collect();
    let day_after = 2 * Timestamp::DAY_MICROS;
    let (decisions, batch) = engine.decide(day_after, &[report_of(next(), tenants)]);
    assert_eq!(decisions, [Ok(Reply::Done(()))]);
    let bytes = codec::encode(&batch).len();
    assert!((BATCH_BYTES..COMMAND_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    let fired = batch.changes.iter().filter(|it| matches!(it, Change::FiringsPut(..))).count();
    assert!((1..10).contains(&fired), "{fired} owners have fired");
    engine.apply(&batch);
    let action = Some(AuditAction::KeyUse);
    let request = AuditRequest { limit: usize::MAX, action, ..AuditRequest::default() };
    let page = engine.reader.audit(TENANT, AuditChain::Data, &request).unwrap();
    assert_eq!(page.entries.len(), REPORT_USES_MAX * (KEY_USES_MAX + 1));
    assert_eq!(uses(&engine).len(), REPORT_USES_MAX);
}

/// A large memory, and a key whose trigger changes its text.
fn waiting_memory(engine: &mut Engine, number: u64) -> ReturnedMemory {
    let (key, id) = (key_id(5_000 + number), memory_id(5_000 + number));
    let label = format!("{number} {}", "x".repeat(LABEL_BYTES_MAX - 20));
    let tag = trigger(RECALL, TriggerAction::Tag(Some("seen".into())));
    let by_key = CreateTrigger { id: TriggerId(id.0), trigger: Box::new(tag) };
    engine.run(
        3,
        &[
            command(CreateKey { id: key, key: api_key("owner", Role::Agent) }),
            create(new_memory(id, &label)),
            Command { actor: Some(key), ..command(by_key) },
        ],
    );
    ReturnedMemory { owner: Some(key), id, times: 1 }
}

/// Advances the tick of a tenant.
fn tick(engine: &mut Engine, tenant: TenantId, at: i64) {
    while engine.run(at, &[of_tenant(tenant, AdvanceTick(None))])
        == [Reply::Progress(Progress::Partial)]
    {}
}

#[test]
fn large_recalls_of_some_tenants_leave_turns() {
    const TENANTS: u32 = 24;
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let metadata = vec![("k".to_owned(), format!("\"{}\"", "x".repeat(METADATA_BYTES_MAX - 10)))];
    let details = Details { metadata, ..Details::default() }.some();
    create_tenants(&mut engine, TENANTS);
    let tenants = (1..=TENANTS).map(TenantId);
    for tenant in tenants.clone() {
        for name in ["consolidation.active_index_max", "consolidation.archive_after_days"] {
            let zero = SettingValue::Number(0.0);
            engine.run(2, &[of_tenant(tenant, UpdateSettings(vec![(name.into(), zero)]))]);
        }
    }
    let mut warmed = std::collections::BTreeSet::new();
    for number in 1..=u64::from(TENANTS) {
        let id = memory_id(number);
        let start = 100 * number as i64 * Timestamp::DAY_MICROS;
        for tenant in tenants.clone() {
            // A recall restores a cold memory with much metadata, whatever the part of its tenant.
            let memory = new_memory(id, &number.to_string());
            let memory = NewMemory { details: details.clone(), ..memory };
            let create = of_tenant(tenant, CreateMemories(vec![memory]));
            let patch = MemoryPatch { current_heat: Some(0.0), ..MemoryPatch::default() };
            let cool = of_tenant(tenant, UpdateMemory { id, patch: patch.into() });
            engine.run(start, &[create, cool]);
            tick(&mut engine, tenant, start + Timestamp::DAY_MICROS);
            tick(&mut engine, tenant, start + 2 * Timestamp::DAY_MICROS);
            let memory = engine.reader.memory(tenant, id).unwrap().unwrap();
            assert!(memory.archived_at.is_some());
        }
        let recall =
            |tenant| TenantReport { recalls: vec![(id, 1)], ..TenantReport::empty(tenant) };
        let report = report_of(number, tenants.clone().map(recall).collect());
        engine.run(start + 3 * Timestamp::DAY_MICROS, &[report]);
        let is_warm = |tenant: &TenantId| {
            engine.reader.memory(*tenant, id).unwrap().is_some_and(|it| it.archived_at.is_none())
        };
        let restored: Vec<_> = tenants.clone().filter(is_warm).collect();
        assert!(restored.len() < TENANTS as usize, "there is room for all");
        warmed.extend(restored);
    }
    assert_eq!(warmed.len(), TENANTS as usize, "{warmed:?}");
}

#[test]
fn last_use_of_a_key_is_small() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let ids = (0..100).map(key_id);
    for id in ids.clone() {
        engine.run(1, &[command(CreateKey { id, key: large_key() })]);
    }
    let used = |number, at| {
        let keys = ids.clone().map(|id| (id, Timestamp(at))).collect();
        report_of(number, vec![TenantReport { keys, ..TenantReport::empty(TENANT) }])
    };
    let (_, batch) = engine.decide(2, &[used(1, 7)]);
    assert!(codec::encode(&batch).len() < 64 * ids.clone().count());
    engine.apply(&batch);
    engine.run(3, &[used(2, 5), command(DeleteKey(key_id(0)))]);
    let latest = uses(&engine);
    assert_eq!((latest.len(), latest[&key_id(1)]), (99, Timestamp(7)), "the latest one");
    engine.run(4, &[used(3, 9)]);
    let latest = uses(&engine);
    assert_eq!((latest.len(), latest[&key_id(1)]), (99, Timestamp(9)), "not of a deleted key");
}

/// A tenant's memory, and a trigger that waits until it is recalled.
fn create_waiting(engine: &mut Engine, tenant: TenantId, label: &str, triggers: &[Trigger]) {
    let memory = new_memory(memory_id(tenant.0), label);
    engine.run(2, &[of_tenant(tenant, CreateMemories(vec![memory]))]);
    for (number, trigger) in triggers.iter().enumerate() {
        let id = TriggerId((u128::from(tenant.0) << 64 | number as u128).to_be_bytes());
        engine
            .run(2, &[of_tenant(tenant, CreateTrigger { id, trigger: Box::new(trigger.clone()) })]);
    }
}

fn returned(tenant: TenantId, times: u32) -> TenantReport {
    let returned = vec![ReturnedMemory { owner: None, id: memory_id(tenant.0), times }];
    TenantReport { returned, ..TenantReport::empty(tenant) }
}

/// How often the first trigger of a tenant has fired.
fn firings(engine: &Engine, tenant: TenantId) -> u64 {
    let first = TriggerId((u128::from(tenant.0) << 64).to_be_bytes());
    engine.reader.firings(tenant, first).count
}

/// The events of skipped firings of a tenant.
fn skipped(engine: &Engine, tenant: TenantId) -> Vec<u64> {
    let page = engine.reader.journal(tenant, None, 10_000, |_| Ok(true)).unwrap();
    let skipped = page.events.into_iter().filter_map(|(_, event)| match event.kind {
        EventKind::FiringsSkipped(count) => Some(count),
        _ => None,
    });
    skipped.collect()
}

#[test]
fn evaluations_of_one_tenant_leave_room_for_others() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    create_tenants(&mut engine, 2);
    // 2,000 patterns, all of whose short parts a long label contains: two million evaluations.
    let letters = |seed: u64, count: u64| -> String {
        (0..count).map(|at| if random(seed + at).is_multiple_of(2) { 'a' } else { 'b' }).collect()
    };
    let label = letters(0, 32_000);
    let pattern = |number: u64| {
        let label_pattern = Some(letters(100_000 * (number + 1), 48));
        let filter = TriggerFilter { label_pattern, ..TriggerFilter::default() };
        Trigger { filter, ..trigger(RECALL, TriggerAction::Notify(None)) }
    };
    create_waiting(&mut engine, TENANT, &label, &(0..2_000).map(pattern).collect::<Vec<_>>());
    create_waiting(&mut engine, OTHER, "fox", &[trigger(RECALL, TriggerAction::Notify(None))]);
    engine.run(3, &[report_of(1, vec![returned(TENANT, 1), returned(OTHER, 1)])]);
    assert_eq!(firings(&engine, OTHER), 1);
    assert_eq!(skipped(&engine, TENANT).len(), 1, "the patterns exceed the part of their tenant");
}

/// A process that ended may have sent a report that arrives after those of the next process.
#[test]
fn late_duplicate_of_an_older_process_counts_once() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let report = |boot, number| {
        let tenant = TenantReport { searches: 1, ..TenantReport::empty(TENANT) };
        let report = Report { node: 1, boot, number, tenants: vec![tenant] };
        Command::of_cluster(RecordReport(report))
    };
    for (boot, number, searches) in
        [(1, 1, 1), (1, 2, 2), (2, 1, 3), (1, 2, 3), (1, 1, 3), (2, 1, 3)]
    {
        engine.run(1, &[report(boot, number)]);
        let counted = engine.reader.recall_stats(TENANT).unwrap().searches;
        assert_eq!(counted, searches, "report {number} of process {boot}");
    }
}

#[test]
fn tenants_without_results_take_no_part() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    create_tenants(&mut engine, 200);
    let notify = TriggerAction::Notify(Some("x".repeat(1_000)));
    create_waiting(&mut engine, TENANT, "fox", &[trigger(RECALL, notify)]);
    let idle =
        (2..=200).map(|id| TenantReport { searches: 1, ..TenantReport::empty(TenantId(id)) });
    let tenants = std::iter::once(returned(TENANT, 50)).chain(idle).collect();
    engine.run(3, &[report_of(1, tenants)]);
    assert_eq!(firings(&engine, TENANT), 50);
}

#[test]
fn kinds_of_use_take_no_room_from_recalls() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    create_tenants(&mut engine, 2);
    let keys = (0..REPORT_USES_MAX as u64).map(key_id);
    for id in keys.clone() {
        engine.run(1, &[command(CreateKey { id, key: large_key() })]);
    }
    for known in 0..60 {
        let uses = keys.clone().map(|id| (id, kind(known))).collect();
        engine.run(2, &[report_uses(1 + known, uses)]);
    }
    create_waiting(&mut engine, OTHER, "fox", &[]);
    let uses = keys.map(|id| (id, kind(60))).collect();
    let recalls = vec![(memory_id(OTHER.0), 1)];
    let tenants = vec![
        TenantReport { uses, ..TenantReport::empty(TENANT) },
        TenantReport { recalls, ..TenantReport::empty(OTHER) },
    ];
    engine.run(2 + Timestamp::DAY_MICROS, &[report_of(61, tenants)]);
    assert_eq!(
        engine.reader.recall_stats(OTHER).unwrap().types.map(|of| of.warmings).iter().sum::<u64>(),
        1
    );
}
