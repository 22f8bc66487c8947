//! The bytes of the records of a memory, in the log and in the state.

use storage::model::edge::Edge;
use storage::model::guard::{Detection, GuardAction, GuardMark};
use storage::model::heat::Anchor;
use storage::model::receipt::{Receipt, Retention, TouchedId, WriteEffect};
use storage::model::times::Times;
use storage::model::tombstone::{Tombstone, Tombstones};
use storage::model::versions::{Version, Versions};

use crate::common::*;
use crate::formats::*;

#[test]
fn memory_bytes_are_fixed() {
    let memory = Memory {
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
        superseded_by: None,
        echo_of: Some(OTHER),
        origin: Origin {
            key: Some(KEY),
            agent: Some("a".into()),
            client: Some("b".into()),
            tool: None,
        },
        changed_by: Some(Editor { key: KEY, agent: "e".into() }),
        locked_by: Some(KEY),
        folded_from: vec![OTHER],
        details: None,
        times: Times {
            occurred_at: Some(Timestamp(-1)),
            valid_from: Some(Timestamp(2)),
            valid_until: Some(Timestamp(3)),
            superseded_at: Some(Timestamp(4)),
            expires_at: Some(Timestamp(5)),
            ttl_seconds: Some(6),
            refresh_on_read: true,
        }
        .some(),
        external_id: Some("x".into()),
        guard: GuardMark::default().with(Detection::Email, GuardAction::Flag),
    };
    let details =
        Details { tags: vec!["t".into()], metadata: vec![("a".into(), "1".into())] }.some();
    let state = Memory { archived_at: Some(Timestamp(400)), details, ..memory.clone() }.state();
    let bytes = "0102616204016e020100010000003f01016b02fb58020000 01o01k01016101016200 01k016501k01o00 01 0101 0104 0106 0108 010a 0106 01 010178 24";
    assert_row(memory, bytes, |row| Change::MemoryPut(TENANT, MEMORY, row), "0301m");
    let bytes = "01020100010000003ffb580201fb20030001o 01k016501k 01010174 0101610131 01 0101 0104 0106 0108 010a 0106 01 24";
    assert_row(state, bytes, |row| Change::MemoryStatePut(TENANT, MEMORY, row), "2601m");
}

#[test]
fn bytes_of_past_texts_are_fixed() {
    let author = Some(Editor { key: KEY, agent: "e".into() });
    let (from, until) = (Timestamp(1), Timestamp(300));
    let past = vec![Version { label: "a".into(), author: None, from, until }];
    let versions = Versions { past, author, since: Some(until) };
    let bytes = "0101016100 02fb5802 01k0165 01fb5802";
    assert_row(versions, bytes, |row| Change::VersionsPut(TENANT, MEMORY, row), "2701m");
}

#[test]
fn bytes_of_tombstones_are_fixed() {
    let tombstone = Tombstone { value: [1; 16], namespace: [2; 8], author: Some(KEY) };
    let row = Tombstones(vec![tombstone]);
    let put = |row| Change::TombstonesPut(TENANT, 1, row);
    assert_row(row, &format!("0101{}{}01k", "01".repeat(16), "02".repeat(8)), put, "280101");
}

#[test]
fn parts_of_memories_have_fixed_bytes() {
    let anchor = Anchor {
        stability: 2.0,
        last_recall: Some(Timestamp(2)),
        returned_at: Some(Timestamp(3)),
        recall_count: 3,
        tick_heat: 0.25,
        ..Anchor::fresh(1.0, Timestamp(1_000_000))
    };
    let bytes = "010000803ffc80841e000000004001040106030000803e";
    assert_row(anchor, bytes, |row| Change::AnchorPut(TENANT, MEMORY, row), "0401m");
    let vector = Vector::quantise(ModelId([7; 8]), &[1.0, 0.0]).unwrap();
    let bytes = "01070707070707070704003c0000";
    assert_row(vector, bytes, |row| Change::VectorPut(TENANT, MEMORY, row), "0501m");
    let edge = Edge {
        source: MEMORY,
        target: OTHER,
        relation: "r".into(),
        weight: 0.5,
        created_at: Timestamp(6),
    };
    assert_row(edge, "01mo01720000003f0c", |row| Change::EdgePut(TENANT, row), "1001");
    let event = Event {
        at: Timestamp(5),
        actor: Some(KEY),
        subject: Some(MEMORY),
        namespace: "n".into(),
        kind: EventKind::Updated(vec![MemoryField::Label]),
    };
    let bytes = "010a01k01m016e010100";
    assert_row(event.clone(), bytes, |row| Change::EventAppended(TENANT, row), "0901");
    let replace = |row| Change::EventReplaced(TENANT, Cursor::new(22, 1), row);
    assert_row(event, bytes, replace, "1a01001601");
    let (at, retention) = (Timestamp(6), Retention::Day);
    let effect = WriteEffect::Memories(vec![TouchedId { id: MEMORY, is_duplicate: false }]);
    let receipt = Receipt { at, retention, body_hash: [8; 32], effect };
    let (bytes, prefix) = (format!("010c01{}0001m00", "08".repeat(32)), "05".repeat(32));
    let put = |row| Change::ReceiptPut(TENANT, KEY, [5; 32], row);
    assert_row(receipt.clone(), &bytes, put, &format!("0701k{prefix}"));
    let replace = |row| Change::ReceiptReplaced(TENANT, KEY, [5; 32], row);
    assert_row(receipt, &bytes, replace, &format!("1b01k{prefix}"));
}
