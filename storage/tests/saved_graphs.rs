//! A restart takes the saved graph in place of building it, and never trusts it more than the
//! memories: what changed since is covered, and a damaged or foreign file is not used.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::common::world::Random;
use crate::common::*;

const DIMENSION: usize = 32;
const MEMORIES: usize = 2_000;
/// Longest time until a graph is saved.
const SAVED_MAX: Duration = Duration::from_secs(600);

fn options() -> Options {
    Options { exact_max: 500, ..Options::default() }
}

fn vectors(seed: u64, count: usize) -> Vec<Vector> {
    let mut random = Random(seed);
    let mut components = || (0..DIMENSION).map(|_| random.component()).collect::<Vec<_>>();
    (0..count).map(|_| Vector::quantise(MODEL, &components()).unwrap()).collect()
}

fn id(number: usize) -> MemoryId {
    memory_id(number as u64 + 1)
}

fn memories(vectors: &[Vector], first: usize) -> impl Iterator<Item = NewMemory> {
    let memory = move |(at, vector): (usize, &Vector)| NewMemory {
        vector: vector.clone(),
        ..new_memory(id(first + at), "a memory")
    };
    vectors.iter().enumerate().map(memory)
}

/// The nearest memories of a vector.
fn nearest(engine: &Engine, vector: &Vector) -> Vec<MemoryId> {
    let vector = Some(vector.components().unwrap());
    let request = SearchRequest { vector, limit: 10, ..SearchRequest::default() };
    let hits = engine.reader.search(TENANT, &request).unwrap().hits;
    hits.into_iter().map(|hit| hit.record.id).collect()
}

fn file(engine: &Engine) -> PathBuf {
    engine.folder().join("graphs").join(TENANT.0.to_string())
}

/// When the file was written: never changed by a restart that uses it.
fn written_at(engine: &Engine) -> SystemTime {
    fs::metadata(file(engine)).unwrap().modified().unwrap()
}

/// An engine whose graph is complete and saved.
fn with_saved_graph(vectors: &[Vector]) -> Engine {
    let mut engine = Engine::bootstrapped(DIMENSION, options());
    engine.fill(1, memories(vectors, 0));
    engine.wait_for_graph(&vectors[0]);
    let started = Instant::now();
    while !file(&engine).exists() {
        assert!(started.elapsed() < SAVED_MAX, "the graph is not saved");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A check that follows at once has saved it again when the next turn is over.
    engine.wait_for_graph(&vectors[0]);
    engine
}

#[test]
fn restart_takes_the_saved_graph() {
    let vectors = vectors(1, MEMORIES);
    let engine = with_saved_graph(&vectors);
    let (before, found) = (written_at(&engine), nearest_of_all(&engine, &vectors));
    let counts = engine.reader.graph_counts(TENANT);
    let engine = engine.reopened(options());
    engine.wait_for_graph(&vectors[0]);
    assert_eq!(nearest_of_all(&engine, &vectors), found);
    assert_eq!(engine.reader.graph_counts(TENANT), counts);
    assert_eq!(written_at(&engine), before, "no graph was built");
}

fn nearest_of_all(engine: &Engine, vectors: &[Vector]) -> Vec<Vec<MemoryId>> {
    vectors.iter().step_by(20).map(|vector| nearest(engine, vector)).collect()
}

#[test]
fn changes_since_the_save_are_covered() {
    const CHANGED: usize = 50;
    let vectors = vectors(2, MEMORIES + CHANGED);
    let (saved, added) = vectors.split_at(MEMORIES);
    let mut engine = with_saved_graph(saved);
    let before = written_at(&engine);
    let deletions =
        (0..CHANGED).map(|number| command(DeleteMemory { id: id(number), rejects: None }));
    engine.run(2, &deletions.collect::<Vec<_>>());
    // The new memories get the slots of the deleted ones.
    engine.fill(3, memories(added, MEMORIES));
    let engine = engine.reopened(options());
    engine.wait_for_graph(&vectors[0]);
    assert_eq!(written_at(&engine), before, "no graph was built");
    let counts = engine.reader.graph_counts(TENANT);
    assert_eq!(counts.covered + counts.lost, MEMORIES as u64);
    for (number, vector) in vectors.iter().enumerate() {
        let found = nearest(&engine, vector);
        assert_eq!(found[0] == id(number), number >= CHANGED, "memory {number}");
        assert!(found.iter().all(|found| *found >= id(CHANGED)));
    }
}

#[test]
fn damaged_or_foreign_files_are_not_used() {
    let vectors = vectors(3, MEMORIES);
    let foreign = with_saved_graph(&self::vectors(4, MEMORIES));
    let foreign = fs::read(file(&foreign)).unwrap();
    let mut engine = with_saved_graph(&vectors);
    let good = fs::read(file(&engine)).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut other_format = good.clone();
    other_format[7] = b'9';
    let cut = good[..good.len() - 5].to_vec();
    for bytes in [flipped, other_format, cut, Vec::new(), foreign] {
        let path = file(&engine);
        fs::write(&path, bytes).unwrap();
        let before = written_at(&engine);
        engine = engine.reopened(options());
        engine.wait_for_graph(&vectors[0]);
        let started = Instant::now();
        while written_at(&engine) == before {
            assert!(started.elapsed() < SAVED_MAX, "the file stays");
            std::thread::sleep(Duration::from_millis(10));
        }
        for (number, vector) in vectors.iter().enumerate().step_by(100) {
            assert_eq!(nearest(&engine, vector)[0], id(number));
        }
    }
}
