//! Our graph beside those of `hnsw_rs` and `usearch`: over the same vectors, with the same
//! parameters and number of threads. Each library runs in a process of its own, so that the growth
//! of the process's resident memory is that of one graph. docs/decisions/0004-graph.md has the
//! results, and the rule for them.

use std::fs::{self, File};
use std::io::Read;
use std::num::NonZero;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, thread};

use hnsw_rs::anndists::dist::{DistDot, Distance};
use hnsw_rs::hnsw::Hnsw;
use index::Slot;
use index::graph::NEAREST;
use index::hnsw::Graph;
use index::points::M;
use storage::model::sq8::{self, Code};
use storage::model::vector::{Vector, dot};
use tempfile::TempDir;
use tests::Limit::AtLeast;
use tests::{DIMENSION, json, print_target, resident_bytes};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use crate::{MEMORIES, QUERIES};

/// `efConstruction` of every library, as in `index::hnsw`.
const EF_CONSTRUCTION: usize = 200;
/// Layers of a graph of `hnsw_rs`: the limit of the crate.
const LAYERS: usize = 16;
/// Points, then queries.
const ALL: usize = MEMORIES + QUERIES;
/// Results of an exact search. Recall is the part of them among the candidates.
const BEST: usize = 10;
/// `hnsw_rs` replaces our graph if none of its values is worse by more than this part.
const MARGIN: f64 = 0.2;
/// The least recall of our graph, as a part of the recall of `hnsw_rs`.
const RECALL_MIN: f64 = 0.99;
/// Length of the f32 vectors for `hnsw_rs`, which panics on dot products above 1.
const LENGTH: f32 = 0.999_99;

type Measure = fn(&Data) -> Measured;

/// Ours first, then `hnsw_rs` with the same codes.
const LIBRARIES: [(&str, Measure); 4] = [
    ("our own", measure_own),
    ("`hnsw_rs`, same codes", measure_hnsw_codes),
    ("`hnsw_rs`, f32", measure_hnsw_floats),
    ("`usearch`, same codes", measure_usearch),
];

/// Builds and searches the graph of each library, and prints the results.
pub fn compare(vectors: &[Vector]) {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("vectors.f32");
    let units = vectors.iter().flat_map(|vector| vector.components().expect("a direction"));
    fs::write(&file, units.flat_map(f32::to_le_bytes).collect::<Vec<_>>()).expect("it is written");
    let all = LIBRARIES.map(|(library, _)| (library, measure_apart(library, &file)));
    let [(_, own), (_, hnsw_rs), ..] = &all;
    println!("\n{} threads. In brackets: the ratio to ours.\n", threads());
    println!(
        "| graph of {MEMORIES} | build s | points per second | recall at 10 | median µs | \
         bytes per point | at most {:.0} % worse |",
        100.0 * MARGIN
    );
    println!("|---|---:|---:|---:|---:|---:|---|");
    for (library, it) in &all {
        println!(
            "| {library} | {:.1} ({:.2}) | {:.0} | {:.4} ({:.4}) | {:.0} ({:.2}) | {:.0} ({:.2}) | {} |",
            it.seconds,
            it.seconds / own.seconds,
            MEMORIES as f64 / it.seconds,
            it.recall,
            it.recall / own.recall,
            it.micros,
            it.micros / own.micros,
            it.bytes,
            it.bytes / own.bytes,
            if it.is_close_to(own) { "yes" } else { "no" },
        );
    }
    let recall = own.recall / hnsw_rs.recall;
    print_target("recall of our graph against hnsw_rs", recall, AtLeast(RECALL_MIN));
    assert!(recall >= RECALL_MIN);
}

/// Threads of a build.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs this program for one library. Its last line of output is the result: `hnsw_rs` prints its
/// progress.
fn measure_apart(library: &str, file: &Path) -> Measured {
    let program = env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .arg(library)
        .arg(file)
        // `hnsw_rs` inserts on the threads of rayon.
        .env("RAYON_NUM_THREADS", threads().to_string())
        .stderr(Stdio::inherit())
        .output()
        .expect("it is started");
    assert!(output.status.success(), "{library}: {}", output.status);
    let output = String::from_utf8_lossy(&output.stdout);
    let line = output.lines().last().unwrap_or_default();
    let numbers: [f64; 4] = serde_json::from_str(line).expect("four numbers");
    let [seconds, recall, micros, bytes] = numbers;
    Measured { seconds, recall, micros, bytes }
}

