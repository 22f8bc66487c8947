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
use tokio::time::{sleep, timeout};

use crate::timeline::now;
use crate::trace::checksum;
use crate::world::{EndAt, Running, World};

/// Wall clock at the start of a run, in microseconds since 1970.
pub const EPOCH_MICROS: i64 = 1_790_000_000_000_000;
/// Boot time of the first node at the start of a run. Each node started at another time.
const BOOTTIME: Duration = Duration::from_secs(1_000);
/// Time until a connection that nothing accepts is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause of TCP before it sends again what was lost.
const RETRANSMIT_PAUSE: Duration = Duration::from_secs(1);
/// Longest time that a message of a client takes.
const CLIENT_DELAY_MAX: Duration = Duration::from_millis(4);

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

/// Runs `work` in the process of a node, as a request of a client or an operator. `None` if the process ends
/// before it responds.
pub async fn request<F>(world: &Arc<World>, node: NodeId, work: F) -> Option<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let number = world.with_node(node, |node| node.starts);
    sleep(world.random_time(Duration::ZERO, CLIENT_DELAY_MAX)).await;
    let response = world.run_in(node, number, work).await?;
    sleep(world.random_time(Duration::ZERO, CLIENT_DELAY_MAX)).await;
    Some(response)
}

impl Host {
    /// Whether the process has not ended.
    pub fn is_alive(&self) -> bool {
        self.world.is_alive(self.node, self.number)
    }

