//! Recall and latency of graph searches among 100,000 real vectors, beside an exact scan.
//! The vectors are those of dictionary definitions (`deploy/setup/glosses.py`). The first run
//! embeds them, for a quarter of an hour, and stores them in the cache folder.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use node::embed::{Manifest, OnnxRuntime, Session};
use sha2::{Digest, Sha256};
use storage::model::id::MemoryId;
use storage::model::memory::{DecayClass, MemoryType};
use storage::model::vector::Vector;
use storage::{NewMemory, Options, SearchRequest};
use tests::engine::{Engine, MODEL, TENANT, memory_id, new_memory, random};
use tests::{cache, installed_model};

/// Definitions that are memories. The definitions after them are queries.
const MEMORIES: usize = 100_000;
const QUERIES: usize = 500;
const DIMENSION: usize = 384;

fn main() {
    let texts = fs::read_to_string(cache().join("glosses/glosses.txt")).expect("glosses.py ran");
    let texts: Vec<&str> = texts.lines().take(MEMORIES + QUERIES).collect();
    let vectors = vectors(&texts);
    println!("| among {MEMORIES} | top 10 of all | p50 ms | p95 ms | scan p50 ms | scan p95 ms |");
    println!("|---|---:|---:|---:|---:|---:|");
    // First by similarity alone, with equal heats and no words. Then by the whole score.
    let by_similarity = measure(&texts, &vectors, "similarity", false);
    let by_all = measure(&texts, &vectors, "similarity, heat and words", true);
    assert!(by_similarity >= 0.98, "recall at 10 is {by_similarity}");
    assert!(by_all >= 0.97, "overlap at 10 is {by_all}");
}

/// The top ten of each query, and the latencies in order.
struct Results {
    ids: Vec<Vec<MemoryId>>,
    times: Vec<Duration>,
}

fn measure(texts: &[&str], vectors: &[Vector], what: &str, all: bool) -> f64 {
    let scanned = Options { exact_max: usize::MAX, ..Options::default() };
    let mut engine = Engine::bootstrapped(DIMENSION, scanned);
    for first in (0..MEMORIES).step_by(1_000) {
        let memories = (first..first + 1_000).map(|n| {
            let vector = vectors[n].clone();
            let memory_type = MemoryType::ALL[n % 6];
            let memory = new_memory(memory_id(n as u64), texts[n]);
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
            let query = if all { texts[at].to_owned() } else { String::new() };
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
    eprintln!("graph of {:?} in {:.0} s", engine.reader.graph_counts(TENANT), built.as_secs_f64());
    share
}

/// The vectors of `texts`, from the cache if it has them unchanged. Their file is named after the
/// model, and has a hash of texts and vectors beside it.
fn vectors(texts: &[&str]) -> Vec<Vector> {
    let (manifest, runtime) = installed_model();
    let name = hex::encode(manifest.model().id.0);
    let file = cache().join("glosses").join(format!("{name}.f32"));
    let hash_file = file.with_extension("sha256");
    let hash = |bytes: &[u8]| {
        let mut hash = Sha256::new();
        texts.iter().for_each(|text| hash.update(text));
        hash.update(bytes);
        format!("{:x}\n", hash.finalize())
    };
    let cached = fs::read(&file).ok();
    let is_unchanged = |bytes: &Vec<u8>| fs::read_to_string(&hash_file).ok() == Some(hash(bytes));
    let bytes = cached.filter(is_unchanged).unwrap_or_else(|| {
        let bytes = embed(&runtime, &manifest, texts);
        fs::write(&file, &bytes).expect("it is written");
        fs::write(&hash_file, hash(&bytes)).expect("it is written");
        bytes
    });
    let components: Vec<f32> =
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let quantised = |row: &[f32]| Vector::quantise(MODEL, row).expect("a direction");
    components.chunks_exact(DIMENSION).map(quantised).collect()
}

/// Embeds on two threads; little-endian f32.
fn embed(runtime: &OnnxRuntime, manifest: &Manifest, texts: &[&str]) -> Vec<u8> {
    let work = |texts: &[&str], first: bool| {
        let mut session = Session::open(runtime, manifest).expect("a session");
        let mut bytes = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let tokens = session.tokens(text).expect("tokens");
            let components = session.run(&tokens).expect("a vector");
            bytes.extend(components.iter().flat_map(|component| component.to_le_bytes()));
            if first && at % 5_000 == 0 {
                eprintln!("embedding, {} %", 100 * at / texts.len());
            }
        }
        bytes
    };
    let (left, right) = texts.split_at(texts.len() / 2);
    thread::scope(|scope| {
        let right = scope.spawn(|| work(right, false));
        let mut bytes = work(left, true);
        bytes.extend(right.join().expect("it embeds"));
        bytes
    })
}
