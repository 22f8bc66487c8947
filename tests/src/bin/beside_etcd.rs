//! Three nodes beside three members of etcd, for orientation: the same generator, disk and value
//! size, loaded in turns. etcd is Debian's `etcd-server` behind its HTTP/JSON gateway without
//! TLS. Hearth uses HTTPS, and mutual TLS between nodes. A create also indexes words and a
//! vector and evaluates rules, which its figure includes.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use reqwest::Client;
use tempfile::TempDir;
use tests::engine::random;
use tests::{Cluster, Load, Method, Options, Request, eventually, json};

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

/// The requests of one client, which stores through one node over its own connection.
type Requests = Box<dyn FnMut() -> Request + Send>;

fn creates(cluster: &Arc<Cluster>, client: usize) -> Requests {
    let (cluster, agent) = (Arc::clone(cluster), cluster.new_agent());
    Box::new(move || {
        let create = agent.request(cluster.at(client % NODES), Method::POST, "/agent/nodes");
        create.json(&json!({ "label": words(LABEL_BYTES) }))
    })
}

fn puts(etcd: &Etcd, client: usize) -> Requests {
    let (own, url) = (Client::new(), format!("{}/v3/kv/put", etcd.urls[client % NODES]));
    Box::new(move || {
        let put = json!({ "key": base64(18), "value": base64(VALUE_BYTES) });
        Request(own.post(&url)).json(&put)
    })
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

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let cluster = Arc::new(Options::new(&args.binary).nodes(NODES).start());
    let etcd = Etcd::start(&args.etcd);
    let put = async || puts(&etcd, 0)().try_send().await;
    let stored = async || put().await.is_ok_and(|response| response.status.is_success());
    eventually("etcd is ready", stored, |stored| *stored).await;
    println!(
        "| clients | Hearth creates/s | etcd puts/s | ratio | Hearth p50, p99 ms | etcd p50, p99 ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for clients in CLIENTS {
        let mut turns = [Vec::new(), Vec::new()];
        for number in 0..TURNS {
            // In alternating order: the first turn includes flushes of the other system.
            for at in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                let client = |client| match at {
                    0 => creates(&cluster, client),
                    _ => puts(&etcd, client),
                };
                let load = Load::run(clients, Duration::from_secs(args.seconds), client).await;
                turns[at].push([load.rate(), load.millis(50), load.millis(99)]);
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
