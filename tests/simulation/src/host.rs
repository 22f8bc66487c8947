//! The machine and the network of one process.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use raft::NodeId;
use raft::simulation::{
    Channel, Claim, ClockReading, DiskStep, Machine, RpcError, SentSnapshot, Transport, Work,
};
use storage::model::id::Timestamp;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::world::{EPOCH_MICROS, EndAt, Running, World};

/// Time until a connection that nothing accepts is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Of one process of a node.
#[derive(Clone)]
pub struct Host {
    /// The world.
    pub world: Arc<World>,
    /// The node.
    pub node: NodeId,
    /// Number of the process.
    pub number: u32,
}

/// The address of a node.
pub fn address(node: NodeId) -> String {
    format!("n{node}:1")
}

fn node_at(address: &str) -> NodeId {
    let number = address.trim_start_matches('n').split(':').next().and_then(|it| it.parse().ok());
    number.expect("an address of this world")
}

impl Host {
    fn is_alive(&self) -> bool {
        self.world.with_node(self.node, |node| {
            node.process.as_ref().is_some_and(|process| process.number == self.number)
        })
    }

    /// Waits while the process is paused. Never completes after its end.
    async fn turn(&self) {
        let mut paused = self.world.with_node(self.node, |node| node.paused.subscribe());
        // The sender exists as long as the world.
        drop(paused.wait_for(|is_paused| !is_paused).await);
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }

    async fn step(&self, step: DiskStep) -> storage::Result<()> {
        self.turn().await;
        let end = self.world.with_node(self.node, |node| {
            let at = node.disk.end_at.as_mut().filter(|at| at.step == step)?;
            at.count = at.count.saturating_sub(1);
            (at.count == 0).then_some(*at)
        });
        if let Some(EndAt { end, down, .. }) = end {
            self.world.end(self.node, end, Some(down));
            std::future::pending::<()>().await;
        }
        let (mut hangs, max, is_full) = self.world.with_node(self.node, |node| {
            (node.disk.hangs.subscribe(), node.disk.step_max, node.disk.is_full)
        });
        let time = self.world.random_time(Duration::ZERO, max);
        if time > Duration::from_millis(1) {
            sleep(time).await;
        }
        drop(hangs.wait_for(|hangs| !hangs).await);
        self.turn().await;
        match is_full && step != DiskStep::LogMark {
            true => {
                self.world.with_node(self.node, |node| {
                    node.process.iter_mut().for_each(|it| it.has_failed_step = true);
                });
                Err(no_space())
            }
            false => Ok(()),
        }
    }

    /// Whether a message to a node is lost.
    fn is_lost(&self, from: NodeId, to: NodeId) -> bool {
        self.world.with(|state| {
            let percent = state.network.lost_percent;
            let is_random = percent > 0 && state.random.u8(0..100) < percent;
            is_random || state.network.cut.contains(&(from, to))
        })
    }

    /// Waits as long as a message takes.
    async fn travel(&self) {
        let (min, max) =
            self.world.with(|state| (state.network.delay_min, state.network.delay_max));
        sleep(self.world.random_time(min, max)).await;
    }

    /// The process that listens at a node; `None` if the connection is refused.
    fn listener(&self, to: NodeId) -> Option<(Running, u32)> {
        self.world.with(|state| {
            let process = state.nodes.get(&to)?.process.as_ref()?;
            Some((process.raft.clone()?, process.number))
        })
    }

