//! Load generator: starts a cluster of its own on loopback, fills it, and measures
//! it through HTTPS, all nodes in turn. Bounded in time; prints Markdown tables.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use node::embed::{Manifest, OnnxRuntime, Session};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{Cluster, Options, Stream, cpu_seconds};

/// What grows the service comes last: the others are measured on what was stored.
const OPERATIONS: [&str; 4] = ["get", "search", "hot-context", "create"];
const TOPICS: u64 = 5_000;
/// Numbers texts across all measurements: one that repeats would come from the
/// embedder's cache.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Measures a node.
#[derive(Parser)]
struct Args {
    /// The hearth binary to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Memories to store before measuring.
    #[arg(long, default_value_t = 10_000)]
    memories: u64,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    clients: Vec<usize>,
    /// Seconds a measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Operations: get, search, hot-context, create.
    #[arg(long, value_delimiter = ',', default_values_t = OPERATIONS.map(String::from))]
    operations: Vec<String>,
    /// Use the real embedding model.
    #[arg(long)]
    real_embedder: bool,
    /// Failpoints of the node, as in "log-sync=sleep(5)".
    #[arg(long)]
    failpoints: Option<String>,
    /// Measure when a finished graph serves the searches.
    #[arg(long)]
    graph: bool,
    /// A file of texts, a line each, to be stored with heats of all sizes. Those after
    /// `memories` are searched for, by their first words.
    #[arg(long)]
    texts: Option<PathBuf>,
    /// Leave the processors to the nodes, as if this ran elsewhere. Not with creates: it would
    /// starve beside what nodes do at lower priority.
    #[arg(long)]
    nice: bool,
    /// So many readers of the event stream beside what is measured.
    #[arg(long, default_value_t = 0)]
    streams: usize,
    /// Also measure how long the node takes to start on what it holds.
    #[arg(long)]
    restart: bool,
    /// Kill the leader so many times, and measure the time to the next write.
    #[arg(long, default_value_t = 0)]
    failovers: usize,
    /// Store with 64 clients for so many seconds, and say whether anybody stood for election.
    #[arg(long, default_value_t = 0)]
    steady: u64,
    /// Measure the embedder alone, beside the raw ONNX Runtime session.
    #[arg(long)]
    embedding: bool,
}

/// What a generator leaves to the nodes of the processors that it shares with them.
const NICENESS: i32 = 19;
/// Words of a text that a search is of.
const QUERY_WORDS: usize = 8;
/// Of a node whose graph is finished, checked and served: what it uses of a processor.
const IDLE: f64 = 0.05;
/// How long a graph may take.
const GRAPH_MAX: Duration = Duration::from_secs(1_800);

fn main() {
    let args = Args::parse();
    let runtime = || tokio::runtime::Runtime::new().expect("threads");
    if args.embedding {
        return runtime().block_on(embedding());
    }
    let cluster = Arc::new(started(&args));
    if args.nice {
        // Nodes that it started anew would inherit it.
        assert!(args.failovers == 0 && !args.restart, "--nice starts no nodes");
        rustix::process::nice(NICENESS).expect("anybody may be nicer");
    }
    let texts = args.texts.as_ref().map(|file| {
        let text = std::fs::read_to_string(file).expect("the file of texts");
        text.lines().map(str::to_owned).collect()
    });
    let work = Arc::new(Work { cluster, texts, memories: args.memories });
    runtime().block_on(run(&args, &work));
}

/// What is measured, and with what.
struct Work {
    cluster: Arc<Cluster>,
    texts: Option<Vec<String>>,
    memories: u64,
}

impl Work {
    fn label(&self, number: u64) -> String {
        match &self.texts {
            Some(texts) => texts[number as usize % texts.len()].clone(),
            None => label(number),
        }
    }

    fn memory(&self, number: u64) -> Value {
        let heat = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
        match &self.texts {
            Some(_) => json!({"label": self.label(number), "initial_heat": heat}),
            None => json!({"label": self.label(number)}),
        }
    }

