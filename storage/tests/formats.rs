//! The bytes of every record in the log and in the state. If a test fails here, the code no
//! longer reads the data of a released version. Append a new variant or a new format instead.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::codec::{Record, decode, encode};
use storage::model::access::{Policy, Rule, Rules};
use storage::model::analytics::{LastReport, RecallStats, Usage};
use storage::model::cluster::{BatchId, Cluster, GroupId, Member, Model, Position};
use storage::model::delivery::{Delivery, DeliveryId, DeliveryStage, Outbox};
use storage::model::edge::Edge;
use storage::model::heat::Anchor;
use storage::model::id::{MemoryId, TenantId, Timestamp, TriggerId};
use storage::model::journal::{
    AgentActivity, Cursor, DeliveryNext, Event, EventKind, FiredTrigger, FiringResult, MemoryField,
};
use storage::model::memory::{DecayClass, Memory, MemoryType};
use storage::model::receipt::{Receipt, WriteEffect};
use storage::model::tenant::{ApiKey, KeyId, Role, Tenant};
use storage::model::tick::{Stage, Tick};
use storage::model::trigger::{
    Firings, SealedSecret, Trigger, TriggerAction, TriggerActionKind, TriggerEvent, TriggerFilter,
};
use storage::model::vector::{ModelId, Vector};
use storage::{Batch, Change, Signal};

/// The bytes of a record without its format.
fn row<R: Record>(record: &R) -> String {
    hex::encode(&encode(record)[1..])
}

fn float(number: f64) -> String {
    hex::encode(number.to_le_bytes())
}

#[track_caller]
fn assert_bytes<R: Record + PartialEq + std::fmt::Debug>(record: &R, expected: &str) {
    let bytes = encode(record);
    assert_eq!(hex::encode(&bytes), expected, "{}", R::NAME);
    assert_eq!(&decode::<R>(&bytes).unwrap(), record);
}

fn memory() -> Memory {
    Memory {
        label: "ab".into(),
        memory_type: MemoryType::Fact,
        namespace: "n".into(),
        decay_class: DecayClass::Persistent,
        is_pinned: true,
        is_locked: false,
        is_flagged: true,
        min_heat: 0.5,
        key_points: vec!["k".into()],
        created_at: Timestamp(1),
        updated_at: Timestamp(300),
        archived_at: None,
    }
}

fn anchor() -> Anchor {
    Anchor {
        heat: 1.0,
        at: Timestamp(1_000_000),
        stability: 2.0,
        last_recall: Some(Timestamp(2)),
        recall_count: 3,
        tick_heat: 0.25,
    }
}

fn vector() -> Vector {
    Vector::quantise(ModelId([7; 8]), &[1.0, 0.0]).unwrap()
}

fn event() -> Event {
    Event {
        at: Timestamp(5),
        actor: Some(KeyId([4; 8])),
        subject: Some(MemoryId([3; 16])),
        namespace: "n".into(),
        kind: EventKind::Updated { fields: vec![MemoryField::Label] },
    }
}

fn api_key() -> ApiKey {
    ApiKey {
        name: "a".into(),
        role: Role::Admin,
        hash: [9; 32],
        namespace: None,
        created_at: Timestamp(1),
        last_used_at: None,
    }
}

fn cluster() -> Cluster {
    let model = Model { id: ModelId([7; 8]), name: "m".into(), dimension: 384 };
    Cluster { id: [1; 16], members: vec![Member::new(1, [2; 16])], model }
}

fn receipt() -> Receipt {
    Receipt { body_hash: [8; 32], effect: WriteEffect::Memories(vec![MemoryId([3; 16])]) }
}

fn tenant() -> Tenant {
    let (name, created_at) = ("t".into(), Timestamp(1));
    Tenant { name, created_at, memories_max: Some(10), thermo: Box::default() }
}

