//! The bytes of every record in the log and in the state. If a test fails here, the code no
//! longer reads the data of a released version. Append a new variant or a new format instead.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::codec::{Record, decode, encode};
use storage::model::access::{Policy, Rule, Rules};
use storage::model::analytics::{LastReports, RecallStats, Usage};
use storage::model::api_key::{ApiKey, FormerText};
use storage::model::audit::{
    AuditAct, AuditAction, AuditActor, AuditChain, AuditEnds, AuditEntry, KeyUse, KeyUses,
};
use storage::model::cluster::{BatchId, Cluster, GroupId, Member, Model, Position};
use storage::model::cluster::{Models, NextModel, VectorPlace};
use storage::model::guard::{Guard, GuardAction, GuardPattern, GuardRule};
use storage::model::id::{KeyId, TenantId};
use storage::model::receipt::{Retention, WriteEffect};
use storage::model::release::Release;
use storage::model::retention::{RetentionAction, RetentionRule};
use storage::model::tenant::{Limit, Role, Tenancy, Tenant, TenantState, Tier};
use storage::model::tick::{Stage, Tick};

use crate::common::*;

pub const MEMORY: MemoryId = MemoryId([3; 16]);
pub const OTHER: MemoryId = MemoryId([4; 16]);
pub const KEY: KeyId = KeyId([4; 8]);
pub const TRIGGER: TriggerId = TriggerId([0xaa; 16]);
pub const DELIVERY: DeliveryId = DeliveryId { trigger: TRIGGER, number: 7 };

/// The bytes of a text in which `m`, `o`, `k` and `t` are the ids above. Spaces have no meaning.
pub fn with_ids(text: &str) -> String {
    let text = text.replace('m', &"03".repeat(16)).replace('o', &"04".repeat(16));
    text.replace('k', &"04".repeat(8)).replace('t', &"aa".repeat(16)).replace(' ', "")
}

pub fn float(number: f64) -> String {
    hex::encode(number.to_le_bytes())
}

#[track_caller]
pub fn assert_bytes<R: Record + PartialEq + Debug>(record: &R, expected: &str) {
    let bytes = encode(record);
    assert_eq!(hex::encode(&bytes), with_ids(expected), "{}", R::NAME);
    assert_eq!(&decode::<R>(&bytes).unwrap(), record);
}

/// Asserts the bytes of a change, in a batch.
#[track_caller]
pub fn assert_change(change: Change, expected: &str) {
    let batch = Batch {
        id: BatchId { term: 2, counter: 3 },
        after: BatchId { term: 1, counter: 9 },
        stamp: Timestamp(-1),
        changes: vec![change],
    };
    assert_bytes(&batch, &format!("01020301090101{expected}"));
}

/// Asserts the bytes of a row, and of the change that puts it: `prefix`, and the row without the
/// byte of its format.
#[track_caller]
pub fn assert_row<R: Record + PartialEq + Debug>(
    record: R,
    expected: &str,
    put: impl FnOnce(R) -> Change,
    prefix: &str,
) {
    assert_bytes(&record, expected);
    assert_change(put(record), &format!("{prefix}{}", &expected[2..]));
}

