//! The one way into the cluster for everybody else on this node: submit a
//! command, make sure of an index, ask how things stand. Whether this node leads
//! or another does is settled here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use storage::{Command, Log};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::error::{Outcome, ReadError, SubmitError};
use crate::fault::Fault;
use crate::forward::Forward;
use crate::membership::operations::Operator;
use crate::network::client::Peers;
use crate::operation::{OperateError, Operation, OperationResult};
use crate::shared::Shared;
use crate::state_machine::Raft;
use crate::types::NodeId;

/// How long raft's threads may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Mode>);

enum Mode {
    Running(Running),
    /// Up for its operator, but no part of the cluster.
    Quarantined {
        node: NodeId,
        reason: String,
        fault: Fault,
    },
}

struct Running {
    shared: Arc<Shared>,
    forward: Forward,
    applied: watch::Receiver<u64>,
    log: Arc<Log>,
    /// Taken when the node shuts down.
    runtime: Mutex<Option<tokio::runtime::Runtime>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A runtime must not be waited for inside another one.
        if let Ok(Some(runtime)) = self.runtime.get_mut().map(Option::take) {
            runtime.shutdown_background();
        }
    }
}

/// How a node stands in its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// `leader`, `follower`, `candidate`, `learner`, `shutdown` or `quarantined`.
    pub role: &'static str,
    /// The leader, as far as this node knows.
    pub leader: Option<NodeId>,
    /// Present term.
    pub term: u64,
    /// Index of the last entry in the log.
    pub last_log_index: u64,
    /// Index of the last entry known to be committed.
    pub commit_index: u64,
    /// Index of the last entry that readers see.
    pub applied_index: u64,
    /// Index up to which the state is durable without the log.
    pub snapshot_index: u64,
    /// Index of the last entry that was cut off the log.
    pub purged_index: u64,
    /// Commands that wait for the executor.
    pub queued: usize,
    /// Why the node takes no part, if it does not.
    pub quarantine: Option<String>,
}

/// Counters of a node since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches written by this node as leader.
    pub batches: u64,
    /// Bytes of those batches.
    pub batch_bytes: u64,
    /// Commands in those batches.
    pub batch_commands: u64,
    /// Commands that were done.
    pub accepted: u64,
    /// Commands that were refused by a rule.
    pub refused: u64,
    /// Commands that found the queue full.
    pub busy: u64,
    /// Commands sent to another node, which led.
    pub forwarded: u64,
    /// Syncs of the log's write-ahead log.
    pub wal_syncs: u64,
    /// Bytes of the log, roughly.
    pub log_bytes: u64,
}

impl Handle {
    pub(crate) fn running(
        shared: Arc<Shared>,
        forward: Forward,
        applied: watch::Receiver<u64>,
        log: Arc<Log>,
        runtime: tokio::runtime::Runtime,
    ) -> Self {
        let runtime = Mutex::new(Some(runtime));
        Self(Arc::new(Mode::Running(Running { shared, forward, applied, log, runtime })))
    }

    /// A handle for a node that takes no part in its cluster, and why.
    pub fn quarantined(node: NodeId, reason: String, fault: Fault) -> Self {
        Self(Arc::new(Mode::Quarantined { node, reason, fault }))
    }

