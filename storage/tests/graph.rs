//! Search through the graph, compared with an exact scan, also while memories are created and
//! deleted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::world::Random;
use crate::common::*;

/// Random numbers from -1 to 1.
fn components(random: &mut Random, dimension: usize) -> Vec<f32> {
    (0..dimension).map(|_| random.component()).collect()
}

/// Vectors in clusters. Few components are free, as in the vectors of a language model.
struct Clusters {
    random: Random,
    centres: Vec<Vec<f32>>,
    /// The vector that each free component scales.
    directions: Vec<Vec<f32>>,
}

impl Clusters {
    fn new(seed: u64, clusters: usize, free: usize, dimension: usize) -> Self {
        let mut random = Random(seed);
        let centres = (0..clusters).map(|_| components(&mut random, free)).collect();
        let directions = (0..free).map(|_| components(&mut random, dimension)).collect();
        Self { random, centres, directions }
    }

    /// A random vector of one cluster.
    fn vector(&mut self, cluster: usize) -> Vector {
        let mut components = vec![0.0; self.directions[0].len()];
        let centre = &self.centres[cluster % self.centres.len()];
        for (centre, direction) in centre.iter().zip(&self.directions) {
            let share = centre + 0.75 * self.random.component();
            components.iter_mut().zip(direction).for_each(|(sum, part)| *sum += share * part);
        }
        Vector::quantise(MODEL, &components).unwrap()
    }
}

fn id(number: usize) -> MemoryId {
    memory_id(number as u64 + 1)
}

fn memory(number: usize, vector: Vector) -> NewMemory {
    NewMemory { vector, ..new_memory(id(number), "a memory") }
}

/// The ten nearest memories of `vector`. All heats are equal, and the query has no words.
fn nearest(reader: &Reader, vector: &Vector) -> Vec<MemoryId> {
    let vector = Some(vector.components().unwrap());
    let request = SearchRequest { vector, limit: 10, ..SearchRequest::default() };
    let hits = reader.search(TENANT, &request).unwrap().hits;
    hits.into_iter().map(|hit| hit.record.id).collect()
}

#[test]
fn graph_search_reaches_98_percent_recall() {
    const DIMENSION: usize = 384;
    const MEMORIES: usize = 60_000;
    let mut clusters = Clusters::new(20, 600, 24, DIMENSION);
    let scanned = Options { exact_max: usize::MAX, ..Options::default() };
    let mut engine = Engine::bootstrapped(DIMENSION, scanned);
    engine.fill(1, (0..MEMORIES).map(|n| memory(n, clusters.vector(n))));
    let queries: Vec<_> = (0..100).map(|n| clusters.vector(n)).collect();
    let expected: Vec<_> = queries.iter().map(|query| nearest(&engine.reader, query)).collect();
    assert_eq!(engine.reader.searches().by_graph(), 0);

    let engine = engine.reopened(Options::default());
    let first = nearest(&engine.reader, &queries[0]);
    assert_eq!(first, expected[0], "an exact scan until there is a graph");
    engine.wait_for_graph(&queries[0]);
    let found = queries.iter().zip(&expected).map(|(query, expected)| {
        let found = nearest(&engine.reader, query);
        expected.iter().filter(|id| found.contains(id)).count()
    });
    let recall = found.sum::<usize>() as f64 / (10 * queries.len()) as f64;
    let counts = engine.reader.graph_counts(TENANT);
    assert_eq!(counts.covered + counts.lost, MEMORIES as u64);
    assert!(counts.lost < MEMORIES as u64 / 100, "{counts:?}");
    assert!(recall >= 0.98, "recall at 10 is {recall}");
}

