//! The handle: the rest of the node uses raft through it. It submits commands, gives read
//! guarantees and returns the status, whether this node leads or another one does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use parking_lot::Mutex;
use rustls::ClientConfig;
use storage::Command;
use storage::model::id::{TenantId, Timestamp};
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Span;

use crate::error::{ReadError, SubmitError, SubmitResult};
use crate::fault::Fault;
use crate::forward;
use crate::grants::{Grant, GrantRequest};
use crate::membership::operations::{Operations, is_responsive, status};
use crate::network::https::{Https, causes};
use crate::operation::{ClusterStatus, OperateError, OperateResult, Operation, OperationResult};
use crate::shared::{Shared, Totals};
use crate::state_machine::SnapshotFolder;
use crate::timings::Timings;
use crate::types::NodeId;

/// Maximum wait for raft at shutdown, and for the end of its threads.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Access to raft on this node. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Mode>);

enum Mode {
    Running(Running),
    /// Serves its operator, but takes no part in the cluster.
    Quarantined {
        node: NodeId,
        reason: String,
        fault: Fault,
    },
}

struct Running {
    shared: Arc<Shared>,
    /// `None` after the shutdown, and in a simulation.
    host: Mutex<Option<Host>>,
}

/// Where raft runs: its runtime, the thread of the executor, which ends with raft, and the connections to
/// peers.
pub(crate) struct Host {
    pub(crate) runtime: Runtime,
    pub(crate) executor: Option<JoinHandle<()>>,
    pub(crate) https: Arc<Https>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A drop may run on another runtime, where waiting for this one would panic.
        if let Some(host) = self.host.get_mut().take() {
            host.runtime.shutdown_background();
        }
    }
}

/// What a node does, as it knows itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeRole {
    /// It receives the log, and does not vote.
    Learner,
    /// It votes, and follows a leader.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader,
    /// It takes no part: its state differs from that of the others.
    Quarantined,
    /// It stops.
    #[default]
    Shutdown,
}

/// Status of a node in its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// What it does.
    pub role: NodeRole,
    /// The leader; `None` if this node has no contact with one.
    pub leader: Option<NodeId>,
    /// Present term.
    pub term: u64,
    /// Index of the last entry in the log.
    pub last_log_index: u64,
    /// The commit index of this node.
    pub commit_index: u64,
    /// Index of the last applied entry.
    pub applied_index: u64,
    /// Index up to which the state is durable without the log. The log above it is replayed at
    /// start.
    pub snapshot_index: u64,
    /// Index of the last entry that was purged from the log.
    pub purged_index: u64,
    /// Commands in the queue of the executor.
    pub queued: usize,
    /// Why the node is quarantined; `None` if it is not.
    pub quarantine: Option<String>,
}

impl Handle {
    pub(crate) fn running(shared: Arc<Shared>, host: Option<Host>) -> Self {
        Self(Arc::new(Mode::Running(Running { shared, host: Mutex::new(host) })))
    }

    /// A handle for a node that is quarantined for `reason`.
    pub fn quarantined(node: NodeId, reason: String) -> Self {
        Self(Arc::new(Mode::Quarantined { node, reason, fault: Fault::default() }))
    }

