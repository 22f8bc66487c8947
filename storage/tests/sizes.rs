//! Commands of the largest size that the interface permits are decided, not rejected as too large.

use storage::model::memory::{KEY_POINT_BYTES_MAX, KEY_POINTS_MAX, LABEL_BYTES_MAX, Memory};
use storage::model::vector::Vector;

use crate::common::*;

/// Memories that one folds at most.
const FOLDED: u32 = 16;

fn key_points() -> Vec<String> {
    vec!["k".repeat(KEY_POINT_BYTES_MAX); KEY_POINTS_MAX]
}

/// A label of the largest size, or of a small one. It begins with its number.
fn label(number: u32, bytes: usize) -> String {
    format!("{number:05}{}", "x".repeat(bytes - 5))
}

fn large(number: u32) -> NewMemory {
    let memory = new_memory(memory_id(number), &label(number, LABEL_BYTES_MAX));
    NewMemory { key_points: key_points(), ..memory }
}

fn fold_of(sources: u32) -> Command {
    let folds = (0..sources).map(memory_id).collect();
    create(NewMemory { folds, ..large(1_000) })
}

fn memory(engine: &Engine, number: u32) -> Memory {
    engine.reader.memory(TENANT, memory_id(number)).unwrap().unwrap()
}

#[test]
fn largest_fold_and_unfold_fit() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    (0..FOLDED).for_each(|number| drop(engine.run(1, &[create(large(number))])));
    engine.run(2, &[fold_of(FOLDED)]);
    assert!((0..FOLDED).all(|number| memory(&engine, number).superseded_by.is_some()));
    engine.run(3, &[command(Unfold(memory_id(1_000_u32)))]);
    assert!((0..FOLDED).all(|number| memory(&engine, number).superseded_by.is_none()));
}

#[test]
fn fold_is_undone_after_labels_grew() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    for number in 0..FOLDED {
        let small = new_memory(memory_id(number), &label(number, 100));
        engine.run(1, &[create(NewMemory { key_points: key_points(), ..small })]);
    }
    engine.run(2, &[fold_of(FOLDED)]);
    for number in 0..FOLDED {
        let text = label(number, LABEL_BYTES_MAX);
        let vector: Vector = vector(&text);
        let patch = MemoryPatch { label: Some((text, vector)), ..MemoryPatch::default() };
        engine.run(3, &[command(UpdateMemory { id: memory_id(number), patch: patch.into() })]);
    }
    engine.run(4, &[command(Unfold(memory_id(1_000_u32)))]);
    assert!((0..FOLDED).all(|number| memory(&engine, number).archived_at.is_none()));
}

#[test]
fn repeated_puts_of_a_row_count_once() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[create(large(0))]);
    let supersede = |number: u32| NewMemory {
        supersedes: Some(memory_id(0_u32)),
        ..new_memory(memory_id(1 + number), &label(number, 20))
    };
    engine.run(2, &[command(CreateMemories((0..50).map(supersede).collect()))]);
    assert!(memory(&engine, 0).superseded_by.is_some());
}
