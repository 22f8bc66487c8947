//! Clients that send requests one after another for a time, and the latencies of their responses.

use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::{Cluster, Request, cpu_seconds};

/// Share of a processor that a node uses once its graph is finished, checked and served.
const IDLE: f64 = 0.05;
const GRAPH_MAX: Duration = Duration::from_secs(1_800);

/// What clients measured.
pub struct Load {
    /// In order.
    latencies: Vec<Duration>,
    seconds: f64,
}

impl Load {
    /// Runs `clients` clients for `time`. `client` returns the source of the requests of one
    /// client. Every request must succeed.
    pub async fn run<R: FnMut() -> Request + Send + 'static>(
        clients: usize,
        time: Duration,
        client: impl Fn(usize) -> R,
    ) -> Self {
        let started = Instant::now();
        let tasks = (0..clients).map(|at| tokio::spawn(repeat(client(at), started + time)));
        let ended = join_all(tasks).await.into_iter();
        let mut latencies: Vec<_> = ended.flat_map(|task| task.expect("the task ends")).collect();
        let seconds = started.elapsed().as_secs_f64();
        latencies.sort_unstable();
        Self { latencies, seconds }
    }

    /// Number of responses.
    pub fn count(&self) -> f64 {
        self.latencies.len() as f64
    }

    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.count() / self.seconds
    }

    /// The latency at a percentile, in milliseconds.
    pub fn millis(&self, percent: usize) -> f64 {
        self.latencies[(self.latencies.len() - 1) * percent / 100].as_secs_f64() * 1e3
    }
}

async fn repeat(mut next: impl FnMut() -> Request, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let request = next();
        let sent = Instant::now();
        request.send().await.ok();
        latencies.push(sent.elapsed());
    }
    latencies
}

/// Waits until the graphs of all nodes are complete and the nodes are idle.
pub async fn wait_for_graphs(cluster: &Cluster) {
    let started = Instant::now();
    for node in cluster.nodes() {
        let (mut built, mut idle) = (false, false);
        while !(built && idle) {
            assert!(started.elapsed() < GRAPH_MAX, "no graph");
            let before = cpu_seconds(node.pid());
            tokio::time::sleep(Duration::from_secs(2)).await;
            idle = cpu_seconds(node.pid()) - before < 2.0 * IDLE;
            built = node.metric("hearth_graph_memories").await > 0.0
                && node.metric("hearth_graph_missing").await == 0.0;
        }
    }
    eprintln!("graphs after {:.0} s", started.elapsed().as_secs_f64());
}
