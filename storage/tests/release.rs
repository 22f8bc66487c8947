//! The feature level of a cluster rises only, and a binary with a lower level stops before it applies
//! anything of a higher one.

use storage::model::release::{LEVEL, Release};
use storage::{Entry, EntryBody, Error};

use crate::common::*;

fn raise(level: u16) -> Command {
    Command::of_cluster(RaiseLevel(Release { level, version: (9, 8, 7) }))
}

#[test]
fn level_rises_only() {
    let engine = Engine::bootstrapped(DIMENSION, Options::default());
    let release = |engine: &Engine| engine.reader.cluster().unwrap().unwrap().release;
    assert_eq!(release(&engine), Release::own());
    let before = engine.reader.position().batch;
    for level in [0, LEVEL] {
        let (decisions, batch) = engine.decide(1, &[raise(level)]);
        assert!(decisions[0].is_ok() && batch.changes.is_empty());
    }
    assert_eq!((release(&engine), engine.reader.position().batch), (Release::own(), before));
    assert_eq!(engine.reader.feature_level(), LEVEL);
}

#[test]
fn higher_level_stops_a_node_first() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let before = engine.reader.position();
    let (_, batch) =
        engine.decide(1, &[raise(LEVEL + 1), create(new_memory(memory_id(1_u16), "x"))]);
    let (index, bytes) = (before.index + 1, codec::encode(&batch));
    let entry = Entry { index, log_id: vec![1], body: EntryBody::Batch(&bytes) };
    let error = engine.writer.apply(entry).unwrap_err();
    assert!(
        matches!(&error, Error::NeedsRelease(refused) if refused.needed.level == LEVEL + 1),
        "{error}"
    );
    assert!(error.to_string().contains("needs version 9.8.7"), "{error}");
    assert!(error.advice().contains("Nothing was changed"), "{}", error.advice());
    assert_eq!(engine.reader.position(), before);
    assert_eq!(engine.reader.get(TENANT, memory_id(1_u16)).unwrap(), None);
}
