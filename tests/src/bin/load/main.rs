//! Load generator: starts a cluster on loopback, fills it, and measures it through HTTPS on all
//! nodes in turn. Bounded in time; prints Markdown tables.

mod embedding;
mod growth;
mod measure;
mod scenarios;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tests::{Cluster, Options};

use work::Work;

/// The operation that grows the data comes last: the others are measured on the filled data.
const OPERATIONS: [&str; 4] = ["get", "search", "hot-context", "create"];
/// Niceness of the generator with `--nice`.
const NICENESS: i32 = 19;

/// Measures a cluster.
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
    /// Seconds per measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Operations: get, search, hot-context, create.
    #[arg(long, value_delimiter = ',', default_values_t = OPERATIONS.map(String::from))]
    operations: Vec<String>,
    /// Use the real embedding model.
    #[arg(long)]
    real_embedder: bool,
    /// Failpoints of the nodes, as in "log-sync=sleep(5)".
    #[arg(long)]
    failpoints: Option<String>,
    /// Measure once a finished graph serves the searches.
    #[arg(long)]
    graph: bool,
    /// A file of texts, one per line, which are stored with heats from 0 to 1. The texts after
    /// the first `memories` are searched for by their first words.
    #[arg(long)]
    texts: Option<PathBuf>,
    /// Lower the generator's priority, as if it ran on another machine. Not with creates: the
    /// nodes' background work would starve it.
    #[arg(long)]
    nice: bool,
    /// Readers of the event stream beside the measurement.
    #[arg(long, default_value_t = 0)]
    streams: usize,
    /// Also measure the start of a node on the stored data.
    #[arg(long)]
    restart: bool,
    /// Also measure a backup, another one after 1,000 more memories, and a restoration.
    #[arg(long)]
    backup: bool,
    /// Also change the embedding model beside creates, and measure how long creates wait. Needs the
    /// hashing embedder.
    #[arg(long)]
    model_change: bool,
    /// Kill the leader this many times, and measure the time to the next write.
    #[arg(long, default_value_t = 0)]
    failovers: usize,
    /// Pause the leader in place of killing it.
    #[arg(long)]
    freeze: bool,
    /// Store with 64 clients for this many seconds, and fail if an election takes place.
    #[arg(long, default_value_t = 0)]
    steady: u64,
    /// Store the memories in steps of 100,000, and measure how the rate, searches and RAM change,
    /// and a restart with all of them.
    #[arg(long)]
    growth: bool,
    /// Measure the embedder alone, beside the raw ONNX Runtime session.
    #[arg(long)]
    embedding: bool,
}

fn main() {
    let args = Args::parse();
    let runtime = || tokio::runtime::Runtime::new().expect("threads");
    if args.embedding {
        return runtime().block_on(embedding::measure());
    }
    let cluster = Arc::new(start(&args));
    if args.nice {
        // Nodes that it starts later would inherit the niceness.
        assert!(args.failovers == 0 && !args.restart, "--nice starts no nodes");
        rustix::process::nice(NICENESS).expect("a lower priority is always allowed");
    }
    let texts = args.texts.as_ref().map(|file| {
        let text = std::fs::read_to_string(file).expect("the file of texts");
        text.lines().map(str::to_owned).collect()
    });
    let work = Arc::new(Work { cluster, texts, memories: args.memories });
    runtime().block_on(run(&args, &work));
}

fn start(args: &Args) -> Cluster {
    let mut options = Options::new(&args.binary).nodes(args.nodes);
    if args.real_embedder {
        options = options.real_embedder();
    }
    if args.steady > 0 {
        // So often that it happens beside every other background work.
        options = options.env("HEARTH__RAFT__VERIFY_SECONDS", "60");
    }
    if let Some(failpoints) = &args.failpoints {
        options = options.env("FAILPOINTS", failpoints);
    }
    options.start()
}

async fn run(args: &Args, work: &Arc<Work>) {
    let cluster = &work.cluster;
    if args.failovers > 0 {
        work.fill().await;
        return scenarios::failovers(cluster, args.failovers, args.freeze).await;
    }
    if args.steady > 0 {
        return scenarios::steady(work, Duration::from_secs(args.steady)).await;
    }
    match args.growth {
        true => growth::measure(work).await,
        false => operations(args, work).await,
    }
    if args.backup {
        scenarios::backup(work).await;
    }
    if args.model_change {
        scenarios::model_change(work).await;
    }
    if args.restart {
        scenarios::restart(cluster, args.memories).await;
    }
}

/// Stores the memories, and measures the operations.
async fn operations(args: &Args, work: &Arc<Work>) {
    let cluster = &work.cluster;
    let ids = Arc::new(work.fill().await);
    if args.graph {
        tests::wait_for_graphs(cluster).await;
    }
    scenarios::follow_events(cluster, args.streams).await;
    measure::print_header();
    for operation in &args.operations {
        for clients in &args.clients {
            let time = Duration::from_secs(args.seconds);
            measure::operation(work, operation, *clients, time, &ids).await;
        }
    }
    let mut open = 0.0;
    for node in cluster.nodes() {
        open += node.metric("hearth_event_streams").await;
    }
    assert_eq!(open, args.streams as f64, "a stream ended during the measurement");
}