#[test]
fn row_bytes_are_fixed() {
    assert_bytes(&memory(), "0102616204016e020100010000003f01016b02fb580200");
    assert_bytes(&anchor(), "010000803ffc80841e00000000400104030000803e");
    assert_bytes(&vector(), "01070707070707070704003c0000");
    assert_bytes(&event(), &format!("010a01{}01{}016e010100", "04".repeat(8), "03".repeat(16)));
    assert_bytes(&api_key(), &format!("01016102{}000200", "09".repeat(32)));
    let model = format!("{}016dfb8001", "07".repeat(8));
    assert_bytes(&cluster(), &format!("01{}0101{}00{model}", "01".repeat(16), "02".repeat(16)));
    assert_bytes(&receipt(), &format!("01{}0001{}", "08".repeat(32), "03".repeat(16)));
    let position = Position {
        group: GroupId(0),
        index: 300,
        log_id: vec![1, 2],
        membership: vec![3],
        batch: BatchId { term: 4, counter: 5 },
        clock: Timestamp(6),
    };
    assert_bytes(&position, "0100fb2c01020102010304050c");
    // Six profiles of half-life, floor, gain and a switch, three class factors, then the
    // sections in order. Floats are IEEE 754 in 8 bytes, little-endian. Integers are varints.
    let mut expected = String::from("01017402010a");
    for (seconds, floor, gain) in [
        (86_400.0, 0.01, 1.5),
        (2_592_000.0, 0.05, 2.0),
        (7_776_000.0, 0.10, 1.8),
        (15_552_000.0, 0.05, 2.0),
        (31_536_000.0, 0.15, 2.5),
        (43_200.0, 0.01, 1.5),
    ] {
        expected += &(float(seconds) + &float(floor) + &float(gain) + "01");
    }
    let numbers = |all: &[f64]| -> String { all.iter().map(|number| float(*number)).collect() };
    expected += &numbers(&[0.5, 1.0, 2.0]);
    // Resonance, with its depth in third position. The tick's 60 s. The cold threshold and 20
    // cold memories. 200 memories and 50,000 characters. The recall gain and its 60 s. The
    // weights.
    expected += &(numbers(&[0.30, 0.50]) + "02" + &float(0.05) + "3c");
    expected += &(float(0.10) + "14c8fb50c3" + &float(0.1) + "3c");
    expected += &numbers(&[0.7, 0.3, 0.15, 0.4, 7.0, 0.1]);
    assert_bytes(&tenant(), &expected);
    // The configuration without the tenant's name, time and limit.
    let thermo = expected["01017402010a".len()..].to_owned();
    assert_bytes(&tick(), &format!("010206{thermo}04{thermo}0001{}", "03".repeat(16)));
    // Six counts of one byte and two sums of eight bytes, for each of six types.
    let of_type = format!("{}{}", "00".repeat(6), "00".repeat(16));
    assert_bytes(&stats(), &format!("01{}0706", of_type.repeat(6)));
    assert_bytes(&usage(), "01010203fbe803");
    assert_bytes(&last_report(), "010304");
    assert_bytes(&rules(), "010901030161016e010a");
    assert_bytes(&edge(), &format!("01{}{}01720000003f0c", "03".repeat(16), "04".repeat(16)));
}

fn tick() -> Tick {
    let thermo = Box::<storage::model::thermo::Thermo>::default();
    Tick {
        number: 2,
        from: Timestamp(3),
        thermo_from: thermo.clone(),
        until: Timestamp(2),
        thermo,
        stage: Stage::Evaluating(Some(MemoryId([3; 16]))),
    }
}

fn stats() -> RecallStats {
    RecallStats { searches: 7, searches_with_results: 6, ..RecallStats::default() }
}

fn usage() -> Usage {
    Usage { requests: 1, nodes_added: 2, latency_micros: 3, latency_max_micros: 1_000 }
}

fn last_report() -> LastReport {
    LastReport { boot: 3, number: 4 }
}

fn rules() -> Rules {
    let rule = Rule {
        number: 3,
        agent: "a".into(),
        namespace: "n".into(),
        policy: Policy::Deny,
        created_at: Timestamp(5),
    };
    Rules { last: 9, rules: vec![rule] }
}

fn edge() -> Edge {
    Edge {
        source: MemoryId([3; 16]),
        target: MemoryId([4; 16]),
        relation: "r".into(),
        weight: 0.5,
        created_at: Timestamp(6),
    }
}

fn trigger() -> Trigger {
    Trigger {
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
        owner: Some(KeyId([4; 8])),
        created_at: Timestamp(5),
        updated_at: Timestamp(6),
    }
}

fn firings() -> Firings {
    Firings { count: 1, total: 2, last_at: Some(Timestamp(3)) }
}

fn outbox() -> Outbox {
    Outbox { pending: 1, dead_letters: 2, dropped: 3 }
}

