//! A received state replaces the present one. Reads see one of both, never one without its indexes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::*;

fn with_memories(count: u16) -> Engine {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.fill(1, (0..count).map(|number| new_memory(memory_id(number), "text")));
    engine
}

#[test]
fn reads_see_one_of_both_states() {
    let (sender, mut receiver) = (with_memories(3_000), with_memories(1_000));
    let copy = receiver.folder().join("received");
    sender.writer.flusher().checkpoint(&copy).unwrap();
    let (reader, is_switched) = (receiver.reader.clone(), AtomicBool::new(false));
    let read = || reader.while_indexed(|reader| reader.counts(TENANT).memories);
    let seen = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut seen = vec![read()];
            while !is_switched.load(Ordering::SeqCst) {
                seen.push(read());
                seen.dedup();
            }
            seen
        });
        receiver.writer.open_and_switch(&copy).unwrap();
        is_switched.store(true, Ordering::SeqCst);
        reading.join().unwrap()
    });
    assert!(seen.contains(&None), "the indexes were dropped first");
    let allowed = [None, Some(1_000), Some(3_000)];
    assert!(seen.iter().all(|seen| allowed.contains(seen)), "{seen:?}");
    assert_eq!(read(), Some(3_000));
    assert_eq!(receiver.reader.hash().unwrap(), sender.reader.hash().unwrap());
}