#[test]
fn cluster_and_tenant_bytes_are_fixed() {
    let model = Model::new(ModelId([7; 8]), "m".into(), 384);
    let (members, release) =
        (vec![Member::new(1, [2; 16])], Release { level: 3, version: (4, 5, 6) });
    let cluster = Cluster { id: [1; 16], members, model, restored: None, release };
    let (id, incarnation, model) = ("01".repeat(16), "02".repeat(16), "07".repeat(8));
    let bytes = format!("01{id}0101{incarnation}00{model}016dfb8001000003040506");
    assert_row(cluster.clone(), &bytes, Change::ClusterPut, "00");
    let next = NextModel {
        model: cluster.model,
        folder: "f".into(),
        started_at: Timestamp(2),
        is_switching: true,
        forced: false,
        ready: vec![1, 2],
    };
    let models = Models { place: VectorPlace::Second, next: Some(next) };
    let bytes = format!("010101{}016dfb80010001660401000201 02", "07".repeat(8));
    assert_row(models, &bytes, Change::ModelsPut, "22");
    let position = Position {
        group: GroupId(0),
        index: 300,
        log_id: vec![1, 2],
        membership: vec![3],
        batch: BatchId { term: 4, counter: 5 },
        clock: Timestamp(6),
    };
    assert_bytes(&position, "0100fb2c01020102010304050c");
    let key = ApiKey {
        name: "a".into(),
        role: Role::Admin,
        hash: [9; 32],
        former: Some(FormerText { hash: [8; 32], valid_until: Timestamp(2) }),
        namespace: None,
        namespaces: vec!["n".into()],
        created_at: Timestamp(1),
        rotated_at: None,
        expires_at: Some(Timestamp(3)),
    };
    let bytes = format!("01016102{}01{}040001016e02000106", "09".repeat(32), "08".repeat(32));
    assert_row(key, &bytes, |row| Change::ApiKeyPut(TENANT, KEY, row), "0201k");
    let rule = Rule {
        number: 3,
        agent: "a".into(),
        namespace: "n".into(),
        policy: Policy::Deny,
        created_at: Timestamp(5),
    };
    let rules = Rules { last: 9, rules: vec![rule] };
    assert_row(rules, "010901030161016e010a", |row| Change::RulesPut(TENANT, row), "1301");
    // Seven counts of one byte and two sums of eight bytes, for each of six types.
    let stats = RecallStats { searches: 7, searches_with_results: 6, ..RecallStats::default() };
    let bytes = format!("01{}0706", "00".repeat((7 + 16) * 6));
    assert_row(stats, &bytes, |row| Change::RecallStatsPut(TENANT, row), "0d01");
    let usage = Usage { requests: 1, nodes_added: 2, latency_micros: 3, latency_max_micros: 1_000 };
    let put = |row| Change::UsagePut(TENANT, 24_322, row);
    assert_row(usage, "01010203fbe803", put, "0e01fb025f");
    let mut last = LastReports::default();
    last.add(3, 4);
    assert_row(last, "01010304", |row| Change::LastReportPut(2, row), "0f02");
}

#[test]
fn audit_bytes_are_fixed() {
    let act = AuditAct {
        at: Timestamp(5),
        actor: AuditActor::Key { id: KEY, name: "a".into(), role: Role::Admin },
        source: Some("192.0.2.7".parse().unwrap()),
        action: AuditAction::RuleChange,
        target: "x".into(),
        before: [("b".into(), "c".into())].into(),
        after: Default::default(),
    };
    let entry = AuditEntry { number: 3, act, previous: [8; 32], hash: [9; 32] };
    let ends =
        AuditEnds { first: 2, first_at: Timestamp(4), anchor: [7; 32], last: 3, head: [9; 32] };
    let [seven, eight, nine] = ["07", "08", "09"].map(|byte| byte.repeat(32));
    let act = "0a 00k0161 02 0100c0000207 05 0178 010162 0163 00".replace(' ', "");
    let (entry_bytes, ends_bytes) =
        (format!("03{act}{eight}{nine}"), format!("0208{seven}03{nine}"));
    assert_bytes(&entry, &format!("01{entry_bytes}"));
    assert_bytes(&ends, &format!("01{ends_bytes}"));
    let append = Change::AuditAppended(TENANT, AuditChain::Data, entry, ends.clone());
    assert_change(append, &format!("1e0101{entry_bytes}{ends_bytes}"));
    let trim = Change::AuditTrimmed(TENANT, AuditChain::Administration, ends);
    assert_change(trim, &format!("1f0100{ends_bytes}"));
    let kind =
        KeyUse { network: "192.0.2.7".parse().unwrap(), client: "c".into(), role: Role::Reader };
    let put = |row| Change::KeyUsesPut(TENANT, KEY, row);
    assert_row(KeyUses(vec![(kind, Timestamp(4))]), "010100c000020701630008", put, "2001k");
    assert_row(Timestamp(4), "0108", |at| Change::KeyUsedPut(TENANT, KEY, at), "2101k");
    for (position, action) in (0_u8..).zip(AuditAction::ALL) {
        assert_bytes(&Single(action), &format!("01{position:02x}"));
    }
}

