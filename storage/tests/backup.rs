//! A copy of the state has the hash that a verify mark has at the same entry.

use storage::backup::examine;

use crate::common::*;

#[test]
fn copy_has_the_hash_of_its_index() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.fill(1, (0..500_u16).map(|number| new_memory(memory_id(number), "text")));
    engine.run(2, &[Command::of_cluster(Verify)]);
    engine.reader.verifier().wait_idle();
    let result = engine.reader.verifier().results().pop().unwrap();
    let folder = engine.folder().join("copy");
    engine.writer.flusher().checkpoint(&folder).unwrap();
    let copied = examine(&folder).unwrap();
    assert_eq!((Some(copied.hash), copied.position.index), (result.hash, result.index));
    engine.run(3, &[create(new_memory(memory_id(900_u16), "later"))]);
    assert_eq!(examine(&folder).unwrap(), copied, "later changes are not in it");
}