fn delivery() -> Delivery {
    Delivery {
        event: TriggerEvent::Store,
        trigger_name: "n".into(),
        fired_at: Timestamp(1),
        memory: MemoryId([3; 16]),
        namespace: "s".into(),
        label: "l".into(),
        memory_type: MemoryType::Fact,
        heat: 1.0,
        attempts: 2,
        attempts_before: 1,
        reason: "r".into(),
        stage: DeliveryStage::Pending(Timestamp(4)),
    }
}

#[test]
fn trigger_and_delivery_bytes_are_fixed() {
    let one = float(1.0);
    let key = "04".repeat(8);
    assert_bytes(
        &trigger(),
        &format!("0102016e01640302010173010400010170 01{one}00 010304 0101{key} 0a0c")
            .replace(' ', ""),
    );
    assert_bytes(&firings(), "0101020106");
    assert_bytes(&outbox(), "01010203");
    let memory = "03".repeat(16);
    assert_bytes(&delivery(), &format!("0100016e02{memory}0173016c04{one}020101720008"));
}

/// A record with a single value.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Single<T>(T);

impl<T: Serialize + DeserializeOwned> Record for Single<T> {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "value";
}

/// Asserts that each value is stored as its position in this list.
fn assert_positions<T: Copy + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    values: &[T],
) {
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
    assert_positions(&[
        MemoryField::Label,
        MemoryField::MemoryType,
        MemoryField::Namespace,
        MemoryField::DecayClass,
        MemoryField::IsPinned,
        MemoryField::IsLocked,
        MemoryField::FlaggedForReview,
        MemoryField::MinHeat,
        MemoryField::CurrentHeat,
    ]);
    use TriggerEvent::{Boost, Decay, Recall, Relate, Store, Threshold};
    assert_positions(&[Store, Recall, Decay, Boost, Relate, Threshold]);
    let sealed = || SealedSecret(vec![9]);
    for (action, bytes) in [
        (TriggerAction::Notify { template: Some("t".into()) }, "00010174".to_owned()),
        (TriggerAction::Boost { strength: 0.5 }, format!("01{}", float(0.5))),
        (TriggerAction::Pin, "02".into()),
        (TriggerAction::Tag { tag: None }, "0300".into()),
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
    let (other, relation) = (MemoryId([3; 16]), "r".to_owned());
    let id = "03".repeat(16);
    let delivery = DeliveryId { trigger: TriggerId([0xaa; 16]), number: 7 };
    let d = format!("{}07", "aa".repeat(16));
    let fired = |result: FiringResult| {
        EventKind::TriggerFired(Box::new(FiredTrigger {
            trigger: TriggerId([0xaa; 16]),
            trigger_name: "n".into(),
            event: TriggerEvent::Boost,
            action: TriggerActionKind::Tag,
            label: "l".into(),
            result,
        }))
    };
    let f = |result: &str| format!("0b{}016e0303016c{result}", "aa".repeat(16));
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
        (EventKind::Updated { fields: vec![MemoryField::MinHeat] }, "010107".into()),
        (EventKind::Deleted { label: "l".into() }, "02016c".into()),
        (EventKind::Archived, "03".into()),
        (EventKind::Restored, "04".into()),
        (EventKind::Cooled, "05".into()),
        (EventKind::Warmed, "06".into()),
        (EventKind::Feedback { signal: Signal::Wrong }, "0703".into()),
        (EventKind::EdgeCreated { other, relation: relation.clone() }, format!("08{id}0172")),
        (EventKind::EdgeDeleted { other, relation }, format!("09{id}0172")),
        (EventKind::Activity(activity), "0a01610101740002".to_owned() + "7b7d"),
        (fired(FiringResult::HeatChanged { from: 0.5, to: 1.0 }), f(&format!("00{half}{one}"))),
        (fired(FiringResult::Pinned), f("01")),
        (fired(FiringResult::AlreadyPinned), f("02")),
        (fired(FiringResult::Tagged { tag: "g".into() }), f("030167")),
        (fired(FiringResult::AlreadyTagged), f("04")),
        (fired(FiringResult::NoTagWords), f("05")),
        (fired(FiringResult::NoTagRoom), f("06")),
        (fired(FiringResult::Notified { message: "m".into() }), f("07016d")),
        (fired(FiringResult::Enqueued { delivery }), f(&format!("08{d}"))),
        (fired(FiringResult::Dropped), f("09")),
        (EventKind::Delivered { delivery, attempt: 2, status: 204 }, format!("0c{d}02cc")),
        (failed(DeliveryNext::Retry { after_micros: 1 }), format!("0d{d}0201720002")),
        (failed(DeliveryNext::DeadLettered), format!("0d{d}02017201")),
        (failed(DeliveryNext::TriggerDisabled), format!("0d{d}02017202")),
        (EventKind::FiringsSkipped { count: 3 }, "0e03".into()),
    ];
    for (kind, bytes) in kinds {
        assert_bytes(&Single(kind), &format!("01{bytes}"));
    }
    assert_bytes(
        &Single(WriteEffect::Trigger(TriggerId([0xaa; 16]))),
        &format!("0101{}", "aa".repeat(16)),
    );
}