    async fn step(&self, step: DiskStep) -> storage::Result<()> {
        self.go_on().await;
        let end = self.world.with_node(self.node, |node| {
            let at = node.end_at.as_mut().filter(|at| at.step == step)?;
            at.count = at.count.saturating_sub(1);
            (at.count == 0).then_some(*at)
        });
        if let Some(EndAt { end, down, .. }) = end {
            self.world.count("ends at a step");
            let status = self.listener(self.node).and_then(|(it, _)| it.handle.cluster_status());
            if status.is_some_and(|it| it.changing) {
                self.world.count("ends in a change of members");
            }
            self.world.end(self.node, end, Some(down));
            self.go_on().await;
        }
        let (mut changed, min, max, is_full) = self.world.with(|state| {
            let active = &state.active;
            let (max, is_full) = (active.step_max(self.node, step), active.is_full(self.node));
            let (_, open) = active.snapshot_times();
            let min = if step == DiskStep::Open { open } else { Duration::ZERO };
            (active.changed.subscribe(), min, max, is_full)
        });
        if step == DiskStep::Open {
            self.world.count("opened snapshots");
        }
        let time = min + self.world.random_time(Duration::ZERO, max);
        if time > Duration::from_millis(1) {
            sleep(time).await;
        }
        while self.world.with(|state| state.active.hangs(self.node)) {
            // The sender exists as long as the world.
            drop(changed.changed().await);
        }
        self.go_on().await;
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

    /// Never completes after the end of the process.
    pub async fn go_on(&self) {
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether a message to a node is lost.
    fn is_lost(&self, from: NodeId, to: NodeId) -> bool {
        self.world.with(|state| {
            let (percent, _) = state.active.noise();
            let is_random = percent > 0 && state.random.u8(0..100) < percent;
            is_random || state.active.is_cut(from, to)
        })
    }

    /// Waits as long as a message to a node takes. On the way, it is outside of all processes.
    async fn travel(&self, to: NodeId) {
        let max = self.world.with(|state| state.active.delay_max(to));
        sleep(self.world.random_time(Duration::ZERO, max)).await;
    }

    /// The process that listens at a node; `None` if the connection is refused.
    fn listener(&self, to: NodeId) -> Option<(Running, u32)> {
        self.world.with(|state| {
            let process = state.nodes.get(&to)?.process.as_ref()?;
            Some((process.raft.clone()?, process.number))
        })
    }

    async fn call(
        self,
        channel: Channel,
        to: NodeId,
        message: Bytes,
        claim: Claim,
    ) -> Result<Bytes, RpcError> {
        self.go_on().await;
        let (length, sum) = (message.len(), checksum(&message));
        if self.is_lost(self.node, to) {
            // Either there is no connection, or it takes bytes that go nowhere.
            if self.world.with(|state| state.random.bool()) {
                sleep(CONNECT_TIMEOUT).await;
                return Err(RpcError::NotSent("timeout of the connection".into()));
            }
            claim.take();
            return std::future::pending().await;
        }
        self.travel(to).await;
        let Some((running, number)) = self.listener(to) else {
            return Err(RpcError::NotSent("connection refused".into()));
        };
        if !claim.take() {
            return std::future::pending().await;
        }
        let (from, channel_name) = (self.node, channel_name(channel));
        self.world.trace(&format!("{from}>{to} {channel_name} {length} {sum:08x}"));
        let is_doubled = channel == Channel::Raft
            && self.world.with(|state| {
                let (_, percent) = state.active.noise();
                percent > 0 && state.random.u8(0..100) < percent
            });
        if is_doubled {
            let (again, endpoint) = (self.clone(), running.endpoint.clone());
            let message = message.clone();
            tokio::spawn(async move {
                again.travel(to).await;
                let call = async move { endpoint.call(message).await.is_ok() };
                again.world.run_in(to, number, call).await
            });
        }
        let endpoint = running.endpoint;
        let call = async move { endpoint.call(message).await };
        let response = self.world.run_in(to, number, call).await;
        self.respond(to, response).await
    }

    async fn carry_snapshot(self, to: NodeId, bytes: Bytes) -> Result<Bytes, RpcError> {
        self.go_on().await;
        let (transfer, _) = self.world.with(|state| state.active.snapshot_times());
        sleep(transfer).await;
        if self.is_lost(self.node, to) {
            sleep(CONNECT_TIMEOUT).await;
            return Err(RpcError::NotSent("timeout of the connection".into()));
        }
        self.travel(to).await;
        let Some((running, number)) = self.listener(to) else {
            return Err(RpcError::NotSent("connection refused".into()));
        };
        self.world.trace(&format!("{}>{to} snapshot", self.node));
        let endpoint = running.endpoint;
        let receiving = async move { endpoint.receive_snapshot(bytes).await };
        let response = self.world.run_in(to, number, receiving).await;
        // TCP sends it again: unlike a call, this one has no time limit of its own.
        while self.is_lost(to, self.node) {
            sleep(RETRANSMIT_PAUSE).await;
        }
        self.travel(self.node).await;
        response.unwrap_or_else(|| Err(lost()))
    }

    /// Brings a response back.
    async fn respond(
        &self,
        to: NodeId,
        response: Option<Result<Bytes, RpcError>>,
    ) -> Result<Bytes, RpcError> {
        if self.is_lost(to, self.node) {
            if self.world.with(|state| state.random.bool()) {
                return std::future::pending().await;
            }
            self.travel(self.node).await;
            return Err(lost());
        }
        self.travel(self.node).await;
        response.unwrap_or_else(|| Err(lost()))
    }
}

fn lost() -> RpcError {
    RpcError::Lost("the connection was lost".into())
}

fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Raft => "raft",
        Channel::Forward => "forward",
        Channel::Snapshot => "snapshot",
    }
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
        let (now, boottime) = (now(), BOOTTIME * self.node as u32 + now());
        self.world.with_node(self.node, |node| ClockReading {
            wall_clock: Timestamp(EPOCH_MICROS + now.as_micros() as i64 + node.wall_clock_error),
            boottime,
            monotonic: boottime - node.suspended,
        })
    }

    fn start_thread(
        &self,
        _name: &str,
        task: BoxFuture<'static, ()>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        drop(tokio::spawn(task));
        Ok(None)
    }

    fn run_blocking(&self, work: Work) -> BoxFuture<'static, ()> {
        async move { work() }.boxed()
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
        self.world.run_outside(host.call(channel, to, message.into(), claim)).boxed()
    }

    fn send_snapshot(
        &self,
        address: &str,
        snapshot: SentSnapshot,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let (host, to) = (self.clone(), node_at(address));
        async move {
            let mut bytes = Vec::new();
            snapshot.write(&mut bytes).map_err(|error| RpcError::NotSent(error.to_string()))?;
            let world = Arc::clone(&host.world);
            world.run_outside(host.carry_snapshot(to, bytes.into())).await
        }
        .boxed()
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<()>> {
        let (host, to) = (self.clone(), node_at(address));
        let connecting = async move {
            if host.is_lost(host.node, to) || host.is_lost(to, host.node) {
                return std::future::pending().await;
            }
            drop(timeout(CONNECT_TIMEOUT, host.travel(to)).await);
            match host.listener(to) {
                Some(_) => Ok(()),
                None => Err(ErrorKind::ConnectionRefused.into()),
            }
        };
        self.world.run_outside(connecting).boxed()
    }
}