#[test]
fn configuration_bytes_are_fixed() {
    // Six profiles of half-life, floor, gain and a switch, three class factors, then the
    // sections in order. Floats are IEEE 754 in 8 bytes, little-endian. Integers are varints.
    let numbers = |all: &[f64]| -> String { all.iter().map(|number| float(*number)).collect() };
    let mut thermo = String::new();
    for profile in [
        [86_400.0, 0.01, 1.5],
        [2_592_000.0, 0.05, 2.0],
        [7_776_000.0, 0.10, 1.8],
        [15_552_000.0, 0.05, 2.0],
        [31_536_000.0, 0.15, 2.5],
        [43_200.0, 0.01, 1.5],
    ] {
        thermo += &(numbers(&profile) + "01");
    }
    thermo += &numbers(&[0.5, 1.0, 2.0]);
    // Resonance, with its depth in third position. The tick's 60 s. The cold threshold, 30 days
    // and 100,000 memories. 200 memories and 50,000 characters. The recall gain, its 60 s,
    // 5 results and half the score. The weights.
    thermo += &(numbers(&[0.30, 0.50]) + "02" + &float(0.05) + "3c");
    thermo += &(numbers(&[0.10, 30.0]) + "fca0860100c8fb50c3" + &float(0.1) + "3c05" + &float(0.5));
    thermo += &numbers(&[0.7, 0.3, 0.15, 0.4, 7.0, 0.1, 0.5, 0.3]);
    // Duplicates are allowed; their lowest similarity and overlap, and the 600 s of echoes.
    thermo += &("00".to_owned() + &numbers(&[0.95, 0.8]) + "fb5802");
    let (name, created_at) = ("t".into(), Timestamp(1));
    let tenant = Tenant {
        name,
        created_at,
        state: TenantState::Suspended,
        tier: "f".into(),
        limits: [(Limit::Memories, Some(10)), (Limit::Bytes, None)].into(),
        thermo: Box::default(),
        webhook_hosts: vec!["h".into()],
        guards_locked: true,
        retention: vec![RetentionRule {
            namespace: Some("n".into()),
            memory_type: Some(MemoryType::Fact),
            action: RetentionAction::Delete,
            after_days: 30,
        }],
        guard: Guard {
            version: 1,
            rules: vec![GuardRule {
                namespace: Some("g".into()),
                secrets: GuardAction::Redact,
                patterns: vec![GuardPattern {
                    name: "p".into(),
                    pattern: "x".into(),
                    action: GuardAction::Block,
                }],
                ..GuardRule::default()
            }],
        },
    };
    let bytes = format!(
        "0101740201016602 01010a 0200{thermo}0101016e0104011e 01016801 010101016702000001 010170017804"
    );
    assert_row(tenant, &bytes.replace(' ', ""), |row| Change::TenantPut(TENANT, row), "0101");
    let limits = [(Limit::Edges, 300)].into();
    let tier = Tier { name: "f".into(), limits, is_default: true };
    let tenancy = Tenancy { last: TenantId(2), tiers: vec![tier] };
    assert_row(tenancy, "01020101660106fb2c0101", Change::TenancyPut, "1c");
    assert_change(Change::TenantRemoved(TenantId(2)), "1d02");
    let tick = Tick {
        number: 2,
        from: Timestamp(3),
        thermo_from: Box::default(),
        until: Timestamp(2),
        thermo: Box::default(),
        stage: Stage::Evaluating(Some(MEMORY)),
    };
    let bytes = format!("010206{thermo}04{thermo}0001m");
    assert_row(tick, &bytes, |row| Change::TickPut(TENANT, row), "0c01");
}