/// In a process that [`measure_apart`] started: measures the library and prints the result. Returns
/// false in every other process.
pub fn measure_if_apart() -> bool {
    let mut args = env::args().skip(1);
    let (Some(name), Some(file)) = (args.next(), args.next()) else { return false };
    let of_name = LIBRARIES.into_iter().find(|(library, _)| *library == name);
    let (_, measure) = of_name.expect("a library");
    let it = measure(&Data::read(Path::new(&file)));
    println!("{}", json!([it.seconds, it.recall, it.micros, it.bytes]));
    true
}

struct Measured {
    /// Time of the build.
    seconds: f64,
    /// Part of the exact [`BEST`] among [`NEAREST`] candidates.
    recall: f64,
    /// Median time of a search on one thread.
    micros: f64,
    /// Growth of the resident memory in the build, per point.
    bytes: f64,
}

impl Measured {
    /// Whether build, recall and RAM are at most [`MARGIN`] worse than those of `own`.
    fn is_close_to(&self, own: &Self) -> bool {
        self.seconds <= own.seconds * (1.0 + MARGIN)
            && self.recall >= own.recall * (1.0 - MARGIN)
            && self.bytes <= own.bytes * (1.0 + MARGIN)
    }
}

/// Unit vectors, one after another.
struct Data {
    units: Vec<f32>,
}

impl Data {
    /// Reads one vector at a time: a build would reuse the memory of a large buffer, and the
    /// resident memory would grow by less than the graph.
    fn read(file: &Path) -> Self {
        let mut file = File::open(file).expect("a file of vectors");
        let mut row = [0; 4 * DIMENSION];
        let mut units = Vec::with_capacity(ALL * DIMENSION);
        for _ in 0..ALL {
            file.read_exact(&mut row).expect("a vector");
            let components = row.chunks_exact(4);
            units.extend(components.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        }
        Self { units }
    }

    fn unit(&self, at: usize) -> &[f32] {
        &self.units[at * DIMENSION..(at + 1) * DIMENSION]
    }

    fn code(&self, at: usize) -> Code {
        Code::of(self.unit(at))
    }

    /// The points closest to a query, in any order.
    fn best(&self, query: usize) -> Vec<usize> {
        let query = self.unit(query);
        let mut scored: Vec<(f32, usize)> =
            (0..MEMORIES).map(|at| (dot(query, self.unit(at)), at)).collect();
        scored.select_nth_unstable_by(BEST, |left, right| right.0.total_cmp(&left.0));
        scored[..BEST].iter().map(|(_, at)| *at).collect()
    }
}

/// Builds a graph, then searches for each query. `search` returns the candidates of a query.
fn measured<G>(
    data: &Data,
    build: impl FnOnce() -> G,
    search: impl Fn(&G, usize) -> Vec<usize>,
) -> Measured {
    let before = resident_bytes(process::id());
    let started = Instant::now();
    let graph = build();
    let seconds = started.elapsed().as_secs_f64();
    let bytes = (resident_bytes(process::id()) - before) / MEMORIES as f64;
    let (mut found, mut times) = (Vec::new(), Vec::new());
    for query in MEMORIES..ALL {
        let started = Instant::now();
        let candidates = search(&graph, query);
        times.push(started.elapsed());
        found.push(candidates);
    }
    times.sort_unstable();
    // Exact searches are last: the resident memory contains theirs from then on.
    let of_best = |(query, candidates): (usize, &Vec<usize>)| {
        data.best(query).iter().filter(|at| candidates.contains(at)).count()
    };
    let of_best: usize = (MEMORIES..ALL).zip(&found).map(of_best).sum();
    let recall = of_best as f64 / (BEST * QUERIES) as f64;
    Measured { seconds, recall, micros: times[QUERIES / 2].as_secs_f64() * 1e6, bytes }
}

/// Calls `work` with the number of each point, on all threads.
fn in_parallel(work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= MEMORIES {
                return;
            }
            work(at);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(work);
        }
    });
}

