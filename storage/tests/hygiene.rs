//! Memories that no search needs are found by their age, over several requests.

use storage::model::analytics::Usage;
use storage::model::memory::Defect;

use crate::common::*;

#[test]
fn unused_memories_are_found_by_age() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let memory = |number: u64| create(new_memory(memory_id(number), &format!("memory {number}")));
    let many: Vec<_> = (0..5_003).map(memory).collect();
    for (at, commands) in many.chunks(200).enumerate() {
        engine.run(at as i64, commands);
    }
    // One is recalled, and another one has an edge.
    engine.run(100, &[report(1, 1, Usage::default(), vec![(memory_id(7_u64), 1)])]);
    let [source, target] = [8_u64, 9].map(memory_id);
    let edge = EdgeRef { source, target, relation: "near".into() };
    engine.run(101, &[command(CreateEdge(edge))]);
    let defects = |engine: &Engine| {
        let first = engine.reader.hygiene(TENANT, None, 5).unwrap();
        let second = engine.reader.hygiene(TENANT, first.next, 5).unwrap();
        assert_eq!((first.examined, second.examined, second.next), (5_000, 3, None));
        let count = |defect: Defect| {
            first.defects[defect as usize].count + second.defects[defect as usize].count
        };
        [count(Defect::NeverRecalled), count(Defect::Orphan)]
    };
    assert_eq!(defects(&engine), [0, 0]);
    let days = 31 * Timestamp::DAY_MICROS;
    engine.run(days, &[memory(10_000)]);
    engine.run(days + 1, &[command(DeleteMemory { id: memory_id(10_000_u64), rejects: None })]);
    assert_eq!(defects(&engine), [5_002, 5_003 - 2]);
}
