//! One measurement: clients that repeat an operation, and what the nodes used for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tests::{Cluster, Method, cpu_seconds, json};

use crate::work::Work;

/// Numbers texts across all measurements: a repeated text comes from the embedder's cache.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000_000);

/// Prints the header of the table.
pub fn print_header() {
    println!(
        "| operation | clients | per s | p50 ms | p95 ms | p99 ms | in the server ms | CPU ms each | syncs each |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
}

/// Measures an operation with a number of clients, and prints a row.
pub async fn operation(
    work: &Arc<Work>,
    operation: &str,
    clients: usize,
    time: Duration,
    ids: &Arc<Vec<String>>,
) {
    let before = Usage::of(&work.cluster, operation).await;
    let started = Instant::now();
    let end = started + time;
    let client = |number| {
        let (work, ids) = (Arc::clone(work), Arc::clone(ids));
        tokio::spawn(repeat(work, operation.to_owned(), number, end, ids))
    };
    let ended = join_all((0..clients).map(client)).await;
    let mut latencies: Vec<_> =
        ended.into_iter().flat_map(|task| task.expect("the task ends")).collect();
    let seconds = started.elapsed().as_secs_f64();
    let used = Usage::of(&work.cluster, operation).await.since(before);
    latencies.sort();
    let count = latencies.len() as f64;
    let quantile = |q: f64| latencies[((count - 1.0) * q) as usize].as_secs_f64() * 1e3;
    println!(
        "| {operation} | {clients} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} |",
        count / seconds,
        quantile(0.50),
        quantile(0.95),
        quantile(0.99),
        used.server_seconds * 1e3 / used.requests,
        used.cpu * 1e3 / count,
        used.syncs / count,
    );
}

/// Repeats an operation over its own connection until `end`; returns the latencies.
async fn repeat(
    work: Arc<Work>,
    operation: String,
    client: usize,
    end: Instant,
    ids: Arc<Vec<String>>,
) -> Vec<Duration> {
    let agent = work.cluster.new_agent();
    let node = work.cluster.at(client % work.cluster.nodes().len());
    let post = |path| agent.request(node, Method::POST, path);
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let request = match operation.as_str() {
            "create" => post("/agent/nodes").json(&work.memory(n)),
            "get" => {
                let id = &ids[n as usize % ids.len()];
                agent.request(node, Method::GET, &format!("/agent/nodes/{id}"))
            }
            "search" => post("/agent/search").json(&json!({"query": work.query(n), "limit": 10})),
            "hot-context" => post("/agent/hot-context"),
            other => panic!("no operation {other}"),
        };
        let sent = Instant::now();
        request.send().await.ok();
        latencies.push(sent.elapsed());
    }
    latencies
}

/// What all nodes have used since their start.
#[derive(Clone, Copy)]
struct Usage {
    cpu: f64,
    syncs: f64,
    /// Requests of the operation.
    requests: f64,
    /// Seconds from their arrival to their responses.
    server_seconds: f64,
}

impl Usage {
    async fn of(cluster: &Cluster, operation: &str) -> Self {
        let route = match operation {
            "create" => "method=\"POST\",route=\"/api/v1/agent/nodes\"",
            "get" => "method=\"GET\",route=\"/api/v1/agent/nodes/{id}\"",
            "search" => "method=\"POST\",route=\"/api/v1/agent/search\"",
            _ => "method=\"POST\",route=\"/api/v1/agent/hot-context\"",
        };
        let metric = |name: &str| format!("hearth_http_request_seconds_{name}{{{route}}}");
        let mut usage = Self { cpu: 0.0, syncs: 0.0, requests: 0.0, server_seconds: 0.0 };
        for node in cluster.nodes() {
            usage.cpu += cpu_seconds(node.pid());
            usage.syncs += node.metric("hearth_log_wal_syncs_total").await;
            usage.requests += node.metrics(&metric("count")).await;
            usage.server_seconds += node.metrics(&metric("sum")).await;
        }
        usage
    }

    fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu - before.cpu,
            syncs: self.syncs - before.syncs,
            requests: self.requests - before.requests,
            server_seconds: self.server_seconds - before.server_seconds,
        }
    }
}