#[test]
fn trigger_and_delivery_bytes_are_fixed() {
    let one = float(1.0);
    let trigger = Trigger {
        number: 2,
        name: "n".into(),
        description: "d".into(),
        event: TriggerEvent::Boost,
        action: TriggerAction::Pin,
        namespace: Some("s".into()),
        filter: TriggerFilter {
            memory_type: Some(MemoryType::Fact),
            namespace: None,
            label_pattern: Some("p".into()),
            heat_below: Some(1.0),
            heat_above: None,
        },
        max_fires: Some(3),
        cooldown_seconds: 4,
        enabled: true,
        owner: Some(KEY),
        created_at: Timestamp(5),
        updated_at: Timestamp(6),
    };
    let bytes = format!("0102016e01640302010173010400010170 01{one}00 010304 0101k 0a0c");
    assert_row(trigger, &bytes, |row| Change::TriggerPut(TENANT, TRIGGER, row), "1401t");
    let firings = Firings { count: 1, total: 2, last_at: Some(Timestamp(3)), pending: 4 };
    assert_row(firings, "010102010604", |row| Change::FiringsPut(TENANT, TRIGGER, row), "1601t");
    let outbox = Outbox { pending: 1, dead_letters: 2, dropped: 3 };
    assert_row(outbox, "01010203", |row| Change::OutboxPut(TENANT, row), "1701");
    let delivery = Delivery {
        event: TriggerEvent::Store,
        trigger_name: "n".into(),
        fired_at: Timestamp(1),
        memory: MEMORY,
        namespace: "s".into(),
        label: "l".into(),
        memory_type: MemoryType::Fact,
        heat: 1.0,
        attempts: 2,
        attempts_before: 1,
        reason: "r".into(),
        stage: DeliveryStage::Pending(Timestamp(4)),
    };
    let bytes = format!("00016e02m0173016c04{one}020101720008");
    assert_bytes(&delivery, &format!("01{bytes}"));
    let before = Some(DeliveryStage::DeadLettered(Timestamp(2)));
    let put = Change::DeliveryPut(TENANT, DELIVERY, delivery, before);
    assert_change(put, &format!("1801t07{bytes}010104"));
}

/// A record with a single value.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Single<T>(T);

impl<T: Serialize + DeserializeOwned> Record for Single<T> {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "value";
}

/// Asserts that each value is stored as its position in this list.
fn assert_positions<T: Copy + Serialize + DeserializeOwned + PartialEq + Debug>(values: &[T]) {
    for (position, value) in (0_u8..).zip(values) {
        assert_bytes(&Single(*value), &format!("01{position:02x}"));
    }
}

#[test]
fn variant_bytes_are_fixed() {
    use DecayClass::{Normal, Permanent, Persistent, Volatile};
    use MemoryType::{Episodic, Fact, Moment, Preference, Procedural, Semantic};
    assert_positions(&[Episodic, Semantic, Preference, Procedural, Fact, Moment]);
    assert_positions(&[Volatile, Normal, Persistent, Permanent]);
    assert_positions(&[Role::Reader, Role::Agent, Role::Admin, Role::Operator]);
    assert_positions(&Signal::ALL);
    assert_positions(&TriggerActionKind::ALL);
    use MemoryField::{CurrentHeat, FlaggedForReview, IsLocked, IsPinned, Label, MinHeat};
    let first = [Label, MemoryField::MemoryType, MemoryField::Namespace, MemoryField::DecayClass];
    let others = [IsPinned, IsLocked, FlaggedForReview, MinHeat, CurrentHeat];
    let last = [MemoryField::Tags, MemoryField::Metadata];
    assert_positions(&[&first[..], &others, &last].concat());
    use TriggerEvent::{Boost, Decay, Recall, Relate, Store, Threshold};
    assert_positions(&[Store, Recall, Decay, Boost, Relate, Threshold]);
    let sealed = || SealedSecret(vec![9]);
    for (action, bytes) in [
        (TriggerAction::Notify(Some("t".into())), "00010174".to_owned()),
        (TriggerAction::Boost(0.5), format!("01{}", float(0.5))),
        (TriggerAction::Pin, "02".into()),
        (TriggerAction::Tag(None), "0300".into()),
        (TriggerAction::Deprecate, "04".into()),
        (
            TriggerAction::Webhook {
                url: "u".into(),
                secret: Some(sealed()),
                retiring: Some((sealed(), Timestamp(3))),
            },
            "05017501010901010906".into(),
        ),
    ] {
        assert_bytes(&Single(action), &format!("01{bytes}"));
    }
}