fn measure_own(data: &Data) -> Measured {
    let rows: Vec<(Slot, Code)> = (0..MEMORIES).map(|at| (at as Slot, data.code(at))).collect();
    let queries: Vec<Code> = (MEMORIES..ALL).map(|at| data.code(at)).collect();
    let build = || {
        let graph = Graph::default();
        let first = graph.add(&rows);
        in_parallel(|at| graph.link(first + at));
        graph
    };
    measured(data, build, |graph, query| {
        let found = graph.nearest(&queries[query - MEMORIES], NEAREST);
        found.into_iter().map(|(slot, _)| slot as usize).collect()
    })
}

/// With our codes and our distance, which is the same SIMD code as in our graph.
fn measure_hnsw_codes(data: &Data) -> Measured {
    let codes: Vec<_> = (0..ALL).map(|at| with_scale(&data.code(at))).collect();
    measure_hnsw(data, &codes, CodeDistance)
}

/// With the crate's own SIMD distance, which it has for f32 only.
fn measure_hnsw_floats(data: &Data) -> Measured {
    let shorter = |at| -> Vec<f32> { data.unit(at).iter().map(|c| c * LENGTH).collect() };
    let vectors: Vec<_> = (0..ALL).map(shorter).collect();
    measure_hnsw(data, &vectors, DistDot)
}

fn measure_hnsw<T, D>(data: &Data, vectors: &[Vec<T>], distance: D) -> Measured
where
    T: Clone + Send + Sync,
    D: Distance<T> + Send + Sync,
{
    let points: Vec<(&[T], usize)> =
        vectors[..MEMORIES].iter().map(Vec::as_slice).zip(0..).collect();
    let build = || {
        let mut graph = Hnsw::<T, D>::new(M, MEMORIES, LAYERS, EF_CONSTRUCTION, distance);
        graph.parallel_insert_slice(&points);
        graph.set_searching_mode(true);
        graph
    };
    measured(data, build, |graph, query| {
        let found = graph.search(&vectors[query], NEAREST, NEAREST);
        found.into_iter().map(|point| point.d_id).collect()
    })
}

/// A code as a vector of `hnsw_rs`: its components, then the bytes of its scale.
fn with_scale(code: &Code) -> Vec<i8> {
    let scale = code.scale.to_le_bytes().map(|byte| byte as i8);
    [&code.values[..], &scale[..]].concat()
}

/// `max(0, 1 − cosine)` of two codes. `hnsw_rs` panics on distances below 0.
struct CodeDistance;

impl Distance<i8> for CodeDistance {
    fn eval(&self, left: &[i8], right: &[i8]) -> f32 {
        let ((left, left_scale), (right, right_scale)) = (split(left), split(right));
        (1.0 - sq8::dot(left, right) as f32 * left_scale * right_scale).max(0.0)
    }
}

fn split(vector: &[i8]) -> (&[i8], f32) {
    let (values, scale) = vector.split_at(DIMENSION);
    let scale = [scale[0], scale[1], scale[2], scale[3]].map(|byte| byte as u8);
    (values, f32::from_le_bytes(scale))
}

/// With our codes without their scales, which the cosine does not need.
fn measure_usearch(data: &Data) -> Measured {
    let codes: Vec<Vec<i8>> = (0..ALL).map(|at| data.code(at).values).collect();
    let options = IndexOptions {
        dimensions: DIMENSION,
        metric: MetricKind::Cos,
        quantization: ScalarKind::I8,
        connectivity: M,
        expansion_add: EF_CONSTRUCTION,
        expansion_search: NEAREST,
        multi: false,
    };
    let graph = Index::new(&options).expect("an index");
    eprintln!("usearch {}, SIMD: {}", usearch::version(), graph.hardware_acceleration());
    let build = || {
        graph.reserve_capacity_and_threads(MEMORIES, threads()).expect("it is reserved");
        in_parallel(|at| graph.add(at as u64, &codes[at][..]).expect("it is added"));
        graph
    };
    measured(data, build, |graph, query| {
        let found = graph.search(&codes[query][..], NEAREST).expect("it is searched");
        found.keys.into_iter().map(|key| key as usize).collect()
    })
}
