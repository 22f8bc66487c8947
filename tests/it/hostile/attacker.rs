//! What an attacker does: connections from an address of its own; and what is measured beside it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::held_back::{HeldBack, get};
use super::*;

/// Last byte of the source address of an attacker. Honest clients use 127.0.0.1.
const ATTACKER: u8 = 2;
/// How many times as long honest requests may take beside an attack. It takes the same two
/// processors as they do, and an unoptimised build gives it more to compute; `make soak` sets the five
/// of docs/security.md.
const SLOWER: u64 = 10;
/// Latency in milliseconds that is no delay. Other tests take the processors too; `make soak` sets the
/// 100 of docs/security.md.
const LATENCY_MS: u64 = 300;

/// Honest requests whose latencies are compared.
const REQUESTS: u64 = 50;

/// The address in a URL.
pub(super) fn address(url: &str) -> SocketAddr {
    url.split('/').nth(2).unwrap().parse().unwrap()
}

pub(super) async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    connect_from(ATTACKER, address).await
}

/// A connection from 127.0.0.`source`.
pub(super) async fn connect_from(source: u8, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, source), 0).into())?;
    socket.connect(address).await
}

/// TLS for HTTP/2, or without `h2` for HTTP/1, that trusts the authority of a cluster.
pub(super) fn tls(cluster: &Cluster, h2: bool) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(cluster.folder().join("ca.pem")).unwrap();
    roots.add(authority).unwrap();
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = if h2 { vec![b"h2".to_vec()] } else { Vec::new() };
    TlsConnector::from(Arc::new(tls))
}

/// TLS over a connection to a listener on loopback.
pub(super) async fn over_tls(
    tls: &TlsConnector,
    stream: std::io::Result<TcpStream>,
) -> std::io::Result<TlsStream<TcpStream>> {
    tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream?).await
}

/// A TLS connection to the public listener of a node for HTTP/2.
pub(super) async fn connect_tls(cluster: &Cluster, node: &Node) -> TlsStream<TcpStream> {
    let stream = connect(address(node.url())).await;
    over_tls(&tls(cluster, true), stream).await.unwrap()
}

/// How long the other end keeps a connection open.
pub(super) async fn open_for(mut stream: impl tokio::io::AsyncRead + Unpin) -> Duration {
    let start = Instant::now();
    let read_to_end = async {
        let mut buffer = [0; 1024];
        while stream.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    };
    tokio::time::timeout(PATIENCE, read_to_end).await.expect("the connection ends");
    start.elapsed()
}

/// A field of the status of a node's process, in MB: `VmRSS` is its memory, `VmHWM` the peak.
pub(super) fn memory_mb(node: &Node, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    let kibibytes = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap();
    kibibytes / 1024
}

/// A percentile of the latencies of honest requests, one after another. It is the median by
/// default, since other tests use the machine too; `make soak` sets 99, and more requests.
pub(super) async fn latency(request: impl Fn() -> Request) -> Duration {
    let requests = setting("HEARTH_REQUESTS", REQUESTS) as usize;
    let mut latencies = Vec::new();
    for _ in 0..requests {
        let start = Instant::now();
        request().send().await.ok();
        latencies.push(start.elapsed());
    }
    latencies.sort_unstable();
    latencies[requests * setting("HEARTH_PERCENTILE", 50) as usize / 100 - 1]
}

/// An attack by clients that repeat one request, on a thread of its own: it must not delay the
/// honest client itself.
pub(super) struct Attack {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    /// `clients` repeat the request of `key` at a node until this is dropped.
    pub(super) fn requests(
        cluster: &Cluster,
        node: &Node,
        clients: usize,
        key: &Value,
        (path, body): (&str, &Value),
    ) -> Self {
        let url = format!("{}/api/v1{path}", node.url());
        let (client, key) = (client(&cluster.folder().join("ca.pem")), string(&key["key"]));
        let request = client.post(url).bearer_auth(key).json(body);
        Self::start(async move |stop: &AtomicBool| {
            let repeat = async || {
                while !stop.load(Ordering::Relaxed) {
                    // A rejected or interrupted request is repeated too.
                    Request(request.try_clone().unwrap()).try_send().await.ok();
                }
            };
            join_all((0..clients).map(|_| repeat())).await;
        })
    }

