//! TCP proxies between the nodes of a cluster, which delay what they pass on, and pass so many bytes
//! per second.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::{Cluster, free_address};

/// Bytes that are passed on together.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks on their way.
const CHUNKS_MAX: usize = 64;

/// How slow a link is, in each direction.
#[derive(Clone, Copy)]
pub struct Slowness {
    /// Time that each byte takes longer.
    pub delay: Duration,
    /// Bytes that pass in a second.
    pub bytes_per_second: u64,
}

impl Slowness {
    /// A link that only delays.
    pub fn of_delay(delay: Duration) -> Self {
        Self { delay, bytes_per_second: u64::MAX }
    }

    fn time_of(self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }
}

/// The links of a cluster, until they are dropped.
pub struct Links {
    proxies: Vec<Proxy>,
}

/// What stands in front of a node.
struct Proxy {
    address: String,
    node: SocketAddr,
    slowness: Slowness,
    task: JoinSet<()>,
}

impl Proxy {
    async fn start(&mut self) {
        let listener = TcpListener::bind(&self.address).await.expect("the port is free");
        self.task.spawn(accept(listener, self.node, self.slowness));
    }
}

impl Links {
    /// Restarts the nodes of a cluster so that all their messages pass proxies. `environment` is what
    /// the node at a position gets beside that.
    pub async fn between(
        cluster: &Cluster,
        slowness: Slowness,
        environment: impl Fn(usize) -> Vec<(&'static str, String)>,
    ) -> Self {
        let mut proxies = Vec::new();
        // All at once: a node at its old address would be reached without a proxy.
        cluster.nodes().for_each(|node| node.kill());
        for node in cluster.nodes() {
            let address = node.peer_address();
            let node = free_address();
            let mut proxy = Proxy { address, node, slowness, task: JoinSet::new() };
            proxy.start().await;
            proxies.push(proxy);
        }
        for (at, node) in cluster.nodes().enumerate() {
            let proxy = &proxies[at];
            let mut variables = environment(at);
            variables.push(("HEARTH__PEER__LISTEN", proxy.node.to_string()));
            variables.push(("HEARTH__PEER__ADDRESS", proxy.address.clone()));
            let variables: Vec<_> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            node.start_with(&variables);
        }
        for node in cluster.nodes() {
            node.ready().await;
        }
        Self { proxies }
    }

    /// Restarts the proxy in front of a node. It resets its connections, and refuses new ones for a
    /// while.
    pub async fn restart(&mut self, at: usize, pause: Duration) {
        let proxy = &mut self.proxies[at];
        proxy.task.shutdown().await;
        tokio::time::sleep(pause).await;
        proxy.start().await;
    }
}

async fn accept(proxy: TcpListener, to: SocketAddr, slowness: Slowness) {
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = proxy.accept().await {
        connections.spawn(async move {
            let Ok(node) = TcpStream::connect(to).await else { return };
            for stream in [&caller, &node] {
                stream.set_nodelay(true).expect("it is connected");
                // One that is dropped is reset.
                stream.set_zero_linger().expect("it is connected");
            }
            let (from_caller, to_caller) = caller.into_split();
            let (from_node, to_node) = node.into_split();
            // Either end closes both, as a link that is lost does.
            tokio::select! {
                () = pass(from_caller, to_node, slowness) => {}
                () = pass(from_node, to_caller, slowness) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Passes bytes on until one end is closed.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    slowness: Slowness,
) {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
    let read = async move {
        let (mut buffer, mut sent) = (vec![0; CHUNK_BYTES], Instant::now());
        while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
            sent = sent.max(Instant::now()) + slowness.time_of(bytes);
            let chunk = (sent + slowness.delay, buffer[..bytes].to_vec());
            if sender.send(chunk).await.is_err() {
                return;
            }
        }
    };
    let write = async {
        while let Some((due, chunk)) = chunks.recv().await {
            sleep_until(due).await;
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
