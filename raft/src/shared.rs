//! What the node's parts share of raft: the queue of commands, who leads, and the
//! counters. The executor takes from it, the handle and the peers put into it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openraft::Instant as _;
use openraft::ReadPolicy;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::metrics::RaftServerMetrics;
use storage::Command;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::error::{Outcome, SubmitError};
use crate::leader::queue::{Queue, QueuedCommand};
use crate::network::identity::LocalNode;
use crate::state_machine::Raft;
use crate::types::{NodeId, TypeConfig};

/// Shared by handle, executor and peer listener.
pub(crate) struct Shared {
    pub(crate) raft: Raft,
    pub(crate) local: Arc<LocalNode>,
    /// For how long a quorum's status that this node leads holds.
    lease: Duration,
    pub(crate) counters: Counters,
    queue: Mutex<Queue>,
    queued: Notify,
    /// The term that the executor has opened, 0 for none.
    pub(crate) opened: watch::Sender<u64>,
}

/// What the executor did since start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) batch_bytes: AtomicU64,
    pub(crate) batch_commands: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) forwarded: AtomicU64,
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
    pub(crate) fn new(raft: Raft, local: Arc<LocalNode>, lease: Duration) -> Self {
        Self {
            raft,
            local,
            lease,
            counters: Counters::default(),
            queue: Mutex::default(),
            queued: Notify::new(),
            opened: watch::Sender::new(0),
        }
    }

    pub(crate) fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().expect("no code panics while it holds the queue")
    }

    /// Takes the next command that somebody still waits for.
    pub(crate) fn claim_next(&self) -> Option<QueuedCommand> {
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
        drop(self.queue().push(QueuedCommand::stamp()));
    }

    /// Waits until something is queued.
    pub(crate) async fn queued(&self) {
        if self.queue().len() == 0 {
            self.queued.notified().await;
        }
    }

    /// The term that this node leads, by one consistent look at raft's metrics.
    fn led(metrics: &RaftServerMetrics<TypeConfig>) -> Option<u64> {
        let vote = &metrics.vote;
        let leads =
            metrics.state.is_leader() && vote.committed && vote.leader_id.voted_for == metrics.id;
        leads.then_some(vote.leader_id.term)
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
    pub(crate) fn serves(&self) -> bool {
        let opened = *self.opened.borrow();
        opened != 0 && self.leads(opened)
    }

    pub(crate) fn leads(&self, term: u64) -> bool {
        Self::led(&self.raft.server_metrics().borrow_watched()) == Some(term)
    }

    /// Waits until this node leads, and says which term; `None` when raft stopped.
    pub(crate) async fn next_term(&self) -> Option<u64> {
        let mut metrics = self.raft.server_metrics();
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
                Err(fatal) => return self.local.fault.report(&fatal),
            }
            if metrics.changed().await.is_err() {
                let last = metrics.borrow_watched().running_state.clone();
                if !matches!(last, Err(Fatal::Stopped)) {
                    self.local.fault.report(&"raft ended without a status");
                }
                return;
            }
        }
    }

    pub(crate) async fn leadership_lost(&self, term: u64) {
        let mut metrics = self.raft.server_metrics();
        while Self::led(&metrics.borrow_watched()) == Some(term) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Has this node decide `command` as the leader.
    pub(crate) async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        if !self.serves() || self.has_lost_its_quorum() {
            return Err(SubmitError::NoLeader);
        }
        let (waiting, decided) = QueuedCommand::new(command);
        let claim = waiting.claim.clone();
        if self.queue().push(waiting).is_err() {
            self.counters.busy.fetch_add(1, Ordering::Relaxed);
            return Err(SubmitError::Busy);
        }
        self.queued.notify_one();
        // A term that closed in between has handed back what it found; not this one.
        if !self.serves() && claim.take() {
            return Err(SubmitError::NoLeader);
        }
        match timeout_at(deadline, decided).await {
            Ok(Ok(outcome)) => outcome,
            Err(_) if claim.take() => Err(SubmitError::DeadlinePassed),
            Ok(Err(_)) | Err(_) => Err(SubmitError::Unknown),
        }
    }

    /// Index that must be applied to see all that was acknowledged before this call;
    /// `None` when this node does not lead.
    pub(crate) async fn read_index(&self) -> Option<u64> {
        let read = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
        Some(read.read_log_id().index())
    }

    /// Members whose votes count.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        self.raft.metrics().borrow_watched().membership_config.voter_ids().collect()
    }

    /// Whether no quorum has said for a lease that this node leads: what it is given now
    /// may wait for ever.
    fn has_lost_its_quorum(&self) -> bool {
        self.leader_staleness().is_none_or(|age| age > self.lease)
    }

    /// While this node leads: time since a quorum last acknowledged that. A cluster of
    /// one is its own quorum.
    pub(crate) fn leader_staleness(&self) -> Option<Duration> {
        if !self.serves() {
            return None;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        match metrics.membership_config.voter_ids().count() {
            1 => Some(Duration::ZERO),
            _ => metrics.last_quorum_acked.map(|acknowledged| acknowledged.elapsed()),
        }
    }
}
