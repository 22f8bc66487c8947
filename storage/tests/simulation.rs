//! The engine on the in-memory file system of the simulation. A restart keeps flushed writes and
//! loses the others.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use common::{DIMENSION, Engine, TENANT, bootstrap, command, new_memory};
use storage::model::id::{MemoryId, Timestamp};
use storage::{Action, Env, LogWrite, Options};

#[test]
fn dropped_state_reopens_at_its_last_flush() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::mem_env().unwrap();
    let options = Options { env: Some(env.clone()), ..Options::default() };
    let open = || Engine::open(folder.path(), options.clone());
    let mut engine = open();
    let (first, second) = (MemoryId([1; 16]), MemoryId([2; 16]));
    let (_, batch) = engine.decide(Timestamp(1), &[bootstrap(DIMENSION)]);
    engine.apply(&batch);
    for (at, id) in [(2, first), (3, second)] {
        let create = command(Action::CreateMemories(vec![new_memory(id, "text")]));
        let (_, batch) = engine.decide(Timestamp(at), &[create]);
        engine.apply(&batch);
        if id == first {
            engine.writer.flusher().flush().unwrap();
        }
    }
    assert!(engine.reader.get(TENANT, second).unwrap().is_some());
    drop(engine);
    let engine = open();
    assert!(engine.reader.get(TENANT, first).unwrap().is_some());
    assert!(engine.reader.get(TENANT, second).unwrap().is_none());
    assert_eq!(engine.reader.position().index, 1, "the log replays from the next index");
}

#[test]
fn log_reads_written_entries_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, log) = storage::open(folder.path(), Options::default()).unwrap();
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
