//! Three nodes beside three members of etcd: the same generator, disk and value size, TLS between
//! members and to clients, and all clients at the leader. They are loaded in turns. etcd is Debian's
//! `etcd-server` behind its HTTP/JSON gateway. A create also indexes words and a vector and
//! evaluates rules, which its figure includes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use reqwest::Client;
use tempfile::TempDir;
use tests::Limit::AtLeast;
use tests::engine::random;
use tests::{
    Beside, Cluster, Load, Method, Options, Request, Requests, eventually, free_addresses, json,
    print_target,
};

/// Bytes of an etcd value.
const VALUE_BYTES: usize = 1_700;
/// Words of a label, with which a create writes about as many bytes to the log. The last line of the
/// output has the exact number.
const LABEL_WORDS: usize = 100;
/// Words that labels are made of.
const VOCABULARY: usize = 20_000;
/// Memories of a batch, and clients that store batches.
const BATCH: usize = 50;
const BATCH_CLIENTS: usize = 4;
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
    /// A file with the words of labels.
    #[arg(long)]
    texts: PathBuf,
    /// Seconds per turn.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Three members, which end with this value.
struct Etcd {
    members: Vec<Child>,
    urls: Vec<String>,
    /// Accepts the certificates that the members have made themselves.
    client: Client,
    _folder: TempDir,
}

impl Etcd {
    fn start(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let urls = free_addresses::<{ 2 * NODES }>().map(|address| format!("https://{address}"));
        let (peers, urls) = (&urls[..NODES], urls[NODES..].to_vec());
        let all = peers.iter().enumerate().map(|(at, peer)| format!("m{at}={peer}"));
        let all = all.collect::<Vec<_>>().join(",");
        let start = |at: usize| {
            Command::new(binary)
                .args(["--name", &format!("m{at}"), "--log-level", "error"])
                .args(["--auto-tls", "--peer-auto-tls"])
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
        let client = new_client();
        Self { members: (0..NODES).map(start).collect(), urls, client, _folder: folder }
    }

    /// The member that leads, once there is one.
    async fn leader(&self) -> Option<String> {
        for url in &self.urls {
            let status = Request(self.client.post(format!("{url}/v3/maintenance/status")));
            let status = status.json(&json!({})).try_send().await.ok()?;
            let status = status.body;
            if status["leader"].is_string() && status["leader"] == status["header"]["member_id"] {
                return Some(url.clone());
            }
        }
        None
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

fn new_client() -> Client {
    let client = Client::builder().danger_accept_invalid_certs(true);
    client.build().expect("a client without files")
}

/// The creates of one client over its own connection to the leader.
fn creates(cluster: &Arc<Cluster>, leader: usize, words: &Arc<Vec<String>>) -> Requests {
    let (cluster, agent, words) = (Arc::clone(cluster), cluster.new_agent(), Arc::clone(words));
    Box::new(move || {
        let create = agent.request(cluster.at(leader), Method::POST, "/agent/nodes");
        create.json(&json!({ "label": label(&words) }))
    })
}

fn batches(cluster: &Arc<Cluster>, leader: usize, words: &Arc<Vec<String>>) -> Requests {
    let (cluster, agent, words) = (Arc::clone(cluster), cluster.new_agent(), Arc::clone(words));
    Box::new(move || {
        let create = agent.request(cluster.at(leader), Method::POST, "/agent/nodes/batch");
        let node = |_| json!({ "label": label(&words) });
        create.json(&json!({ "nodes": (0..BATCH).map(node).collect::<Vec<_>>() }))
    })
}

fn label(words: &[String]) -> String {
    let word = |_| words[next() as usize % words.len()].as_str();
    (0..LABEL_WORDS).map(word).collect::<Vec<_>>().join(" ")
}

fn puts(leader: &str) -> Requests {
    let (own, url) = (new_client(), format!("{leader}/v3/kv/put"));
    Box::new(move || {
        let put = json!({ "key": base64(18), "value": base64(VALUE_BYTES) });
        Request(own.post(&url)).json(&put)
    })
}

/// A random number.
fn next() -> u64 {
    random(NEXT.fetch_add(1, Ordering::Relaxed)) >> 16
}

/// A random value of `length` bytes in base64, which has four characters per three bytes.
fn base64(length: usize) -> String {
    let digits = (0..length.div_ceil(3)).map(|_| format!("{:04x}", next() as u16));
    digits.collect()
}

/// The first distinct words of a file of texts in alphabetical order.
fn vocabulary(texts: &Path) -> Vec<String> {
    let texts = std::fs::read_to_string(texts).expect("the file of texts");
    let is_plain = |word: &&str| word.len() >= 4 && word.bytes().all(|b| b.is_ascii_lowercase());
    let words: BTreeSet<&str> = texts.split_whitespace().filter(is_plain).collect();
    words.into_iter().take(VOCABULARY).map(str::to_owned).collect()
}

/// Both systems without data, and what is sent to them.
struct Systems {
    cluster: Arc<Cluster>,
    own_leader: usize,
    leader: String,
    words: Arc<Vec<String>>,
    _etcd: Etcd,
}

impl Systems {
    async fn start(args: &Args) -> Self {
        let cluster = Arc::new(Options::new(&args.binary).nodes(NODES).start());
        let etcd = Etcd::start(&args.etcd);
        let leader = eventually("etcd is ready", || etcd.leader(), Option::is_some).await;
        let (leader, own_leader) = (leader.expect("it was waited for"), cluster.leader().await);
        let words = Arc::new(vocabulary(&args.texts));
        Self { cluster, own_leader, leader, words, _etcd: etcd }
    }

    /// Bytes of the log per create so far.
    async fn log_bytes(&self) -> f64 {
        let (mut bytes, mut commands) = (0.0, 0.0);
        for node in self.cluster.nodes() {
            bytes += node.metric("hearth_executor_batch_bytes_total").await;
            commands += node.metric("hearth_executor_batch_commands_total").await;
        }
        bytes / commands
    }
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let time = Duration::from_secs(args.seconds);
    let beside = Beside { units: ["creates", "puts"], other: "etcd", turns: TURNS, time };
    let mut puts_per_second = 0.0;
    // Each number of clients begins without data: no tenant has so many memories that its graph is
    // built, which `load --growth` measures.
    for (clients, limit) in [(1, 1.0), (16, 1.2), (64, 1.3)] {
        let systems = Systems::start(&args).await;
        let client = |at| match at {
            0 => creates(&systems.cluster, systems.own_leader, &systems.words),
            _ => puts(&systems.leader),
        };
        puts_per_second = beside.run(client, &[(clients, Some(limit))]).await;
        let bytes = systems.log_bytes().await;
        println!("Log bytes per create: {bytes:.0}; bytes per value: {VALUE_BYTES}.\n");
    }
    let systems = Systems::start(&args).await;
    let client = |_| batches(&systems.cluster, systems.own_leader, &systems.words);
    let memories = Load::run(BATCH_CLIENTS, time, client).await.rate() * BATCH as f64;
    println!("Memories per second in batches of {BATCH} by {BATCH_CLIENTS} clients: {memories:.0}");
    let ratio = memories / puts_per_second;
    print_target("memories in batches against puts of 64 clients", ratio, AtLeast(2.0));
}