    /// Keeps as many connections without a byte as a listener accepts.
    pub(super) fn silence(address: SocketAddr) -> Self {
        Self::start(async move |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                let opened = join_all((0..50).map(|_| connect(address))).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
                drop(opened);
            }
        })
    }

    /// Sends `start` over each of 40 connections from 127.0.0.`source`, then `frames` again and
    /// again, and reads what comes back. Opens another connection for each that ends.
    pub(super) fn frames(
        cluster: &Cluster,
        node: &Node,
        source: u8,
        (start, frames): (Vec<u8>, Vec<u8>),
    ) -> Self {
        let (tls, address) = (tls(cluster, true), address(node.url()));
        Self::start(async move |stop: &AtomicBool| {
            let repeat = async || {
                while !stop.load(Ordering::Relaxed) {
                    let stream = connect_from(source, address).await;
                    match over_tls(&tls, stream).await {
                        Ok(stream) => drop(send(stream, &start, &frames, stop).await),
                        // The processors are those of the node.
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            };
            join_all((0..40).map(|_| repeat())).await;
        })
    }

    /// Asks for pages over connections from 127.0.0.`source` and reads none of them.
    pub(super) fn held_back(cluster: &Cluster, node: &Node, source: u8, key: &Value) -> Self {
        let (tls, address) = (tls(cluster, true), address(node.url()));
        let pages = format!("{}/api/v1/agent/nodes?page_size=100", node.url());
        let key = string(&key["key"]).to_owned();
        Self::start(async move |stop: &AtomicBool| {
            let mut held = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let stream = connect_from(source, address).await;
                if let Ok(stream) = over_tls(&tls, stream).await
                    && let Ok(client) = HeldBack::start(stream, get(&pages, &key), 0).await
                {
                    held.push(client);
                }
                held.retain(HeldBack::is_open);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
    }

    fn start(attack: impl AsyncFnOnce(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(attack(&stopped));
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            std::thread::panicking() || matches!(ended, Some(Ok(()))),
            "the attack ended early"
        );
    }
}

/// Sends `start`, then `frames` again and again, and reads what comes back.
async fn send(
    stream: TlsStream<TcpStream>,
    start: &[u8],
    frames: &[u8],
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let (mut received, mut sent) = tokio::io::split(stream);
    let mut ignored = tokio::io::sink();
    let read = tokio::io::copy(&mut received, &mut ignored);
    let write = async {
        sent.write_all(start).await?;
        while !frames.is_empty() && !stop.load(Ordering::Relaxed) {
            sent.write_all(frames).await?;
        }
        Ok(())
    };
    tokio::select! { ended = read => ended.map(drop), ended = write => ended }
}

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a client of HTTP/2 sends first.
pub(super) fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat()
}

/// Asserts that an attack does not slow honest requests much.
#[track_caller]
pub(super) fn assert_served(quiet: Duration, attacked: Duration) {
    let no_delay = Duration::from_millis(setting("HEARTH_LATENCY_MS", LATENCY_MS));
    let most = no_delay.max(setting("HEARTH_SLOWER", SLOWER) as u32 * quiet);
    assert!(attacked <= most, "{quiet:?} without, {attacked:?} with the attack");
}

/// These tests take both processors, so they measure one after another.
pub(super) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Asserts that another key's creates are served while `clients` of an agent's key repeat a write.
pub(super) async fn assert_creates_served(
    cluster: &Cluster,
    clients: usize,
    (path, body): (&str, &Value),
) {
    let _alone = ALONE.lock().await;
    let hostile = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let create = || cluster.request(Method::POST, "/agent/nodes").json(&labelled("honest"));
    let quiet = latency(create).await;
    let attack = Attack::requests(cluster, cluster, clients, &hostile, (path, body));
    let running = async || cluster.metric("hearth_requests_in_progress").await;
    eventually("the attack runs", running, |requests| *requests >= clients as f64 / 8.0).await;
    let attacked = latency(create).await;
    drop(attack);
    assert_served(quiet, attacked);
}
