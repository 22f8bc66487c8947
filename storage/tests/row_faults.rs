//! A row without the one that is always written with it is found, and named with its tenant and id.

use storage::backup::examine;
use storage::model::edge::Edge;
use storage::model::receipt::{Receipt, Retention, WriteEffect};

use crate::common::*;

/// The changes that create a memory, of those that `keep` chooses.
fn partly_created(engine: &mut Engine, number: u16, keep: fn(&Change) -> bool) {
    // Another text than the others: an equal one would be looked at.
    let memory = new_memory(memory_id(number), &format!("part {number}"));
    let (_, mut batch) = engine.decide(2, &[create(memory)]);
    batch.changes.retain(keep);
    assert!(!batch.changes.is_empty());
    engine.apply(&batch);
}

fn apply(engine: &mut Engine, change: Change) {
    let (_, mut batch) = engine.decide(3, &[]);
    batch.changes.push(change);
    engine.apply(&batch);
}

#[test]
fn each_row_without_its_counterpart_is_named() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.fill(1, (0..3_u16).map(|number| new_memory(memory_id(number), "whole")));
    partly_created(&mut engine, 7, |change| matches!(change, Change::MemoryPut(..)));
    partly_created(&mut engine, 8, |change| matches!(change, Change::VectorPut(..)));
    let edge = Edge {
        source: memory_id(1_u16),
        target: memory_id(9_u16),
        relation: "knows".into(),
        weight: 1.0,
        created_at: Timestamp(3),
    };
    apply(&mut engine, Change::EdgePut(TENANT, edge));
    apply(&mut engine, Change::FiringsPut(TENANT, TriggerId([5; 16]), Firings::default()));
    apply(&mut engine, Change::KeyUsedPut(TENANT, KeyId([6; 8]), Timestamp(3)));
    let (at, retention) = (Timestamp(3), Retention::Day);
    let effect = WriteEffect::Memories(Vec::new());
    let receipt = Receipt { at, retention, body_hash: [8; 32], effect };
    apply(&mut engine, Change::ReceiptPut(TENANT, KeyId([6; 8]), [4; 32], receipt));
    // The receipt goes, and its place in the order of age stays.
    let removed = vec![(Timestamp(4), [4; 32])];
    apply(&mut engine, Change::ReceiptsRemoved(TENANT, KeyId([6; 8]), retention, removed));
    apply(&mut engine, Change::KeyUsedPut(TenantId(9), KeyId([6; 8]), Timestamp(3)));

    let folder = engine.folder().join("copy");
    engine.writer.flusher().checkpoint(&folder).unwrap();
    let faults = examine(&folder).unwrap().faults;
    let id = |number: u16| memory_id(number).to_string();
    let key = KeyId([6; 8]).to_string();
    let named: Vec<String> = faults.first.iter().map(ToString::to_string).collect();
    let receipt = format!("{}{}", "06".repeat(8), "01");
    let expected = [
        format!("Memory {} of tenant 1: it has no anchor", id(7)),
        format!("Vector {} of tenant 1: its memory is absent", id(8)),
        format!("KeyUsed {key} of tenant 1: its API key is absent"),
        format!("KeyUsed {key} of tenant 9: its API key is absent"),
        format!("Firings {} of tenant 1: its trigger is absent", TriggerId([5; 16])),
        format!("Edge {} of tenant 1: its memory is absent", id(9)),
        format!(
            "ReceiptAge {receipt}0000000000000003{} of tenant 1: its receipt is absent",
            "04".repeat(32)
        ),
        format!("KeyUsed {key} of tenant 9: its tenant is absent"),
    ];
    assert_eq!(named, expected);
    assert_eq!(faults.count, expected.len() as u64);
    engine.run(4, &[Command::of_cluster(Verify)]);
    engine.reader.verifier().wait_idle();
    assert_eq!(engine.reader.verifier().results().pop().unwrap().faults, Some(faults));
}
