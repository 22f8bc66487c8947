//! The engine in a simulation. A restart keeps flushed writes and loses the others.

use storage::{Environment, LogWrite};

use crate::common::*;

#[test]
fn dropped_state_reopens_at_its_last_flush() {
    let options = Options { environment: Environment::Simulation, ..Options::default() };
    let mut engine = Engine::bootstrapped(DIMENSION, options.clone());
    let (first, second) = (memory_id(1_u8), memory_id(2_u8));
    engine.run(2, &[create(new_memory(first, "text"))]);
    engine.writer.flusher().flush().unwrap();
    engine.run(3, &[create(new_memory(second, "text"))]);
    assert!(engine.reader.get(TENANT, second).unwrap().is_some());
    let engine = engine.reopened(options);
    assert!(engine.reader.get(TENANT, first).unwrap().is_some());
    assert!(engine.reader.get(TENANT, second).unwrap().is_none());
    assert_eq!(engine.reader.position().index, 1, "the log replays from the next index");
}

#[test]
fn log_reads_written_entries_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, log) = storage::open(folder.path(), Options::default(), |_| Ok(0)).unwrap();
    let rows = (0..10).map(|index| (index, vec![index as u8; 100])).collect();
    let syncs = log.syncs();
    log.write(&LogWrite::Append(rows)).unwrap();
    assert_eq!(log.syncs(), syncs, "a write does not sync");
    log.sync().unwrap();
    assert_eq!(log.syncs(), syncs + 1);
    let indexes = |first, count, bytes| {
        let rows = log.read(first, count, bytes).unwrap();
        rows.iter().map(|(index, _)| *index).collect::<Vec<_>>()
    };
    assert_eq!(indexes(3, 4, usize::MAX), [3, 4, 5, 6]);
    assert_eq!(indexes(3, 4, 250), [3, 4]);
    assert_eq!(indexes(3, 4, 1), [3], "at least one");
    log.write(&LogWrite::TruncateFrom(8)).unwrap();
    log.write(&LogWrite::Purge(1, vec![7])).unwrap();
    assert_eq!(log.last().unwrap().unwrap().0, 7);
    assert_eq!(indexes(2, 100, usize::MAX), [2, 3, 4, 5, 6, 7]);
    assert_eq!(log.get(storage::LogField::Purged).unwrap(), Some(vec![7]));
}