#[test]
fn change_bytes_are_fixed() {
    let (t, id) = (TenantId(1), MemoryId([3; 16]));
    let ids = "03".repeat(16);
    let (a, aa) = (TriggerId([0xaa; 16]), "aa".repeat(16));
    let d = DeliveryId { trigger: a, number: 7 };
    let changes: Vec<(Change, String)> = vec![
        (Change::ClusterPut(cluster()), format!("00{}", row(&cluster()))),
        (Change::TenantPut(t, tenant()), format!("0101{}", row(&tenant()))),
        (
            Change::ApiKeyPut(t, KeyId([4; 8]), api_key()),
            format!("0201{}{}", "04".repeat(8), row(&api_key())),
        ),
        (Change::MemoryPut(t, id, memory()), format!("0301{ids}{}", row(&memory()))),
        (Change::AnchorPut(t, id, anchor()), format!("0401{ids}{}", row(&anchor()))),
        (Change::VectorPut(t, id, vector()), format!("0501{ids}{}", row(&vector()))),
        (Change::MemoryRemoved(t, id), format!("0601{ids}")),
        (
            Change::ReceiptPut(t, 20, [5; 32], receipt()),
            format!("070114{}{}", "05".repeat(32), row(&receipt())),
        ),
        (Change::ReceiptsDropped(t, 21), "080115".into()),
        (Change::EventAppended(t, event()), format!("0901{}", row(&event()))),
        (Change::EventsTrimmed(t, Cursor::new(22, 1)), "0a01001601".into()),
        (Change::VerifyMark(7), "0b07".into()),
        (Change::TickPut(t, tick()), format!("0c01{}", row(&tick()))),
        (Change::RecallStatsPut(t, stats()), format!("0d01{}", row(&stats()))),
        (Change::UsagePut(t, 24_322, usage()), format!("0e01fb025f{}", row(&usage()))),
        (Change::LastReportPut(2, last_report()), "0f020304".into()),
        (Change::EdgePut(t, edge()), format!("1001{}", row(&edge()))),
        (Change::ApiKeyRemoved(t, KeyId([4; 8])), format!("1201{}", "04".repeat(8))),
        (Change::RulesPut(t, rules()), format!("1301{}", row(&rules()))),
        (Change::TriggerPut(t, a, trigger()), format!("1401{aa}{}", row(&trigger()))),
        (Change::TriggerRemoved(t, a), format!("1501{aa}")),
        (Change::FiringsPut(t, a, firings()), format!("1601{aa}{}", row(&firings()))),
        (Change::OutboxPut(t, outbox()), format!("1701{}", row(&outbox()))),
        (
            Change::DeliveryPut(t, d, delivery(), Some(DeliveryStage::DeadLettered(Timestamp(2)))),
            format!("1801{aa}07{}010104", row(&delivery())),
        ),
        (
            Change::DeliveryRemoved(t, d, DeliveryStage::Pending(Timestamp(2))),
            format!("1901{aa}070004"),
        ),
        (
            Change::EdgeRemoved(t, id, MemoryId([4; 16]), [5; 8]),
            format!("1101{ids}{}{}", "04".repeat(16), "05".repeat(8)),
        ),
    ];
    for (change, bytes) in changes {
        let batch = Batch {
            id: BatchId { term: 2, counter: 3 },
            after: BatchId { term: 1, counter: 9 },
            stamp: Timestamp(-1),
            changes: vec![change],
        };
        assert_bytes(&batch, &format!("01020301090101{bytes}"));
    }
}