    /// Has the cluster decide `command`. Waits until `deadline` at most; then the
    /// outcome is unknown.
    ///
    /// # Errors
    /// See [`SubmitError`]; all but `Unknown` mean that nothing happened.
    pub async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let Mode::Running(running) = &*self.0 else { return Err(SubmitError::Quarantined) };
        running.forward.submit(command, deadline).await
    }

    /// Has this node decide `command`, if it leads: for the leader's own duties.
    ///
    /// # Errors
    /// See [`SubmitError`]; `NoLeader` when another node leads.
    pub async fn submit_here(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let Mode::Running(running) = &*self.0 else { return Err(SubmitError::Quarantined) };
        running.shared.submit(command, deadline).await
    }

    /// Has the cluster do what an operator wants; waits until `deadline` at most.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn operate(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> Result<OperationResult, OperateError> {
        let Mode::Running(running) = &*self.0 else {
            return Err(OperateError::Refused("this node is quarantined: ask another".into()));
        };
        running.forward.operate(operation, deadline).await
    }

    /// Makes sure that local reads from now on see everything acknowledged
    /// before this call.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        let Mode::Running(running) = &*self.0 else { return Err(ReadError::Quarantined) };
        let index = running.forward.read_index(deadline).await?;
        self.wait_applied(index, deadline).await
    }

    /// Waits until readers of this node see entry `index`.
    ///
    /// # Errors
    /// [`ReadError::DeadlinePassed`] when they do not by `deadline`.
    pub async fn wait_applied(&self, index: u64, deadline: Instant) -> Result<(), ReadError> {
        let Mode::Running(running) = &*self.0 else { return Err(ReadError::Quarantined) };
        let mut applied = running.applied.clone();
        let reached = applied.wait_for(|applied| *applied >= index);
        match timeout_at(deadline, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ReadError::DeadlinePassed),
        }
    }

    /// Time since this node's state was known to be the cluster's newest. `None`: it
    /// never was in this incarnation of the process.
    pub fn staleness(&self) -> Option<Duration> {
        let Mode::Running(running) = &*self.0 else { return None };
        let shared = &running.shared;
        let confirmed = shared.local.contact.staleness(*running.applied.borrow());
        shared.leader_staleness().into_iter().chain(confirmed).min()
    }

    /// While this node leads and serves: time since a majority last acknowledged that.
    pub fn leader_staleness(&self) -> Option<Duration> {
        match &*self.0 {
            Mode::Running(running) => running.shared.leader_staleness(),
            Mode::Quarantined { .. } => None,
        }
    }

    /// How this node stands.
    pub fn status(&self) -> Status {
        let running = match &*self.0 {
            Mode::Running(running) => running,
            Mode::Quarantined { node, reason, .. } => {
                let (node, quarantine) = (*node, Some(reason.clone()));
                return Status { node, role: "quarantined", quarantine, ..Status::default() };
            }
        };
        let metrics = running.shared.raft.metrics().borrow_watched().clone();
        Status {
            node: running.shared.local.node,
            role: role(metrics.state),
            leader: metrics.current_leader,
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            commit_index: metrics.local_committed.map_or(0, |id| id.index()),
            applied_index: *running.applied.borrow(),
            snapshot_index: metrics.snapshot.map_or(0, |id| id.index()),
            purged_index: metrics.purged.map_or(0, |id| id.index()),
            queued: running.shared.queue().len(),
            quarantine: None,
        }
    }

    /// Counters since start.
    pub fn totals(&self) -> Totals {
        let Mode::Running(running) = &*self.0 else { return Totals::default() };
        let counters = &running.shared.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            batches: of(&counters.batches),
            batch_bytes: of(&counters.batch_bytes),
            batch_commands: of(&counters.batch_commands),
            accepted: of(&counters.accepted),
            refused: of(&counters.refused),
            busy: of(&counters.busy),
            forwarded: of(&counters.forwarded),
            wal_syncs: running.log.syncs(),
            log_bytes: running.log.size_bytes(),
        }
    }

    /// The latch that closes when this node must stop.
    pub fn fault(&self) -> &Fault {
        match &*self.0 {
            Mode::Running(running) => &running.shared.local.fault,
            Mode::Quarantined { fault, .. } => fault,
        }
    }

    /// Has another voter lead, if this node does and one is there to: for an orderly stop.
    pub async fn transfer_leadership(&self, deadline: Instant) {
        let Mode::Running(running) = &*self.0 else { return };
        let forward = &running.forward;
        let (shared, peers) = (&*running.shared, &*forward.peers);
        match (Operator { shared, peers, deadline }).transfer_leadership().await {
            Ok(Some(next)) => tracing::info!(next, "handed over"),
            Ok(None) => {}
            Err(error) => tracing::info!(%error, "nobody took over"),
        }
    }

    /// Stops raft on this node and closes its log. What was not answered by then is
    /// unknown.
    pub async fn shutdown(&self) {
        let Mode::Running(running) = &*self.0 else { return };
        if let Err(error) = running.shared.raft.shutdown().await {
            tracing::warn!(%error, "raft did not stop in order");
        }
        let runtime = running.runtime.lock().ok().and_then(|mut runtime| runtime.take());
        if let Some(runtime) = runtime {
            // Waits for its threads, which must not happen on one of this runtime's own.
            let ended = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(STOP_TIMEOUT));
            drop(ended.await);
        }
        running.log.close();
    }

    pub(crate) fn parts(&self) -> Option<(&Raft, &Peers)> {
        match &*self.0 {
            Mode::Running(running) => Some((&running.shared.raft, &running.forward.peers)),
            Mode::Quarantined { .. } => None,
        }
    }
}

fn role(state: openraft::ServerState) -> &'static str {
    match state {
        openraft::ServerState::Learner => "learner",
        openraft::ServerState::Follower => "follower",
        openraft::ServerState::Candidate => "candidate",
        openraft::ServerState::Leader => "leader",
        openraft::ServerState::Shutdown => "shutdown",
    }
}
