//! Three nodes beside three members of etcd, for orientation: the same generator, disk and value
//! size, loaded in turns. etcd is Debian's `etcd-server` behind its HTTP/JSON gateway without
//! TLS. Hearth uses HTTPS, and mutual TLS between nodes. A create also indexes words and a
//! vector and evaluates rules, which its figure includes.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::future::join_all;
use reqwest::Client;
use tempfile::TempDir;
use tests::engine::random;
use tests::{Cluster, Method, Options, eventually, json};

/// Bytes of an etcd value.
const VALUE_BYTES: usize = 1_700;
/// Bytes of a label with which a create writes about as many bytes to the log. The last line of
/// the output has the exact number.
const LABEL_BYTES: usize = 700;
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Turns of each system. The median is printed.
const TURNS: usize = 5;
const NODES: usize = 3;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Measures both.
#[derive(Parser)]
struct Args {
    /// The hearth binary to measure.
    #[arg(long)]
    binary: String,
    /// The etcd binary.
    #[arg(long)]
    etcd: String,
    /// Seconds per turn.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// A system under load.
#[derive(Clone)]
enum Store {
    Hearth(Arc<Cluster>),
    Etcd(Arc<Etcd>),
}

/// Three members, which end with this value.
struct Etcd {
    members: Vec<Child>,
    urls: Vec<String>,
    _folder: TempDir,
}

impl Etcd {
    fn start(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Bound until all are known, so that all ports differ.
        let bind = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
        let bound: Vec<_> = (0..2 * NODES).map(bind).collect();
        let url = |port: &TcpListener| format!("http://{}", port.local_addr().expect("an address"));
        let urls: Vec<String> = bound.iter().map(url).collect();
        drop(bound);
        let (peers, urls) = (&urls[..NODES], urls[NODES..].to_vec());
        let all = peers.iter().enumerate().map(|(at, peer)| format!("m{at}={peer}"));
        let all = all.collect::<Vec<_>>().join(",");
        let start = |at: usize| {
            Command::new(binary)
                .args(["--name", &format!("m{at}"), "--log-level", "error"])
                .arg("--data-dir")
                .arg(folder.path().join(at.to_string()))
                .args(["--listen-client-urls", &urls[at], "--advertise-client-urls", &urls[at]])
                .args(["--listen-peer-urls", &peers[at]])
                .args(["--initial-advertise-peer-urls", &peers[at]])
                .args(["--initial-cluster", &all, "--initial-cluster-state", "new"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("etcd starts: apt-get install etcd-server")
        };
        Self { members: (0..NODES).map(start).collect(), urls, _folder: folder }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.kill());
            drop(member.wait());
        }
    }
}

impl Store {
    /// Stores through one node, over its own connection, until `end`. Returns the latencies.
    async fn store(self, client: usize, end: Instant) -> Vec<Duration> {
        let mut latencies = Vec::new();
        match self {
            Self::Hearth(cluster) => {
                let (agent, node) = (cluster.new_agent(), cluster.at(client % NODES));
                while Instant::now() < end {
                    let label = words(LABEL_BYTES);
                    let create = agent.request(node, Method::POST, "/agent/nodes");
                    let sent = Instant::now();
                    create.json(&json!({ "label": label })).send().await.ok();
                    latencies.push(sent.elapsed());
                }
            }
            Self::Etcd(etcd) => {
                let (own, url) =
                    (Client::new(), format!("{}/v3/kv/put", etcd.urls[client % NODES]));
                while Instant::now() < end {
                    let (key, value) = (base64(18), base64(VALUE_BYTES));
                    let put = own.post(&url).json(&json!({ "key": key, "value": value }));
                    let sent = Instant::now();
                    let response = put.send().await.expect("a response");
                    assert!(response.status().is_success(), "{}", response.status());
                    response.bytes().await.expect("a body");
                    latencies.push(sent.elapsed());
                }
            }
        }
        latencies
    }

    async fn is_ready(&self) -> bool {
        let Self::Etcd(etcd) = self else { return true };
        let put = Client::new().post(format!("{}/v3/kv/put", etcd.urls[0]));
        let response = put.json(&json!({ "key": base64(18), "value": "" })).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }
}

/// `length` bytes of words that are unique per call.
fn words(length: usize) -> String {
    let mut text = String::new();
    while text.len() < length {
        text += &format!("{:x} ", random(NEXT.fetch_add(1, Ordering::Relaxed)) >> 32);
    }
    text.truncate(length);
    text
}

/// The same for a value of `length` bytes in base64, which has four characters per three bytes.
fn base64(length: usize) -> String {
    words(length.div_ceil(3) * 4).replace(' ', "+")
}

/// Requests per second, and their median and 99th percentile in milliseconds.
async fn turn(store: &Store, clients: usize, seconds: u64) -> [f64; 3] {
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds);
    let tasks = (0..clients).map(|client| tokio::spawn(store.clone().store(client, end)));
    let ended = join_all(tasks).await.into_iter();
    let mut latencies: Vec<_> = ended.flat_map(|task| task.expect("the task ends")).collect();
    latencies.sort_unstable();
    let quantile =
        |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    [latencies.len() as f64 / started.elapsed().as_secs_f64(), quantile(50), quantile(99)]
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let cluster = Arc::new(Options::new(&args.binary).nodes(NODES).start());
    let hearth = Store::Hearth(Arc::clone(&cluster));
    let etcd = Store::Etcd(Arc::new(Etcd::start(&args.etcd)));
    eventually("etcd is ready", async || etcd.is_ready().await, |ready| *ready).await;
    println!(
        "| clients | Hearth creates/s | etcd puts/s | ratio | Hearth p50, p99 ms | etcd p50, p99 ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for clients in CLIENTS {
        let mut turns = [Vec::new(), Vec::new()];
        for number in 0..TURNS {
            // In alternating order: the first turn includes flushes of the other system.
            for at in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let store = [&hearth, &etcd][at];
                turns[at].push(turn(store, clients, args.seconds).await);
            }
        }
        let [[ours, p50, p99], [theirs, their_p50, their_p99]] = turns.map(|mut turns| {
            turns.sort_by(|left, right| left[0].total_cmp(&right[0]));
            turns[TURNS / 2]
        });
        println!(
            "| {clients} | {ours:.0} | {theirs:.0} | {:.2} | {p50:.2}, {p99:.2} | {their_p50:.2}, {their_p99:.2} |",
            ours / theirs
        );
    }
    let (mut bytes, mut commands) = (0.0, 0.0);
    for node in cluster.nodes() {
        bytes += node.metric("hearth_executor_batch_bytes_total").await;
        commands += node.metric("hearth_executor_batch_commands_total").await;
    }
    println!("\nLog bytes per create: {:.0}; bytes per value: {VALUE_BYTES}.", bytes / commands);
}
