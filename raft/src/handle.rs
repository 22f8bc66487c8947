//! The one way into the cluster for everybody else on this node: submit a
//! command, make sure of an index, ask how things stand.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::{RaftMetrics, ReadPolicy};
use storage::{Command, Log};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::clock::Wall;
use crate::error::{Outcome, ReadError, SubmitError};
use crate::fault::Fault;
use crate::queue::{Queue, Waiting};
use crate::state_machine::StateMachine;
use crate::types::{NodeId, TypeConfig};

/// How long raft's threads may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// Shared by handle and executor.
pub(crate) struct Shared {
    pub(crate) raft: Raft,
    pub(crate) wall: Arc<dyn Wall>,
    pub(crate) fault: Fault,
    pub(crate) counters: Counters,
    queue: Mutex<Queue>,
    queued: Notify,
    /// The term that the executor has opened, 0 for none.
    opened: watch::Sender<u64>,
}

/// What the executor did since start.
#[derive(Debug, Default)]
pub struct Counters {
    batches: AtomicU64,
    batch_bytes: AtomicU64,
    batch_commands: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    busy: AtomicU64,
}

impl Counters {
    pub(crate) fn batch(&self, commands: usize, bytes: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batch_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.batch_commands.fetch_add(commands as u64, Ordering::Relaxed);
    }

