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
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Source address of the attacker. Honest clients use 127.0.0.1.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// A latency that honest clients accept beside an attack.
const LATENCY_MAX: Duration = Duration::from_millis(100);

/// The address in a URL.
pub(super) fn address(url: &str) -> SocketAddr {
    url.split('/').nth(2).unwrap().parse().unwrap()
}

pub(super) async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    socket.connect(address).await
}

/// A TLS connection to the public listener of a node for HTTP/2.
pub(super) async fn connect_tls(cluster: &Cluster, node: &Node) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(cluster.folder().join("ca.pem")).unwrap();
    roots.add(authority).unwrap();
    let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = connect(address(node.url())).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
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

/// A percentile of the latencies of `requests` honest requests, one after another. It is the
/// median by default, since other tests use the machine too; `make soak` sets 99.
pub(super) async fn latency(requests: usize, request: impl Fn() -> Request) -> Duration {
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
        self.thread.take().map(JoinHandle::join);
    }
}

/// Asserts that an attack does not slow honest requests much.
#[track_caller]
pub(super) fn assert_served(quiet: Duration, attacked: Duration) {
    assert!(
        attacked <= LATENCY_MAX.max(5 * quiet),
        "{quiet:?} without, {attacked:?} with the attack"
    );
}