    fn query(&self, number: u64) -> String {
        match &self.texts {
            Some(texts) => {
                let others = texts.len() as u64 - self.memories;
                let text = self.label(self.memories + number % others);
                text.split_whitespace().take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
            }
            None => format!("what of topic{} in group{}", number % TOPICS, number % 50),
        }
    }
}

fn started(args: &Args) -> Cluster {
    let mut options = Options::new(&args.binary).nodes(args.nodes);
    if args.real_embedder {
        options = options.real_embedder();
    }
    if let Some(failpoints) = &args.failpoints {
        options = options.env("FAILPOINTS", failpoints);
    }
    options.start()
}

async fn run(args: &Args, work: &Arc<Work>) {
    let cluster = &work.cluster;
    if args.failovers > 0 {
        return failovers(cluster, args.failovers).await;
    }
    if args.steady > 0 {
        return steady(work, Duration::from_secs(args.steady)).await;
    }
    let ids = Arc::new(fill(work).await);
    if args.graph {
        graph(cluster).await;
    }
    follow(cluster, args.streams).await;
    head();
    for operation in &args.operations {
        for clients in &args.clients {
            measure(work, operation, *clients, Duration::from_secs(args.seconds), &ids).await;
        }
    }
    let mut open = 0.0;
    for node in cluster.nodes() {
        open += node.metric("hearth_event_streams").await;
    }
    assert_eq!(open, args.streams as f64, "a stream ended while it was measured beside");
    if args.restart {
        restart(cluster, args.memories).await;
    }
}

/// Opens event streams, and reads from each what comes.
async fn follow(cluster: &Cluster, streams: usize) {
    let nodes = cluster.nodes().count();
    let agents: Vec<_> = (0..=streams / 64).map(|_| cluster.another_client()).collect();
    for number in 0..streams {
        let ask = agents[number / 64].ask_at(&cluster.at(number % nodes), Method::GET, "/events");
        let mut stream = Stream::of(ask).await.unwrap_or_else(|rejection| panic!("{rejection:?}"));
        tokio::spawn(async move { while stream.next().await.is_some() {} });
    }
}

