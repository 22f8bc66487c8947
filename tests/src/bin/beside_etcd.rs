//! Three nodes beside three members of etcd, for orientation: one generator, one disk,
//! values of one size, loaded in turns. etcd is Debian's `etcd-server`, spoken to through
//! its HTTP/JSON gateway without TLS; Hearth over HTTPS, with mutual TLS between nodes.
//! What a create does beyond a put (words, vector, rules) is in its figure.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use reqwest::{Client, Method};
use serde_json::json;
use tempfile::TempDir;
use tests::engine::random;
use tests::{Cluster, Options, PATIENCE};

/// Bytes of a value.
const VALUE_BYTES: usize = 1_700;
/// Bytes of a label with which a create puts some as many into the log: the last line of
/// the output says how many.
const LABEL_BYTES: usize = 700;
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Turns of each system; the median counts.
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
    /// Seconds a turn.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Something that stores.
#[derive(Clone)]
enum Store {
    Hearth(Arc<Cluster>),
    Etcd(Arc<Etcd>),
}

/// Three members, ended with this.
struct Etcd {
    members: Vec<Child>,
    urls: Vec<String>,
    _folder: TempDir,
}

impl Etcd {
    fn start(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Held until all are known, so that no port is given twice.
        let held: Vec<_> =
            (0..2 * NODES).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let urls: Vec<String> = held
            .iter()
            .map(|port| format!("http://{}", port.local_addr().expect("an address")))
            .collect();
        drop(held);
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
    /// Stores through one node, over a connection of its own, until `end`.
    async fn store(self, client: usize, end: Instant) -> Vec<Duration> {
        let mut took = Vec::new();
        match self {
            Self::Hearth(cluster) => {
                let (own, node) = (cluster.another_client(), cluster.at(client % NODES));
                while Instant::now() < end {
                    let label = words(LABEL_BYTES);
                    let ask = own.ask_at(&node, Method::POST, "/agent/nodes");
                    let asked = Instant::now();
                    ask.json(&json!({ "label": label })).send().await.ok();
                    took.push(asked.elapsed());
                }
            }
            Self::Etcd(etcd) => {
                let (own, url) =
                    (Client::new(), format!("{}/v3/kv/put", etcd.urls[client % NODES]));
                while Instant::now() < end {
                    let (key, value) = (base64(18), base64(VALUE_BYTES));
                    let put = own.post(&url).json(&json!({ "key": key, "value": value }));
                    let asked = Instant::now();
                    let answer = put.send().await.expect("an answer");
                    assert!(answer.status().is_success(), "{}", answer.status());
                    answer.bytes().await.expect("a body");
                    took.push(asked.elapsed());
                }
            }
        }
        took
    }

    async fn is_ready(&self) -> bool {
        let Self::Etcd(etcd) = self else { return true };
        let put = Client::new().post(format!("{}/v3/kv/put", etcd.urls[0]));
        let answer = put.json(&json!({ "key": base64(18), "value": "" })).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

/// Words that no two calls agree in, `length` bytes of them.
fn words(length: usize) -> String {
    let mut text = String::new();
    while text.len() < length {
        text += &format!("{:x} ", random(NEXT.fetch_add(1, Ordering::Relaxed)) >> 32);
    }
    text.truncate(length);
    text
}

/// The same as base64 has it, which is made of four characters for each three bytes.
fn base64(length: usize) -> String {
    words(length.div_ceil(3) * 4).replace(' ', "+")
}

/// Requests a second, and their median and 99th percentile in milliseconds.
async fn turn(store: &Store, clients: usize, seconds: u64) -> [f64; 3] {
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds);
    let tasks: Vec<_> =
        (0..clients).map(|client| tokio::spawn(store.clone().store(client, end))).collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.expect("the task ends"));
    }
    took.sort_unstable();
    let quantile = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    [took.len() as f64 / started.elapsed().as_secs_f64(), quantile(50), quantile(99)]
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let cluster = Arc::new(Options::new(&args.binary).nodes(NODES).start());
    let hearth = Store::Hearth(Arc::clone(&cluster));
    let etcd = Store::Etcd(Arc::new(Etcd::start(&args.etcd)));
    let started = Instant::now();
    while !etcd.is_ready().await {
        assert!(started.elapsed() < PATIENCE, "etcd does not come up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "| clients | Hearth creates/s | etcd puts/s | ratio | Hearth p50, p99 ms | etcd p50, p99 ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for clients in CLIENTS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..TURNS {
            // Who goes first has the other's flushes in its turn.
            if number % 2 == 0 {
                ours.push(turn(&hearth, clients, args.seconds).await);
            }
            theirs.push(turn(&etcd, clients, args.seconds).await);
            if number % 2 == 1 {
                ours.push(turn(&hearth, clients, args.seconds).await);
            }
        }
        let median = |turns: &mut Vec<[f64; 3]>| {
            turns.sort_by(|left, right| left[0].total_cmp(&right[0]));
            turns[TURNS / 2]
        };
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!(
            "| {clients} | {:.0} | {:.0} | {:.2} | {:.2}, {:.2} | {:.2}, {:.2} |",
            ours[0],
            theirs[0],
            ours[0] / theirs[0],
            ours[1],
            ours[2],
            theirs[1],
            theirs[2],
        );
    }
    let (mut bytes, mut commands) = (0.0, 0.0);
    for node in cluster.nodes() {
        bytes += node.metric("hearth_executor_batch_bytes_total").await;
        commands += node.metric("hearth_executor_batch_commands_total").await;
    }
    println!("\nBytes of the log a create: {:.0}; of a value: {VALUE_BYTES}.", bytes / commands);
}