    /// Runs a call in the process of another node. Its end loses the response.
    async fn run_there<F>(&self, to: NodeId, number: u32, call: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, response) = oneshot::channel();
        let there = Self { world: Arc::clone(&self.world), node: to, number };
        let task = tokio::spawn(async move {
            there.turn().await;
            let response = call.await;
            there.turn().await;
            drop(sender.send(response));
        });
        self.world.keep_task(to, number, task.abort_handle());
        response.await.ok()
    }

    async fn call(
        self,
        channel: Channel,
        to: NodeId,
        message: Bytes,
        claim: Claim,
    ) -> Result<Bytes, RpcError> {
        self.turn().await;
        let summary = (message.len(), sum(&message));
        if self.is_lost(self.node, to) {
            // Either there is no connection, or it takes bytes that go nowhere.
            if self.world.with(|state| state.random.bool()) {
                sleep(CONNECT_TIMEOUT).await;
                return Err(RpcError::NotSent("timeout of the connection".into()));
            }
            claim.take();
            return std::future::pending().await;
        }
        self.travel().await;
        let Some((running, number)) = self.listener(to) else {
            return Err(RpcError::NotSent("connection refused".into()));
        };
        if !claim.take() {
            return std::future::pending().await;
        }
        let (from, length, sum_sent) = (self.node, summary.0, summary.1);
        self.world.trace(&format!("{from}>{to} {} {length} {sum_sent:08x}", channel_name(channel)));
        let is_doubled = channel == Channel::Raft
            && self.world.with(|state| {
                let percent = state.network.doubled_percent;
                percent > 0 && state.random.u8(0..100) < percent
            });
        if is_doubled {
            let (again, endpoint) = (self.clone(), running.endpoint.clone());
            let message = message.clone();
            tokio::spawn(async move {
                again.travel().await;
                let call = async move { endpoint.call(message).await.is_ok() };
                again.run_there(to, number, call).await
            });
        }
        let endpoint = running.endpoint;
        let call = async move { endpoint.call(message).await };
        let response = self.run_there(to, number, call).await;
        self.respond(to, response).await
    }

    /// Brings a response back.
    async fn respond(
        &self,
        to: NodeId,
        response: Option<Result<Bytes, RpcError>>,
    ) -> Result<Bytes, RpcError> {
        let lost = || RpcError::Lost("the connection was lost".into());
        if self.is_lost(to, self.node) {
            if self.world.with(|state| state.random.bool()) {
                return std::future::pending().await;
            }
            self.travel().await;
            return Err(lost());
        }
        self.travel().await;
        self.turn().await;
        response.unwrap_or_else(|| Err(lost()))
    }
}

fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Raft => "raft",
        Channel::Forward => "forward",
        Channel::Snapshot => "snapshot",
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn no_space() -> storage::Error {
    storage::Error::File {
        action: "write",
        path: PathBuf::from("simulated"),
        source: ErrorKind::StorageFull.into(),
    }
}

impl Machine for Host {
    fn clocks(&self) -> ClockReading {
        let boottime = self.world.boottime(self.node);
        self.world.with_node(self.node, |node| {
            let elapsed = self.world.elapsed().as_micros() as i64;
            ClockReading {
                wall_clock: Timestamp(EPOCH_MICROS + elapsed + node.clock.error_micros),
                boottime,
                monotonic: boottime - node.clock.suspended,
            }
        })
    }

    fn start_thread(
        &self,
        _name: &str,
        task: BoxFuture<'static, ()>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        self.world.keep_task(self.node, self.number, tokio::spawn(task).abort_handle());
        Ok(None)
    }

    fn run_blocking(&self, work: Work) -> BoxFuture<'static, ()> {
        let host = self.clone();
        async move {
            host.turn().await;
            work();
        }
        .boxed()
    }

    fn before(&self, step: DiskStep) -> BoxFuture<'static, storage::Result<()>> {
        let host = self.clone();
        async move { host.step(step).await }.boxed()
    }
}

impl Transport for Host {
    fn call(
        &self,
        channel: Channel,
        address: &str,
        message: Vec<u8>,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let (host, to) = (self.clone(), node_at(address));
        async move { host.call(channel, to, message.into(), claim).await }.boxed()
    }

    fn send_snapshot(
        &self,
        address: &str,
        snapshot: SentSnapshot,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let (host, to) = (self.clone(), node_at(address));
        async move {
            host.turn().await;
            let mut bytes = Vec::new();
            snapshot.write(&mut bytes).map_err(|error| RpcError::NotSent(error.to_string()))?;
            let time = host.world.with(|state| state.network.snapshot);
            sleep(time).await;
            if host.is_lost(host.node, to) {
                sleep(CONNECT_TIMEOUT).await;
                return Err(RpcError::NotSent("timeout of the connection".into()));
            }
            host.travel().await;
            let Some((running, number)) = host.listener(to) else {
                return Err(RpcError::NotSent("connection refused".into()));
            };
            host.world.trace(&format!("{}>{to} snapshot", host.node));
            let endpoint = running.endpoint;
            let receiving = async move { endpoint.receive_snapshot(bytes.into()).await };
            let response = host.run_there(to, number, receiving).await;
            host.respond(to, response).await
        }
        .boxed()
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<()>> {
        let (host, to) = (self.clone(), node_at(address));
        async move {
            host.turn().await;
            if host.is_lost(host.node, to) || host.is_lost(to, host.node) {
                return std::future::pending().await;
            }
            drop(timeout(CONNECT_TIMEOUT, host.travel()).await);
            match host.listener(to) {
                Some(_) => Ok(()),
                None => Err(ErrorKind::ConnectionRefused.into()),
            }
        }
        .boxed()
    }
}
