//! Deleted memories free their space on disk soon, without a request.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use storage::BULK_MAX;

use crate::common::*;

const MEMORIES: u16 = 20_000;

fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    // A compaction may remove a file meanwhile.
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

#[test]
fn space_comes_back_after_mass_deletion() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let mut random = 1_u64;
    // Words that compress badly.
    let mut word = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{random:x} ")
    };
    let memories = (0..MEMORIES).map(|number| {
        let label: String = (0..60).map(|_| word()).collect();
        new_memory(memory_id(number), &label)
    });
    engine.fill(1, memories.collect::<Vec<_>>());
    engine.writer.flusher().flush().unwrap();
    let state = engine.folder().join("state");
    let before = bytes(&state);
    assert!(before > 15_000_000, "{before} bytes");
    let ids: Vec<_> = (0..MEMORIES).map(memory_id).collect();
    for ids in ids.chunks(BULK_MAX) {
        engine.run(
            2,
            &[command(DeleteMemories {
                ids: ids.to_vec(),
                filter: BulkFilter::default(),
                rejects: Vec::new(),
            })],
        );
    }
    engine.writer.flusher().flush().unwrap();
    let started = Instant::now();
    while bytes(&state) > before / 4 {
        let after = bytes(&state);
        assert!(started.elapsed() < Duration::from_secs(60), "{after} of {before} bytes remain");
        std::thread::sleep(Duration::from_millis(100));
    }
}
