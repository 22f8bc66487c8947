//! One measurement: clients that repeat an operation, and what the nodes used for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tests::{Agent, Cluster, Load, Method, Request, cpu_seconds, json};

use crate::work::Work;

/// Numbers texts across all measurements: a repeated text comes from the embedder's cache.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000_000);

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
    let before = usage(&work.cluster, operation).await;
    let client = |number| {
        let (work, ids, operation) = (Arc::clone(work), Arc::clone(ids), operation.to_owned());
        let agent = work.cluster.new_agent();
        move || request(&work, &agent, number, &operation, &ids)
    };
    let load = Load::run(clients, time, client).await;
    let after = usage(&work.cluster, operation).await;
    let [cpu, syncs, requests, server_seconds] = std::array::from_fn(|at| after[at] - before[at]);
    let [p50, p95, p99] = [50, 95, 99].map(|percent| load.millis(percent));
    println!(
        "| {operation} | {clients} | {:.0} | {p50:.2} | {p95:.2} | {p99:.2} | {:.2} | {:.2} | {:.3} |",
        load.rate(),
        server_seconds * 1e3 / requests,
        cpu * 1e3 / load.count(),
        syncs / load.count(),
    );
}

/// The next request of a client.
fn request(work: &Work, agent: &Agent, client: usize, operation: &str, ids: &[String]) -> Request {
    let node = work.cluster.at(client % work.cluster.nodes().len());
    let post = |path| agent.request(node, Method::POST, path);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    match operation {
        "create" => post("/agent/nodes").json(&work.memory(n)),
        "get" => {
            let id = &ids[n as usize % ids.len()];
            agent.request(node, Method::GET, &format!("/agent/nodes/{id}"))
        }
        "search" => post("/agent/search").json(&json!({"query": work.query(n), "limit": 10})),
        "hot-context" => post("/agent/hot-context"),
        other => panic!("no operation {other}"),
    }
}

/// What all nodes have used since their start: CPU seconds, syncs, requests of the operation, and
/// seconds from their arrival to their responses.
async fn usage(cluster: &Cluster, operation: &str) -> [f64; 4] {
    let route = match operation {
        "create" => "method=\"POST\",route=\"/api/v1/agent/nodes\"",
        "get" => "method=\"GET\",route=\"/api/v1/agent/nodes/{id}\"",
        "search" => "method=\"POST\",route=\"/api/v1/agent/search\"",
        _ => "method=\"POST\",route=\"/api/v1/agent/hot-context\"",
    };
    let metric = |name: &str| format!("hearth_http_request_seconds_{name}{{{route}}}");
    let mut usage = [0.0; 4];
    for node in cluster.nodes() {
        usage[0] += cpu_seconds(node.pid());
        usage[1] += node.metric("hearth_log_wal_syncs_total").await;
        usage[2] += node.metrics(&metric("count")).await;
        usage[3] += node.metrics(&metric("sum")).await;
    }
    usage
}
