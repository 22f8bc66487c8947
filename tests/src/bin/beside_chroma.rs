//! Searches of one node beside Chroma's server, with the same texts and vectors, loaded in turns by
//! the same generator. Chroma gets the vector of each query. Hearth gets its text, whose vector its
//! cache has after the first round; it also weighs words and heat, and uses TLS. Chroma does not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use reqwest::Client;
use storage::model::vector::dot;
use tempfile::TempDir;
use tests::{
    Beside, Cluster, Load, Method, Options, Request, Requests, Value, array, embedded, eventually,
    free_address, glosses, glosses_vectors, id, json, resident_bytes, wait_for_graphs,
};

const QUERIES: usize = 500;
/// First words of a text that are its query.
const QUERY_WORDS: usize = 8;
const RESULTS: usize = 10;
/// Turns of each system. The median is printed.
const TURNS: usize = 3;
const BATCH: usize = 50;
const THEIR_BATCH: usize = 1_000;
/// Starts the server of the package in a folder, without the packages of its client.
const SERVER: &str = "import sys, chromadb_rust_bindings as chroma; chroma.cli(sys.argv)";

/// Measures both.
#[derive(Parser)]
struct Args {
    /// The hearth binary to measure.
    #[arg(long)]
    binary: String,
    /// The folder of the package `chromadb`.
    #[arg(long)]
    chroma: PathBuf,
    /// Memories.
    #[arg(long, default_value_t = 100_000)]
    memories: usize,
    /// Seconds per turn.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Chroma's server, which ends with this value.
struct Chroma {
    process: Child,
    collections: String,
    client: Client,
    _folder: TempDir,
}

impl Chroma {
    fn start(package: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_address().port();
        let process = Command::new("python3")
            .args(["-c", SERVER, "run", "--host", "127.0.0.1", "--port", &port.to_string()])
            .arg("--path")
            .arg(folder.path())
            .env("PYTHONPATH", package)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let root = format!("http://127.0.0.1:{port}/api/v2/tenants/default_tenant/databases");
        let collections = format!("{root}/default_database/collections");
        Self { process, collections, client: Client::new(), _folder: folder }
    }

    /// Creates the collection once the server responds. Returns its address.
    async fn create(&self) -> String {
        let body = json!({"name": "glosses", "configuration": {"hnsw": {"space": "cosine"}}});
        let create = async || {
            let request = Request(self.client.post(&self.collections)).json(&body);
            request.try_send().await.ok().filter(|response| response.status.is_success())
        };
        let created = eventually("Chroma responds", create, Option::is_some).await;
        let created = created.expect("it was waited for").body;
        format!("{}/{}", self.collections, id(&created))
    }
}

impl Drop for Chroma {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The texts with their vectors, and the queries with theirs.
struct Data {
    texts: Vec<String>,
    vectors: Vec<Vec<f32>>,
    queries: Vec<String>,
    query_vectors: Vec<Vec<f32>>,
    next: AtomicUsize,
}

impl Data {
    fn read(count: usize) -> Self {
        // The cache has the vectors of these texts for `recall` too.
        let mut texts = glosses(count + QUERIES);
        let mut vectors = glosses_vectors(&texts);
        texts.truncate(count);
        vectors.truncate(count);
        let components = |vector: &storage::model::vector::Vector| vector.components();
        let vectors = vectors.iter().map(components).collect::<Result<_, _>>();
        let query =
            |text: &String| text.split_whitespace().take(QUERY_WORDS).collect::<Vec<_>>().join(" ");
        let queries: Vec<_> = texts.iter().step_by(count.div_ceil(QUERIES)).map(query).collect();
        let (query_vectors, vectors) = (embedded(&queries), vectors.expect("directions"));
        Self { texts, vectors, queries, query_vectors, next: AtomicUsize::new(0) }
    }

    /// The query of the next request.
    fn next(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.queries.len()
    }

    fn query_body(&self, query: usize) -> Value {
        let vector = &self.query_vectors[query];
        let included = ["documents", "distances"];
        json!({"query_embeddings": [vector], "n_results": RESULTS, "include": included})
    }