#[test]
fn event_bytes_are_fixed() {
    let (other, relation, delivery) = (MEMORY, "r".to_owned(), DELIVERY);
    let fired = |result: FiringResult| {
        EventKind::TriggerFired(Box::new(FiredTrigger {
            trigger: TRIGGER,
            trigger_name: "n".into(),
            event: TriggerEvent::Boost,
            action: TriggerActionKind::Tag,
            label: "l".into(),
            result,
        }))
    };
    let f = |result: &str| format!("0bt016e0303016c{result}");
    let failed =
        |next| EventKind::DeliveryFailed { delivery, attempt: 2, reason: "r".into(), next };
    let activity = AgentActivity {
        action: "a".into(),
        target_id: Some("t".into()),
        target_label: None,
        metadata: "{}".into(),
    };
    let (half, one) = (float(0.5), float(1.0));
    let kinds = [
        (EventKind::Created, "00".into()),
        (EventKind::Updated(vec![MemoryField::MinHeat]), "010107".into()),
        (EventKind::Deleted("l".into()), "02016c".into()),
        (EventKind::Archived, "03".into()),
        (EventKind::Restored, "04".into()),
        (EventKind::Cooled, "05".into()),
        (EventKind::Warmed, "06".into()),
        (EventKind::Feedback(Signal::Wrong), "0703".into()),
        (EventKind::EdgeCreated { other, relation: relation.clone() }, "08m0172".into()),
        (EventKind::EdgeDeleted { other, relation }, "09m0172".into()),
        (EventKind::Activity(activity), "0a016101017400027b7d".into()),
        (fired(FiringResult::HeatChanged { from: 0.5, to: 1.0 }), f(&format!("00{half}{one}"))),
        (fired(FiringResult::Pinned), f("01")),
        (fired(FiringResult::AlreadyPinned), f("02")),
        (fired(FiringResult::Tagged("g".into())), f("030167")),
        (fired(FiringResult::AlreadyTagged), f("04")),
        (fired(FiringResult::NoTagWords), f("05")),
        (fired(FiringResult::NoTagRoom), f("06")),
        (fired(FiringResult::Notified("m".into())), f("07016d")),
        (fired(FiringResult::Enqueued(delivery)), f("08t07")),
        (fired(FiringResult::Dropped), f("09")),
        (EventKind::Delivered { delivery, attempt: 2, status: 204 }, "0ct0702cc".into()),
        (failed(DeliveryNext::Retry(1)), "0dt070201720002".into()),
        (failed(DeliveryNext::DeadLettered), "0dt0702017201".into()),
        (failed(DeliveryNext::TriggerDisabled), "0dt0702017202".into()),
        (EventKind::FiringsSkipped(3), "0e03".into()),
    ];
    for (kind, bytes) in kinds {
        assert_bytes(&Single(kind), &format!("01{bytes}"));
    }
    assert_bytes(&Single(WriteEffect::Trigger(TRIGGER)), "0101t");
}

#[test]
fn change_bytes_are_fixed() {
    let pending = DeliveryStage::Pending(Timestamp(2));
    let edge = format!("1101mo{}", "05".repeat(8));
    let receipts = vec![(Timestamp(4), [5; 32])];
    let removed = Change::ReceiptsRemoved(TENANT, KEY, Retention::Hour, receipts);
    for (change, bytes) in [
        (Change::MemoryRemoved(TENANT, MEMORY), "0601m"),
        (removed, &format!("0801k000108{}", "05".repeat(32))),
        (Change::EventsTrimmed(TENANT, JournalPart::Others, Cursor::new(22, 1)), "0a0101001601"),
        (Change::VerifyMark(7), "0b07"),
        (Change::EdgeRemoved(TENANT, MEMORY, OTHER, [5; 8]), &edge),
        (Change::ApiKeyRemoved(TENANT, KEY), "1201k"),
        (Change::TriggerRemoved(TENANT, TRIGGER), "1501t"),
        (Change::DeliveryRemoved(TENANT, DELIVERY, pending), "1901t070004"),
        (Change::VectorRemoved(VectorPlace::Second, TENANT, MEMORY), "240101m"),
        (Change::VectorsRemoved(VectorPlace::First), "2500"),
    ] {
        assert_change(change, bytes);
    }
}