fn head() {
    println!(
        "| operation | clients | per s | p50 ms | p95 ms | p99 ms | in the server ms | CPU ms each | syncs each |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
}

/// Waits for graphs that miss nothing and were checked: until the nodes have nothing to do.
async fn graph(cluster: &Cluster) {
    let started = Instant::now();
    for node in cluster.nodes() {
        let (mut built, mut idle) = (false, false);
        while !(built && idle) {
            assert!(started.elapsed() < GRAPH_MAX, "no graph");
            let before = cpu_seconds(node.pid());
            tokio::time::sleep(Duration::from_secs(2)).await;
            idle = cpu_seconds(node.pid()) - before < 2.0 * IDLE;
            built = node.metric("hearth_graph_held").await > 0.0
                && node.metric("hearth_graph_missing").await == 0.0;
        }
    }
    eprintln!("graphs after {:.0} s", started.elapsed().as_secs_f64());
}

fn label(number: u64) -> String {
    let topic = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    format!("memory {number} speaks of topic{} and of group{}", topic % TOPICS, number % 50)
}

async fn fill(work: &Work) -> Vec<String> {
    let (cluster, count) = (&work.cluster, work.memories);
    let started = Instant::now();
    let mut ids = Vec::new();
    for first in (0..count).step_by(50) {
        let nodes: Vec<Value> =
            (first..count.min(first + 50)).map(|number| work.memory(number)).collect();
        let ask = cluster.ask(Method::POST, "/agent/nodes/batch").json(&json!({"nodes": nodes}));
        let answer = ask.send().await.ok();
        let results = answer["results"].as_array().expect("results").iter();
        ids.extend(results.map(|item| item["id"].as_str().expect("an id").to_owned()));
    }
    eprintln!("stored {count} memories in {:.1} s", started.elapsed().as_secs_f64());
    ids
}

async fn measure(
    work: &Arc<Work>,
    operation: &str,
    clients: usize,
    time: Duration,
    ids: &Arc<Vec<String>>,
) {
    let cluster = &work.cluster;
    let used = Used::by(cluster, operation).await;
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (work, ids) = (Arc::clone(work), Arc::clone(ids));
            let operation = operation.to_owned();
            tokio::spawn(async move {
                let cluster = &work.cluster;
                let own = cluster.another_client();
                let node = cluster.at(client % cluster.nodes().count());
                let mut took = Vec::new();
                while started.elapsed() < time {
                    let n = NEXT.fetch_add(1, Ordering::Relaxed);
                    let ask = match operation.as_str() {
                        "create" => {
                            own.ask_at(&node, Method::POST, "/agent/nodes").json(&work.memory(n))
                        }
                        "get" => {
                            let id = &ids[n as usize % ids.len()];
                            own.ask_at(&node, Method::GET, &format!("/agent/nodes/{id}"))
                        }
                        "search" => own.ask_at(&node, Method::POST, "/agent/search").json(&json!({
                            "query": work.query(n),
                            "limit": 10,
                        })),
                        "hot-context" => own.ask_at(&node, Method::POST, "/agent/hot-context"),
                        other => panic!("no operation {other}"),
                    };
                    let asked = Instant::now();
                    ask.send().await.ok();
                    took.push(asked.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.expect("the task ends"));
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = Used::by(cluster, operation).await.since(used);
    took.sort();
    let count = took.len() as f64;
    let quantile = |q: f64| took[((count - 1.0) * q) as usize].as_secs_f64() * 1e3;
    println!(
        "| {operation} | {clients} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} |",
        count / seconds,
        quantile(0.50),
        quantile(0.95),
        quantile(0.99),
        used.answering * 1e3 / used.answered,
        used.cpu * 1e3 / count,
        used.syncs / count,
    );
}

/// What all nodes have used of the machine.
#[derive(Clone, Copy)]
struct Used {
    cpu: f64,
    syncs: f64,
    /// Requests of the operation, and the seconds from their arrival to their answers.
    answered: f64,
    answering: f64,
}

impl Used {
    async fn by(cluster: &Cluster, operation: &str) -> Self {
        let route = match operation {
            "create" => "method=\"POST\",route=\"/api/v1/agent/nodes\"",
            "get" => "method=\"GET\",route=\"/api/v1/agent/nodes/{id}\"",
            "search" => "method=\"POST\",route=\"/api/v1/agent/search\"",
            _ => "method=\"POST\",route=\"/api/v1/agent/hot-context\"",
        };
        let (count, sum) = (
            format!("hearth_http_request_seconds_count{{{route}}}"),
            format!("hearth_http_request_seconds_sum{{{route}}}"),
        );
        let mut used = Self { cpu: 0.0, syncs: 0.0, answered: 0.0, answering: 0.0 };
        for node in cluster.nodes() {
            used.cpu += cpu_seconds(node.pid());
            used.syncs += node.metric("hearth_log_wal_syncs_total").await;
            used.answered += node.metrics(&count).await;
            used.answering += node.metrics(&sum).await;
        }
        used
    }

    fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            syncs: self.syncs - before.syncs,
            answered: self.answered - before.answered,
            answering: self.answering - before.answering,
        }
    }
}

/// Full load with all nodes alive: nobody has a reason to stand for election.
async fn steady(work: &Arc<Work>, time: Duration) {
    let cluster = &work.cluster;
    let before = terms(cluster).await;
    head();
    measure(work, "create", 64, time, &Arc::default()).await;
    let after = terms(cluster).await;
    println!("\nterms before {before:?}, after {} s {after:?}", time.as_secs());
    assert_eq!(before, after, "somebody stood for election");
}

async fn terms(cluster: &Cluster) -> Vec<u64> {
    let mut terms = Vec::new();
    for node in cluster.nodes() {
        let status = node.status().await.expect("it answers");
        terms.push(status["term"].as_u64().expect("a term"));
    }
    terms
}

/// From SIGKILL of the leader to the first write that another node acknowledges.
async fn failovers(cluster: &Cluster, count: usize) {
    let mut lives: Vec<Option<tests::Node>> = cluster.nodes().map(|_| None).collect();
    let mut took = Vec::new();
    for number in 0..count {
        let leader = cluster.leader().await;
        let killed = Instant::now();
        match &mut lives[leader] {
            Some(node) => node.kill(),
            None => cluster.at(leader).kill(),
        }
        let survivor = cluster.at((leader + 1) % cluster.nodes().count());
        let body = json!({"label": format!("after death {number}")});
        loop {
            let ask = survivor.ask(Method::POST, "/agent/nodes").json(&body);
            if ask.try_send().await.is_ok_and(|answer| answer.status.is_success()) {
                break;
            }
        }
        took.push(killed.elapsed().as_secs_f64());
        lives[leader] = Some(cluster.at(leader).serve());
        cluster.at(leader).ready().await;
    }
    took.sort_by(f64::total_cmp);
    println!(
        "leader killed {count} times: first write after {:.2} s at the median, {:.2} to {:.2} s",
        took[count / 2],
        took[0],
        took[count - 1]
    );
}

/// Start-up after an orderly stop, and after a kill that leaves the log to replay.
async fn restart(cluster: &Cluster, memories: u64) {
    cluster.kill_node();
    for (how, orderly) in [("a kill", true), ("an orderly stop", false)] {
        let started = Instant::now();
        let mut node = cluster.serve();
        cluster.ready().await;
        println!(
            "\nStart with {memories} memories after {how}: {:.2} s",
            started.elapsed().as_secs_f64()
        );
        if orderly {
            assert!(node.stop(), "{}", node.log());
        }
    }
}

/// Texts a second: the raw session on tokens made before, the embedder's worker
/// thread as the service uses it.
async fn embedding() {
    use api::Embedder;
    let cache = PathBuf::from(std::env::var_os("HEARTH_CACHE").expect("HEARTH_CACHE is set"));
    let config = node::config::Embedder {
        kind: node::config::EmbedderKind::Onnx,
        model: cache.join("models/all-MiniLM-L6-v2"),
        library: cache.join("onnxruntime/libonnxruntime.so.1.31.1"),
        threads: 1,
    };
    let texts: Vec<String> =
        (0..2_000).map(|n| format!("{} and is one of {n}", label(n))).collect();
    let manifest = Manifest::load(&config.model).expect("the model");
    let runtime = OnnxRuntime::load(&config.library).expect("the library");
    let mut session = Session::open(&runtime, &manifest).expect("a session");
    let worker = Session::open(&runtime, &manifest).expect("a session");
    let tokens: Vec<_> = texts.iter().map(|text| session.tokens(text).expect("tokens")).collect();
    let pool = node::embed::Pool::start(manifest.model(), vec![Box::new(worker)]);
    let (mut raw, mut served) = (0.0, 0.0);
    // In turns, so that both see the same noise of the machine.
    for part in 0..10 {
        let range = part * 200..(part + 1) * 200;
        let started = Instant::now();
        for tokens in &tokens[range.clone()] {
            session.run(tokens).expect("a vector");
        }
        raw += started.elapsed().as_secs_f64();
        let started = Instant::now();
        let embedded = texts[range].iter().map(|text| pool.embed(text.clone()));
        for vector in futures::future::join_all(embedded).await {
            vector.expect("a vector");
        }
        served += started.elapsed().as_secs_f64();
    }
    let tokens: usize = tokens.iter().map(Vec::len).sum();
    println!(
        "embedding, one thread, {} tokens a text: raw session {:.0}/s, embedder {:.0}/s, ratio {:.3}",
        tokens / texts.len(),
        texts.len() as f64 / raw,
        texts.len() as f64 / served,
        raw / served,
    );
}
