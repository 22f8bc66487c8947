//! Recall and latency of graph searches among 100,000 real vectors, beside an exact scan.
//! The vectors are those of dictionary definitions (`deploy/setup/glosses.py`). The first run
//! embeds them, for a quarter of an hour, and stores them in the cache folder.
//!
//! With the feature `yardsticks`, also the graph beside those of other libraries.

#[cfg(feature = "yardsticks")]
mod yardsticks;

use std::time::{Duration, Instant};

use storage::model::id::MemoryId;
use storage::model::memory::{DecayClass, MemoryType};
use storage::model::vector::Vector;
use storage::{NewMemory, Options, SearchRequest};
use tests::Limit::AtLeast;
use tests::engine::{Engine, TENANT, memory_id, new_memory, random};
use tests::{DIMENSION, glosses, glosses_vectors, print_target};

/// Definitions that are memories. The definitions after them are queries.
const MEMORIES: usize = 100_000;
const QUERIES: usize = 500;

fn main() {
    #[cfg(feature = "yardsticks")]
    if yardsticks::measure_if_apart() {
        return;
    }
    let texts = glosses(MEMORIES + QUERIES);
    let vectors = glosses_vectors(&texts);
    println!("| among {MEMORIES} | top 10 of all | p50 ms | p95 ms | scan p50 ms | scan p95 ms |");
    println!("|---|---:|---:|---:|---:|---:|");
    // First by similarity alone, with equal heats and no words. Then by the whole score.
    let by_similarity = measure(&texts, &vectors, "similarity", false);
    let by_all = measure(&texts, &vectors, "similarity, heat and words", true);
    print_target("recall at 10 by similarity", by_similarity, AtLeast(0.98));
    print_target("overlap at 10 by the whole score", by_all, AtLeast(0.97));
    #[cfg(feature = "yardsticks")]
    yardsticks::compare(&vectors);
    assert!(by_similarity >= 0.98 && by_all >= 0.97);
}

/// The top ten of each query, and the latencies in order.
struct Results {
    ids: Vec<Vec<MemoryId>>,
    times: Vec<Duration>,
}

fn measure(texts: &[String], vectors: &[Vector], what: &str, all: bool) -> f64 {
    let scanned = Options { exact_max: usize::MAX, ..Options::default() };
    let mut engine = Engine::bootstrapped(DIMENSION, scanned);
    for first in (0..MEMORIES).step_by(1_000) {
        let memories = (first..first + 1_000).map(|n| {
            let vector = vectors[n].clone();
            let memory_type = MemoryType::ALL[n % 6];
            let memory = new_memory(memory_id(n as u64), &texts[n]);
            let (heat, decay_class) = match all {
                true => ((random(n as u64) % 1_000) as f32 / 1e3, DecayClass::Normal),
                false => (0.8, DecayClass::Permanent),
            };
            NewMemory { vector, memory_type, initial_heat: heat, decay_class, ..memory }
        });
        // 3.6 s per batch.
        engine.fill((first as i64 + 1_000) * 3_600, memories);
    }
    let search = |engine: &Engine| {
        let (mut ids, mut times) = (Vec::new(), Vec::new());
        for at in MEMORIES..texts.len() {
            let query = if all { texts[at].clone() } else { String::new() };
            let vector = Some(vectors[at].components().expect("a direction"));
            let request = SearchRequest { query, vector, limit: 10, ..SearchRequest::default() };
            let started = Instant::now();
            let hits = engine.reader.search(TENANT, &request).expect("it is read").hits;
            times.push(started.elapsed());
            ids.push(hits.into_iter().map(|hit| hit.record.id).collect());
        }
        times.sort_unstable();
        Results { ids, times }
    };
    let exact = search(&engine);
    let engine = engine.reopened(Options::default());
    let started = Instant::now();
    engine.wait_for_graph(&vectors[0]);
    let built = started.elapsed();
    let by_graph = engine.reader.searches().by_graph();
    let found = search(&engine);
    assert_eq!(engine.reader.searches().by_graph() - by_graph, QUERIES as u64);

    let pairs = found.ids.iter().zip(&exact.ids);
    let same = pairs.map(|(found, exact)| exact.iter().filter(|id| found.contains(id)).count());
    let share = same.sum::<usize>() as f64 / (10 * QUERIES) as f64;
    let millis = |results: &Results| {
        [50, 95].map(|percent| results.times[QUERIES * percent / 100].as_secs_f64() * 1e3)
    };
    let ([p50, p95], [exact_p50, exact_p95]) = (millis(&found), millis(&exact));
    println!("| by {what} | {share:.4} | {p50:.2} | {p95:.2} | {exact_p50:.2} | {exact_p95:.2} |");
    print_target(
        "points per second of the graph and its check",
        MEMORIES as f64 / built.as_secs_f64(),
        AtLeast(2_500.0),
    );
    eprintln!("graph of {:?} in {:.0} s", engine.reader.graph_counts(TENANT), built.as_secs_f64());
    share
}