    pub(crate) fn decided(&self, accepted: bool) {
        let counter = if accepted { &self.accepted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(raft: Raft, wall: Arc<dyn Wall>, fault: Fault) -> Self {
        Self {
            raft,
            wall,
            fault,
            counters: Counters::default(),
            queue: Mutex::default(),
            queued: Notify::new(),
            opened: watch::Sender::new(0),
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }

    /// Takes the next command that somebody still waits for.
    pub(crate) fn claim_next(&self) -> Option<Waiting> {
        let mut queue = self.queue();
        loop {
            let waiting = queue.pop()?;
            if waiting.claim.take() {
                return Some(waiting);
            }
        }
    }

    pub(crate) fn push_stamp(&self) {
        // A full queue gets stamped by what is in it.
        drop(self.queue().push(Waiting::stamp()));
    }

    /// Waits until something is queued.
    pub(crate) async fn queued(&self) {
        if self.queue().len() == 0 {
            self.queued.notified().await;
        }
    }

    /// The term that this node leads, by one consistent look at raft's metrics.
    fn led(metrics: &RaftMetrics<TypeConfig>) -> Option<u64> {
        let vote = &metrics.vote;
        let leads = metrics.state.is_leader()
            && vote.committed
            && vote.leader_id.voted_for == metrics.id
            && vote.leader_id.term == metrics.current_term;
        leads.then_some(metrics.current_term)
    }

    /// From here on commands are taken and reads answered in `term`.
    pub(crate) fn open_term(&self, term: u64) {
        self.opened.send_replace(term);
    }

    /// Commands are taken no more until a term is opened again.
    pub(crate) fn close_term(&self) {
        self.opened.send_replace(0);
    }

    /// Whether this node leads, and has applied all that it inherited.
    fn serves(&self) -> bool {
        let opened = *self.opened.borrow();
        opened != 0 && self.leads(opened)
    }

    pub(crate) fn leads(&self, term: u64) -> bool {
        Self::led(&self.raft.metrics().borrow_watched()) == Some(term)
    }

    /// Waits until this node leads, and says which term; `None` when raft stopped.
    pub(crate) async fn next_term(&self) -> Option<u64> {
        let mut metrics = self.raft.metrics();
        loop {
            let term = Self::led(&metrics.borrow_watched());
            if term.is_some() {
                return term;
            }
            metrics.changed().await.ok()?;
        }
    }

    /// Waits until raft stops, and reports why unless it was asked to.
    pub(crate) async fn report_stop(&self) {
        let mut metrics = self.raft.metrics();
        loop {
            let running = metrics.borrow_watched().running_state.clone();
            match running {
                Ok(()) => {}
                Err(Fatal::Stopped) => return,
                Err(fatal) => return self.fault.report(&fatal),
            }
            if metrics.changed().await.is_err() {
                let last = metrics.borrow_watched().running_state.clone();
                if !matches!(last, Err(Fatal::Stopped)) {
                    self.fault.report(&"raft ended without a word");
                }
                return;
            }
        }
    }

    pub(crate) async fn led_no_longer(&self, term: u64) {
        let mut metrics = self.raft.metrics();
        while Self::led(&metrics.borrow_watched()) == Some(term) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}

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
    node: NodeId,
    shared: Arc<Shared>,
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
    /// Syncs of the log's write-ahead log.
    pub wal_syncs: u64,
    /// Bytes of the log, roughly.
    pub log_bytes: u64,
}

impl Handle {
    pub(crate) fn running(
        node: NodeId,
        shared: Arc<Shared>,
        applied: watch::Receiver<u64>,
        log: Arc<Log>,
        runtime: tokio::runtime::Runtime,
    ) -> Self {
        let runtime = Mutex::new(Some(runtime));
        Self(Arc::new(Mode::Running(Running { node, shared, applied, log, runtime })))
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
        let shared = &running.shared;
        if !shared.serves() {
            return Err(SubmitError::NoLeader);
        }
        let (waiting, decided) = Waiting::new(command);
        let claim = waiting.claim.clone();
        if shared.queue().push(waiting).is_err() {
            shared.counters.busy.fetch_add(1, Ordering::Relaxed);
            return Err(SubmitError::Busy);
        }
        shared.queued.notify_one();
        // A term that closed in between has handed back what it found; not this one.
        if !shared.serves() && claim.take() {
            return Err(SubmitError::NoLeader);
        }
        match timeout_at(deadline, decided).await {
            Ok(Ok(outcome)) => outcome,
            Err(_) if claim.take() => Err(SubmitError::DeadlinePassed),
            Ok(Err(_)) | Err(_) => Err(SubmitError::Unknown),
        }
    }

    /// Waits until this node leads and serves.
    ///
    /// # Errors
    /// [`ReadError::DeadlinePassed`] when it does not by `deadline`.
    pub async fn wait_leading(&self, deadline: Instant) -> Result<(), ReadError> {
        let Mode::Running(running) = &*self.0 else { return Err(ReadError::Quarantined) };
        let mut serving = running.shared.opened.subscribe();
        let served = serving.wait_for(|opened| *opened != 0 && running.shared.leads(*opened));
        match timeout_at(deadline, served).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ReadError::DeadlinePassed),
        }
    }

    /// Makes sure that local reads from now on see everything acknowledged
    /// before this call.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        let Mode::Running(running) = &*self.0 else { return Err(ReadError::Quarantined) };
        let read = running.shared.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match timeout_at(deadline, read).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(ReadError::NoLeader),
            Err(_) => Err(ReadError::DeadlinePassed),
        }
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

    /// Time since a quorum last confirmed what this node knows. A leader of a
    /// cluster of one is its own quorum. `None`: no contact with a leader.
    pub fn staleness(&self) -> Option<Duration> {
        let Mode::Running(running) = &*self.0 else { return None };
        running.shared.serves().then_some(Duration::ZERO)
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
            node: running.node,
            role: role(metrics.state),
            leader: metrics.current_leader,
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or(0),
            commit_index: metrics.local_committed.map_or(0, |id| id.index()),
            applied_index: *running.applied.borrow(),
            snapshot_index: metrics.snapshot.map_or(0, |id| id.index()),
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
            wal_syncs: running.log.syncs(),
            log_bytes: running.log.size_bytes(),
        }
    }

    /// The latch that closes when this node must stop.
    pub fn fault(&self) -> &Fault {
        match &*self.0 {
            Mode::Running(running) => &running.shared.fault,
            Mode::Quarantined { fault, .. } => fault,
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

    pub(crate) fn raft(&self) -> Option<&Raft> {
        match &*self.0 {
            Mode::Running(running) => Some(&running.shared.raft),
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
