//! Flags and archiving do not write the text of a memory again, neither to the log nor to the state.
//! All nodes read the same memory, also from rows of an earlier feature level.

use storage::model::memory::{Memory, Signal, Tier};

use crate::common::*;

const TEXT_BYTES: usize = 50_000;
/// More than the event and the rows of a change of flags.
const CHANGE_BYTES_MAX: usize = 1_000;

fn long_memory() -> NewMemory {
    new_memory(memory_id(1_u16), &"word ".repeat(TEXT_BYTES / 5))
}

fn update(patch: MemoryPatch) -> Command {
    command(UpdateMemory { id: memory_id(1_u16), patch: patch.into() })
}

fn pin() -> Command {
    update(MemoryPatch { is_pinned: Some(true), ..MemoryPatch::default() })
}

/// Commands that change the state of the memory, one after the other.
fn state_changes() -> [Command; 4] {
    let id = memory_id(1_u16);
    let unpin = MemoryPatch {
        is_pinned: Some(false),
        decay_class: Some(DecayClass::Volatile),
        min_heat: Some(0.1),
        ..MemoryPatch::default()
    };
    [
        pin(),
        command(GiveFeedback { id, signal: Signal::Wrong }),
        update(unpin),
        command(GiveFeedback { id, signal: Signal::Outdated }),
    ]
}

fn stored(engine: &Engine) -> Memory {
    engine.reader.get(TENANT, memory_id(1_u16)).unwrap().expect("it exists").memory
}

/// Decides and applies commands. Returns the bytes of their log entry.
fn logged_bytes(engine: &mut Engine, now: i64, commands: &[Command]) -> usize {
    let (decisions, batch) = engine.decide(now, commands);
    decisions.into_iter().for_each(|decision| drop(decision.unwrap()));
    assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
    codec::encode(&batch).len()
}

#[test]
fn changes_of_state_leave_the_text() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    assert!(logged_bytes(&mut engine, 1, &[create(long_memory())]) > TEXT_BYTES);
    let mut expected = stored(&engine);
    for (change, now) in state_changes().into_iter().zip(10..) {
        let bytes = logged_bytes(&mut engine, now, &[change]);
        assert!(bytes < CHANGE_BYTES_MAX, "{bytes} bytes at {now}");
        assert_ne!(stored(&engine), expected, "{now}");
        expected = stored(&engine);
        engine = engine.reopened(Options::default());
        assert_eq!(stored(&engine), expected, "{now}");
    }
    assert_eq!((expected.is_pinned, expected.is_flagged, expected.min_heat), (false, true, 0.1));
    // The text changes, then the state, also within one batch.
    let text = "another text";
    let label = Some((text.to_owned(), vector(text)));
    let renamed = update(MemoryPatch { label, ..MemoryPatch::default() });
    engine.run(20, &[renamed, pin()]);
    let after = stored(&engine);
    assert_eq!((after.label.as_str(), after.is_pinned, after.is_flagged), (text, true, true));
    let engine = engine.reopened(Options::default());
    assert_eq!(stored(&engine), after);
}

#[test]
fn archived_memories_stay_in_the_cold_tier() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[create(long_memory()), configure("consolidation.active_index_max", 0.0)]);
    let mut now = 0;
    while stored(&engine).tier() == Tier::Hot {
        now += Timestamp::DAY_MICROS;
        assert!(now < 400 * Timestamp::DAY_MICROS, "it is archived");
        engine.run(now, &[Command::of_cluster(AdvanceClock)]);
        let bytes = logged_bytes(&mut engine, now, &[command(AdvanceTick(None))]);
        assert!(bytes < CHANGE_BYTES_MAX, "{bytes} bytes");
    }
    let mut engine = engine.reopened(Options::default());
    assert_eq!(stored(&engine).tier(), Tier::Cold);
    let restore = command(RestoreMemories(vec![memory_id(1_u16)]));
    let bytes = logged_bytes(&mut engine, now + 1, &[restore]);
    assert!(bytes < CHANGE_BYTES_MAX, "{bytes} bytes");
    assert_eq!(stored(&engine).tier(), Tier::Hot);
    engine.run(now + 2, &[pin()]);
    // The id of a deleted memory has no state left.
    engine.run(now + 3, &[command(DeleteMemory { id: memory_id(1_u16), rejects: None })]);
    engine.run(now + 4, &[create(long_memory())]);
    assert!(!stored(&engine).is_pinned);
}