    /// The state of running raft; `None` on a quarantined node.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        match &*self.0 {
            Mode::Running(running) => Some(&running.shared),
            Mode::Quarantined { .. } => None,
        }
    }

    /// Submits `command` to the leader and waits for the outcome, until `deadline` at most.
    ///
    /// # Errors
    /// See [`SubmitError`]. Every error except `Unknown` means that the command had no effect.
    pub async fn submit(&self, command: Command, deadline: Instant) -> SubmitResult {
        let shared = self.shared().ok_or(SubmitError::Quarantined)?;
        forward::submit(shared, command, deadline).await
    }

    /// Submits `command` to this node only. For background tasks that run on the leader.
    ///
    /// # Errors
    /// See [`SubmitError`]; `NoLeader` when another node leads.
    pub async fn submit_here(&self, command: Command, deadline: Instant) -> SubmitResult {
        let shared = self.shared().ok_or(SubmitError::Quarantined)?;
        shared.submit(command, deadline, Span::none).await
    }

    /// Takes the resident memory of the process and its limit, in bytes. Above the limit, a leader
    /// accepts only commands of API keys that remove something, and those of the service itself.
    pub fn set_memory(&self, resident: u64, limit: u64) {
        if let Some(shared) = self.shared() {
            shared.reported.memory_full.store(resident > limit, Ordering::Relaxed);
            shared.incoming.set_memory(resident, limit);
        }
    }

    /// Sets whether the disk of this node has less free space than its reserve. The leader accepts
    /// no new data of clients while a majority of the voters lacks space.
    pub fn set_disk_full(&self, is_full: bool) {
        if let Some(shared) = self.shared() {
            shared.local.contact.set_disk_full(is_full);
        }
    }

    /// Sets whether this node lacks the next embedding model, and another one should lead.
    pub fn set_lacks_model(&self, lacks: bool) {
        if let Some(shared) = self.shared() {
            shared.reported.lacks_model.store(lacks, Ordering::Relaxed);
        }
    }

    /// Uses other certificates for calls to peers from here on.
    ///
    /// # Errors
    /// When the certificates are not usable. The previous ones stay in use.
    pub fn reload_peer_tls(&self, tls: &ClientConfig) -> Result<(), String> {
        let Mode::Running(running) = &*self.0 else { return Ok(()) };
        match &*running.host.lock() {
            Some(host) => host.https.reload(tls).map_err(|error| causes(&error)),
            None => Ok(()),
        }
    }

    /// Requests peers to end their connections to this node, and to open new ones.
    pub fn end_peer_connections(&self) {
        if let Some(shared) = self.shared() {
            shared.peers.end_connections();
        }
    }

    /// Requests grants of requests for a tenant from the leader. `None` without a leader that
    /// responds by `deadline`.
    pub async fn grant(&self, request: &GrantRequest, deadline: Instant) -> Option<Grant> {
        forward::grant(self.shared()?, request, deadline).await
    }

    /// Number of voters; 1 on a quarantined node.
    pub fn voters(&self) -> usize {
        self.shared().map_or(1, |shared| shared.voters().len().max(1))
    }

    /// Runs an operation on the leader and waits for its result, until `deadline` at most.
    pub async fn operate(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> OperateResult<OperationResult> {
        let quarantined = "this node is quarantined: use another node";
        let shared = self.shared().ok_or(OperateError::Rejected(quarantined.into()))?;
        forward::operate(shared, operation, deadline).await
    }

    /// Waits until local reads include everything that was acknowledged before this call: a
    /// ReadIndex at the leader, then [`Self::wait_applied`].
    pub async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        let shared = self.shared().ok_or(ReadError::Quarantined)?;
        let index = forward::read_index(shared, deadline).await?;
        self.wait_applied(index, deadline).await
    }

    /// Waits until this node has applied entry `index`.
    ///
    /// # Errors
    /// [`ReadError::DeadlinePassed`] when it has not by `deadline`.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        let mut applied = self.shared().ok_or(ReadError::Quarantined)?.applied.clone();
        match timeout_at(deadline, applied.wait_for(|applied| *applied >= index)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ReadError::DeadlinePassed),
        }
    }

    /// Time since this node's state was last confirmed as the newest of the cluster; `None` if
    /// it never was in this process.
    pub fn staleness(&self) -> Option<Duration> {
        let shared = self.shared()?;
        let boottime = shared.local.clock.read().boottime;
        let confirmed = shared.local.contact.staleness(*shared.applied.borrow(), boottime);
        // A leader whose disk is slow has not yet applied what followers show already.
        let led = shared.leader_staleness().filter(|_| shared.has_applied_all());
        led.into_iter().chain(confirmed).min()
    }

    /// While this node leads and serves: time since a quorum last acknowledged it.
    pub fn leader_staleness(&self) -> Option<Duration> {
        self.shared()?.leader_staleness()
    }

    /// Status of this node.
    pub fn status(&self) -> Status {
        let shared = match &*self.0 {
            Mode::Running(running) => &running.shared,
            Mode::Quarantined { node, reason, .. } => {
                let (node, quarantine) = (*node, Some(reason.clone()));
                return Status {
                    node,
                    role: NodeRole::Quarantined,
                    quarantine,
                    ..Status::default()
                };
            }
        };
        let metrics = shared.raft.metrics().borrow_watched().clone();
        Status {
            node: shared.local.node,
            role: NodeRole::of(metrics.state),
            leader: shared.present_leader(),
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            commit_index: metrics.local_committed.map_or(0, |id| id.index()),
            applied_index: *shared.applied.borrow(),
            snapshot_index: metrics.snapshot.map_or(0, |id| id.index()),
            purged_index: metrics.purged.map_or(0, |id| id.index()),
            queued: shared.leading.queue_len(),
            quarantine: None,
        }
    }

    /// The cluster as this node sees it, whether or not there is a leader; `None` on a quarantined
    /// node.
    pub fn cluster_status(&self) -> Option<ClusterStatus> {
        self.shared().map(status)
    }

    /// Entries of the log that each other member has not confirmed; empty if this node does not
    /// lead. A member that never responded is absent.
    pub fn lags(&self) -> Vec<(NodeId, u64)> {
        let Some(shared) = self.shared().filter(|shared| shared.leads()) else { return Vec::new() };
        let others =
            status(shared).members.into_iter().filter(|member| member.node != shared.local.node);
        others.filter_map(|member| Some((member.node, member.lag?))).collect()
    }

    /// Voters that may fail before writes stop: those in contact, less a majority. Negative without a
    /// majority. `None` on nodes that do not lead.
    pub fn failure_tolerance(&self) -> Option<i64> {
        let shared = self.shared().filter(|shared| shared.leads())?;
        let voters = shared.voters();
        let members = status(shared).members;
        let reachable = members.iter().filter(|it| it.role.votes() && is_responsive(it)).count();
        Some(reachable as i64 - (voters.len() / 2 + 1) as i64)
    }

    /// Whether this node leads.
    pub fn is_leader(&self) -> bool {
        self.shared().is_some_and(|shared| shared.leads())
    }

    /// Records a request of a tenant at this node.
    pub fn record_use(&self, tenant: TenantId) {
        if let Some(shared) = self.shared() {
            shared.used.node.record(tenant, Instant::now());
        }
    }

    /// Whether several tenants use this node: with requests, or with commands from other nodes.
    pub fn is_shared(&self) -> bool {
        self.shared().is_some_and(|shared| shared.used.node.is_shared(Instant::now()))
    }

    /// Whether several tenants use the leader, as its last responses to this node say.
    pub fn is_leader_shared(&self) -> bool {
        self.shared().is_some_and(|shared| shared.used.leader.is_shared(Instant::now()))
    }

    /// A new folder for a copy of the state. `None` on a quarantined node, whose state must not be
    /// copied.
    pub fn copy_folder(&self) -> Option<SnapshotFolder> {
        self.shared().map(|shared| shared.incoming.snapshots.next_folder())
    }

    /// Metrics of the steps of a write; `None` on a quarantined node.
    pub fn timings(&self) -> Option<&Timings> {
        self.shared().map(|shared| &shared.peers.timings)
    }

    /// Counters since start.
    pub fn totals(&self) -> Totals {
        let Some(shared) = self.shared() else { return Totals::default() };
        let (wal_syncs, log_bytes) = (shared.log.syncs(), shared.log.size_bytes());
        let log_cache_bytes = shared.log.cache_bytes();
        let clock_steps = shared.local.clock.steps();
        Totals { wal_syncs, log_bytes, log_cache_bytes, clock_steps, ..*shared.totals.lock() }
    }

    /// Cluster time minus the wall clock of this machine, in microseconds; `None` on a quarantined
    /// node, and without a cluster.
    pub fn clock_offset_micros(&self) -> Option<i64> {
        let local = &self.shared()?.local;
        let own = local.clock.read();
        let time = local.cluster_time(own.boottime);
        (time != Timestamp::default()).then(|| time.0.saturating_sub(own.wall_clock.0))
    }

    /// The fault latch, which closes when this node must stop.
    pub fn fault(&self) -> &Fault {
        match &*self.0 {
            Mode::Running(running) => &running.shared.local.fault,
            Mode::Quarantined { fault, .. } => fault,
        }
    }

    /// Transfers leadership to another voter, if this node leads and a voter is reachable. For an
    /// orderly shutdown.
    pub async fn transfer_leadership(&self, deadline: Instant) {
        let Some(shared) = self.shared() else { return };
        match (Operations { shared, deadline }).transfer_leadership().await {
            Ok(Some(next)) => tracing::info!(next, "leadership transferred"),
            Ok(None) => {}
            Err(error) => tracing::warn!(
                %error,
                "leadership not transferred: the other nodes elect a leader after the lease"
            ),
        }
    }

    /// Stops raft on this node and closes its log. Commands without an outcome end as `Unknown`.
    pub async fn shutdown(&self) {
        let Mode::Running(running) = &*self.0 else { return };
        match timeout(STOP_TIMEOUT, running.shared.raft.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "raft shutdown failed"),
            Err(_) => tracing::warn!("raft does not respond: the node stops without it"),
        }
        running.shared.incoming.clear();
        let host = running.host.lock().take();
        if let Some(Host { runtime, executor, .. }) = host {
            // Blocks until the threads end, so it must not run on a thread of an async runtime.
            let stopped = tokio::task::spawn_blocking(|| {
                runtime.shutdown_timeout(STOP_TIMEOUT);
                // Its panic was reported.
                drop(executor.map(JoinHandle::join));
            });
            if timeout(2 * STOP_TIMEOUT, stopped).await.is_err() {
                tracing::warn!("the executor does not end: the node stops without it");
            }
        }
        running.shared.log.close();
    }
}

impl NodeRole {
    fn of(state: openraft::ServerState) -> Self {
        match state {
            openraft::ServerState::Learner => Self::Learner,
            openraft::ServerState::Follower => Self::Follower,
            openraft::ServerState::Candidate => Self::Candidate,
            openraft::ServerState::Leader => Self::Leader,
            openraft::ServerState::Shutdown => Self::Shutdown,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learner => "learner",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Leader => "leader",
            Self::Quarantined => "quarantined",
            Self::Shutdown => "shutdown",
        }
    }
}