    /// The nearest texts of a query.
    fn nearest(&self, query: usize) -> HashSet<usize> {
        let wanted = &self.query_vectors[query];
        let mut all: Vec<_> =
            self.vectors.iter().map(|vector| dot(vector, wanted)).enumerate().collect();
        all.sort_unstable_by(|left, right| right.1.total_cmp(&left.1));
        all.into_iter().take(RESULTS).map(|(at, _)| at).collect()
    }
}

async fn fill(cluster: &Cluster, data: &Data) {
    let started = Instant::now();
    for (number, batch) in data.texts.chunks(BATCH).enumerate() {
        let node = |label: &String| json!({"label": label, "memory_type": "semantic"});
        let nodes: Vec<Value> = batch.iter().map(node).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
        if number % 200 == 0 {
            eprintln!("stored {} in {:.0} s", number * BATCH, started.elapsed().as_secs_f64());
        }
    }
    wait_for_graphs(cluster).await;
}

async fn fill_chroma(chroma: &Chroma, collection: &str, data: &Data) {
    let numbers: Vec<usize> = (0..data.texts.len()).collect();
    for batch in numbers.chunks(THEIR_BATCH) {
        let ids: Vec<String> = batch.iter().map(usize::to_string).collect();
        let embeddings: Vec<_> = batch.iter().map(|at| &data.vectors[*at]).collect();
        let documents: Vec<_> = batch.iter().map(|at| &data.texts[*at]).collect();
        let body = json!({"ids": ids, "embeddings": embeddings, "documents": documents});
        Request(chroma.client.post(format!("{collection}/add"))).json(&body).send().await.ok();
    }
}

/// The share of the nearest texts that Chroma returns.
async fn recall(chroma: &Chroma, collection: &str, data: &Data) -> f64 {
    let mut found = 0;
    for query in 0..data.queries.len() {
        let request = Request(chroma.client.post(format!("{collection}/query")));
        let response = request.json(&data.query_body(query)).send().await.ok();
        let nearest = data.nearest(query);
        let ids = array(&response["ids"][0]).iter().filter_map(|id| id.as_str()?.parse().ok());
        found += ids.filter(|id| nearest.contains(id)).count();
    }
    found as f64 / (RESULTS * data.queries.len()) as f64
}

fn searches(cluster: &Arc<Cluster>, data: &Arc<Data>) -> Requests {
    let (cluster, agent, data) = (Arc::clone(cluster), cluster.new_agent(), Arc::clone(data));
    Box::new(move || {
        let search = agent.request(&cluster, Method::POST, "/agent/search");
        search.json(&json!({"query": data.queries[data.next()], "limit": RESULTS}))
    })
}

fn queries(collection: &str, data: &Arc<Data>) -> Requests {
    let (client, url, data) = (Client::new(), format!("{collection}/query"), Arc::clone(data));
    Box::new(move || Request(client.post(&url)).json(&data.query_body(data.next())))
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let data = Arc::new(Data::read(args.memories));
    let cluster = Arc::new(Options::new(&args.binary).real_embedder().start());
    fill(&cluster, &data).await;
    let chroma = Chroma::start(&args.chroma);
    let collection = chroma.create().await;
    fill_chroma(&chroma, &collection, &data).await;
    let recall = recall(&chroma, &collection, &data).await;
    // The vectors of all queries are in the cache from then on.
    Load::run(1, Duration::from_secs(2 * args.seconds), |_| searches(&cluster, &data)).await;
    let beside = Beside {
        units: ["searches", "queries"],
        other: "Chroma",
        turns: TURNS,
        time: Duration::from_secs(args.seconds),
    };
    let client = |at| match at {
        0 => searches(&cluster, &data),
        _ => queries(&collection, &data),
    };
    beside.run(client, &[(1, Some(1.5)), (4, Some(2.5)), (16, None)]).await;
    let [own, other] = [cluster.pid(), chroma.process.id()].map(|pid| resident_bytes(pid) / 1e6);
    println!(
        "\nMB in RAM: Hearth {own:.0}, Chroma {other:.0}. Recall at 10 of Chroma: {recall:.4}."
    );
}