#[test]
fn applied_memory_is_found_while_graph_builds() {
    const DIMENSION: usize = 32;
    let mut random = Random(7);
    let options = Options { exact_max: 1_000, ..Options::default() };
    let mut engine = Engine::bootstrapped(DIMENSION, options);
    let vectors: Vec<_> = (0..6_000)
        .map(|_| Vector::quantise(MODEL, &components(&mut random, DIMENSION)).unwrap())
        .collect();
    engine.fill(1, (0..2_000).map(|n| memory(n, vectors[n].clone())));
    engine.wait_for_graph(&vectors[0]);
    let before = engine.reader.searches().exact();

    // One thread searches for existing memories. This one writes, and searches after each write.
    let done = AtomicBool::new(false);
    let reader = engine.reader.clone();
    thread::scope(|scope| {
        let searching = scope.spawn(|| {
            let (mut searches, mut misses) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let number = 1_000 + searches % 1_000;
                // New points can take the last link of an existing point.
                misses += usize::from(nearest(&reader, &vectors[number])[0] != id(number));
                searches += 1;
            }
            (searches, misses)
        });
        for number in 2_000..6_000 {
            engine.fill(1, [memory(number, vectors[number].clone())]);
            assert_eq!(nearest(&engine.reader, &vectors[number])[0], id(number));
            if number % 4 == 0 {
                let deleted = number / 4 - 500;
                engine.run(1, &[command(DeleteMemory { id: id(deleted), rejects: None })]);
                assert!(!nearest(&engine.reader, &vectors[deleted]).contains(&id(deleted)));
            }
        }
        done.store(true, Ordering::Relaxed);
        let (searches, misses) = searching.join().unwrap();
        assert!(searches > 0 && misses * 100 <= searches, "{misses} of {searches}");
    });
    engine.wait_for_graph(&vectors[0]);
    assert_eq!(engine.reader.searches().exact(), before, "every search used the graph");
}

#[test]
fn graph_and_exact_scan_agree_under_filters() {
    const MEMORIES: usize = 3_000;
    let mut clusters = Clusters::new(3, 40, 16, 64);
    let scanned = Options { exact_max: usize::MAX, ..Options::default() };
    let mut engine = Engine::bootstrapped(64, scanned);
    let memories = (0..MEMORIES).map(|n| NewMemory {
        label: format!("note {n} on topic{} for team{}", n % 61, n % 7),
        namespace: format!("space{}", n % 3),
        initial_heat: (n * 7_919 % 1_000) as f32 / 1e3,
        is_pinned: n % 5 == 0,
        ..memory(n, clusters.vector(n))
    });
    engine.fill(1, memories);
    let filters = [
        Filter::default(),
        Filter { namespace: Some("space1".into()), ..Filter::default() },
        Filter { pinned: Some(false), ..Filter::default() },
        Filter { words: Some(vec!["topic7".into()]), ..Filter::default() },
    ];
    let requests: Vec<_> = (0..200)
        .map(|n| SearchRequest {
            query: if n % 2 == 0 {
                format!("topic{} of team{}", n % 61, n % 7)
            } else {
                String::new()
            },
            vector: Some(clusters.vector(n).components().unwrap()),
            filter: filters[n / 2 % 4].clone(),
            home_namespace: (n % 3 == 0).then(|| "space2".into()),
            limit: 10,
            ..SearchRequest::default()
        })
        .collect();
    let search_all = |engine: &Engine| -> Vec<Vec<MemoryId>> {
        let found = requests.iter().map(|request| engine.reader.search(TENANT, request).unwrap());
        found.map(|found| found.hits.into_iter().map(|hit| hit.record.id).collect()).collect()
    };
    let expected = search_all(&engine);
    let engine = engine.reopened(Options { exact_max: 500, ..Options::default() });
    engine.wait_for_graph(&clusters.vector(0));
    let before = engine.reader.searches().by_graph();
    let found = search_all(&engine);
    // One filter in four passes so few memories that the plan is an exact scan.
    assert_eq!(engine.reader.searches().by_graph() - before, 150);
    let equal = found.iter().zip(&expected).filter(|(found, expected)| found == expected).count();
    assert!(equal >= 198, "{equal} of 200 are equal");
}
