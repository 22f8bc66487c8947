//! Raft state that several parts of the node share: the leadership, the counters, and what the leader
//! shares (`leader/leading`). The handle and the peer listener put commands into its queue; the executor
//! takes them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use openraft::Instant as _;
use openraft::ReadPolicy;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::metrics::RaftServerMetrics;
use parking_lot::Mutex;
use storage::model::release::Release;
use storage::model::tenant::Limit;
use storage::{Command, Log, Priority};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::Span;

use crate::error::{SubmitError, SubmitResult};
use crate::grants::{Grant, GrantRequest};
use crate::incoming::Incoming;
use crate::leader::leading::Leading;
use crate::leader::queue::QueuedCommand;
use crate::leader::rates::Limits;
use crate::machine::Machine;
use crate::network::client::Peers;
use crate::network::identity::LocalNode;
use crate::shared_use::SharedUse;
use crate::state_machine::Raft;
use crate::types::{NodeId, TypeConfig};

/// Age of the last message of a member up to which it counts as up.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Timers of Raft.
#[derive(Clone, Copy)]
pub(crate) struct Timers {
    /// Maximum age of the last quorum acknowledgement at which commands are accepted.
    pub(crate) lease: Duration,
    /// Time between two heartbeats.
    pub(crate) heartbeat: Duration,
}

/// Shared by handle, executor and peer listener.
pub(crate) struct Shared {
    pub(crate) raft: Raft,
    pub(crate) local: Arc<LocalNode>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) log: Arc<Log>,
    /// Index of the last applied entry.
    pub(crate) applied: watch::Receiver<u64>,
    pub(crate) timers: Timers,
    /// Whether this node belonged to a cluster at the start of its process, or has begun one since. Raft's
    /// metrics show that only when a disk has it.
    pub(crate) is_initialized: AtomicBool,
    /// When this node learned of its present leader.
    pub(crate) led_since: Mutex<Instant>,
    /// The counters. Those of the log and the clock are 0 here.
    pub(crate) totals: Mutex<Totals>,
    pub(crate) leading: Leading,
    pub(crate) used: Used,
    pub(crate) reported: Reported,
    pub(crate) incoming: Incoming,
    pub(crate) machine: Arc<dyn Machine>,
}

/// Whether several tenants use a node.
#[derive(Default)]
pub(crate) struct Used {
    /// This node, by requests of its clients and by commands of others.
    pub(crate) node: SharedUse,
    /// The leader, as its responses say.
    pub(crate) leader: SharedUse,
}

/// What tasks of the node found, and each write reads.
pub(crate) struct Reported {
    /// Whether this node is above its memory limit.
    pub(crate) memory_full: AtomicBool,
    /// Whether the disk of any node was full a second ago. Only then, commands are checked.
    pub(crate) some_disk_full: AtomicBool,
    /// Whether this node lacks the next embedding model.
    pub(crate) lacks_model: AtomicBool,
    /// Index up to which the log is kept outside the cluster, too; `u64::MAX` if it is not to be.
    pub(crate) shipped: AtomicU64,
}

impl Default for Reported {
    fn default() -> Self {
        Self {
            memory_full: AtomicBool::new(false),
            some_disk_full: AtomicBool::new(false),
            lacks_model: AtomicBool::new(false),
            shipped: AtomicU64::new(u64::MAX),
        }
    }
}

/// Counters of a node since the start of its process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches written by this node as leader.
    pub batches: u64,
    /// Bytes of those batches.
    pub batch_bytes: u64,
    /// Commands in those batches.
    pub batch_commands: u64,
    /// Batches that were decided on another state, or whose outcome this node did not learn.
    pub failed_batches: u64,
    /// Commands that were accepted.
    pub accepted: u64,
    /// Commands that were rejected by a rule of the engine.
    pub rejected: u64,
    /// Commands that were turned away because the queue was full.
    pub busy: u64,
    /// Commands that were turned away because this node was above its memory limit.
    pub memory_full: u64,
    /// Commands that were turned away because a majority of the nodes lacks disk space.
    pub disk_full: u64,
    /// Commands forwarded to another node as the leader.
    pub forwarded: u64,
    /// Leaders that this node has followed or been, one after the other.
    pub leader_changes: u64,
    /// Syncs of the log's write-ahead log.
    pub wal_syncs: u64,
    /// Approximate size of the log in bytes.
    pub log_bytes: u64,
    /// Bytes of the log in RAM.
    pub log_cache_bytes: u64,
    /// Steps of this machine's wall clock.
    pub clock_steps: u64,
}

impl Shared {
    pub(crate) fn new(
        raft: Raft,
        peers: Arc<Peers>,
        log: Arc<Log>,
        applied: watch::Receiver<u64>,
        incoming: Incoming,
        timers: Timers,
        machine: Arc<dyn Machine>,
    ) -> Self {
        Self {
            raft,
            local: Arc::clone(&peers.local),
            peers,
            log,
            applied,
            timers,
            is_initialized: AtomicBool::new(false),
            led_since: Mutex::new(Instant::now()),
            totals: Mutex::default(),
            leading: Leading::default(),
            used: Used::default(),
            reported: Reported::default(),
            incoming,
            machine,
        }
    }

    /// The term that this node leads, from one consistent copy of raft's metrics.
    fn led_term(metrics: &RaftServerMetrics<TypeConfig>) -> Option<u64> {
        let vote = &metrics.vote;
        // While the disk hangs, the vote of the next leader is not saved, and the state stays.
        let is_own = metrics.current_leader == Some(metrics.id);
        let leads = is_own
            && metrics.state.is_leader()
            && vote.committed
            && vote.leader_id.voted_for == metrics.id;
        leads.then_some(vote.leader_id.term)
    }

    /// Whether this node leads and has applied all entries of earlier terms.
    pub(crate) fn is_serving(&self) -> bool {
        let term = self.leading.open_term();
        term != 0 && self.is_leader_of(term)
    }

    /// Whether this node leads.
    pub(crate) fn leads(&self) -> bool {
        Self::led_term(&self.raft.server_metrics().borrow_watched()).is_some()
    }

    pub(crate) fn is_leader_of(&self, term: u64) -> bool {
        Self::led_term(&self.raft.server_metrics().borrow_watched()) == Some(term)
    }

    /// Waits until this node leads, and returns the term; `None` when raft has stopped.
    pub(crate) async fn next_term(&self) -> Option<u64> {
        self.wait_metrics(Self::led_term).await
    }

    /// Waits until this node no longer leads `term`.
    pub(crate) async fn leadership_lost(&self, term: u64) {
        let lost = |metrics: &_| (Self::led_term(metrics) != Some(term)).then_some(());
        self.wait_metrics(lost).await;
    }

    /// Waits until `node` is no longer the leader in this node's metrics.
    pub(crate) async fn leader_changed(&self, node: NodeId) {
        self.wait_metrics(|metrics| (metrics.current_leader != Some(node)).then_some(())).await;
    }

    /// Waits until `find` returns a value for raft's metrics; `None` when raft has stopped.
    pub(crate) async fn wait_metrics<T>(
        &self,
        find: impl Fn(&RaftServerMetrics<TypeConfig>) -> Option<T>,
    ) -> Option<T> {
        let mut metrics = self.raft.server_metrics();
        loop {
            let found = find(&metrics.borrow_watched());
            if found.is_some() {
                return found;
            }
            metrics.changed().await.ok()?;
        }
    }

    /// Counts and logs changes of the leader, until raft stops.
    pub(crate) async fn count_leaders(self: Arc<Self>) {
        let mut last = None;
        let led = |metrics: &RaftServerMetrics<TypeConfig>| {
            metrics.current_leader.map(|leader| (metrics.vote.leader_id.term, leader))
        };
        while let Some(next) =
            self.wait_metrics(|of| led(of).filter(|led| Some(*led) != last)).await
        {
            last = Some(next);
            *self.led_since.lock() = Instant::now();
            let (term, leader) = next;
            tracing::info!(leader, term, "this node has a leader");
            self.totals.lock().leader_changes += 1;
        }
    }

    /// Waits until raft stops. Reports the cause as a fault, except for an orderly shutdown.
    pub(crate) async fn report_stop(self: Arc<Self>) {
        let mut metrics = self.raft.metrics();
        while metrics.borrow_watched().running_state.is_ok() && metrics.changed().await.is_ok() {}
        let last = metrics.borrow_watched().running_state.clone();
        match last {
            Ok(()) => self.local.fault.report(&"raft ended without a cause"),
            Err(Fatal::Stopped) => {}
            Err(fatal) => self.local.fault.report(&fatal),
        }
    }

    /// Queues `command` for this node's executor, and waits for the outcome. `span` begins when it is
    /// queued.
    pub(crate) async fn submit(
        &self,
        command: Command,
        deadline: Instant,
        span: impl FnOnce() -> Span,
    ) -> SubmitResult {
        // Without a quorum for a lease, a command might stay uncommitted without limit.
        if self.leader_staleness().is_none_or(|age| age > self.timers.lease) {
            return Err(SubmitError::NoLeader);
        }
        let class = command.class();
        // The node that received the request has checked its own memory only.
        let is_full = self.reported.memory_full.load(Ordering::Relaxed);
        if is_full && command.actor.is_some() && !class.only_removes() {
            self.totals.lock().memory_full += 1;
            return Err(SubmitError::MemoryFull);
        }
        if class.adds_data()
            && self.reported.some_disk_full.load(Ordering::Relaxed)
            && !self.has_disk_space()
        {
            self.totals.lock().disk_full += 1;
            return Err(SubmitError::DiskFull);
        }
        if let (Priority::Client, Some(tenant)) = (class.priority(), command.tenant()) {
            self.used.node.record(tenant, Instant::now());
        }
        let (queued, outcome) = QueuedCommand::new(command, span());
        let claim = queued.claim.clone();
        if !self.leading.push(queued) {
            self.totals.lock().busy += 1;
            return Err(SubmitError::Busy);
        }
        // A term that closed after the first check may have emptied the queue before the push.
        if !self.is_serving() && claim.take() {
            return Err(SubmitError::NoLeader);
        }
        match timeout_at(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Err(_) if claim.take() => Err(SubmitError::DeadlinePassed),
            Ok(Err(_)) | Err(_) => Err(SubmitError::Unknown),
        }
    }

    /// The read index of the Raft thesis (section 6.4): the index that must be applied to read
    /// everything acknowledged before this call. `None` when this node does not lead.
    pub(crate) async fn read_index(&self) -> Option<u64> {
        let read = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
        Some(read.read_log_id().index())
    }

    /// Grants requests of a tenant to a node; `None` when this node does not lead. A tenant without
    /// a limit gets all that it requests.
    pub(crate) fn grant(&self, to: NodeId, request: &GrantRequest) -> Option<Grant> {
        let term = self.leading.open_term();
        // Without a lease, another leader may grant the same requests.
        if self.leader_staleness().is_none_or(|age| age > self.timers.lease) {
            return None;
        }
        let limit = self.local.reader.limit(request.tenant, Limit::RequestsPerMinute);
        let Some(per_minute) = limit else { return Some(Grant::unlimited(term, request.waiting)) };
        let limits = Limits { per_minute, voters: &self.voters() };
        Some(self.leading.grant(term, to, request, &limits))
    }

    /// Whether a majority of the voters responds to this leader and has disk space.
    pub(crate) fn has_disk_space(&self) -> bool {
        let (local, voters) = (&self.local, self.voters());
        let full = local.contact.full_disks(local.node);
        let has_space = |voter: &&NodeId| !full.contains(voter) && self.is_up(**voter);
        let with_space = voters.iter().filter(has_space);
        full.is_empty() || 2 * with_space.count() > voters.len()
    }

    /// Whether a node has sent a message in the last seconds.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        let local = &self.local;
        let age = local.contact.message_age(node, local.clock.read().boottime);
        node == local.node || age.is_some_and(|age| age <= SILENCE_MAX)
    }

    /// The release of a member, as its last message said.
    pub(crate) fn release(&self, node: NodeId) -> Option<Release> {
        let is_local = node == self.local.node;
        if is_local {
            Some(self.local.reader.own_release())
        } else {
            self.local.contact.release(node)
        }
    }

    /// Ids of the voters; during a membership change, of both configurations.
    pub(crate) fn voters(&self) -> Vec<NodeId> {
        self.raft.metrics().borrow_watched().membership_config.voter_ids().collect()
    }

    /// While this node leads: time since a quorum last acknowledged it. A cluster of one is its
    /// own quorum.
    pub(crate) fn leader_staleness(&self) -> Option<Duration> {
        if self.is_serving() { self.quorum_age() } else { None }
    }

    /// Whether the state of this leader has every entry that it has committed.
    pub(crate) fn has_applied_all(&self) -> bool {
        let committed = self.raft.metrics().borrow_watched().cluster_committed;
        committed.is_none_or(|committed| committed.index() <= *self.applied.borrow())
    }

    fn quorum_age(&self) -> Option<Duration> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        match metrics.membership_config.voter_ids().count() {
            1 => Some(Duration::ZERO),
            _ => {
                let acknowledged =
                    metrics.last_quorum_acked.map(|acknowledged| acknowledged.elapsed());
                acknowledged.map(|elapsed| self.local.clock.age(elapsed))
            }
        }
    }

    /// The leader, if this node has had contact with it within the lease, or is it and has a quorum.
    pub(crate) fn present_leader(&self) -> Option<NodeId> {
        let (leader, term) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.current_leader?, metrics.current_term)
        };
        let age = || self.local.contact.message_age(leader, self.local.clock.read().boottime);
        let is_present = match leader == self.local.node {
            true => self.leads_with_quorum(term),
            false => age().is_some_and(|age| age <= self.timers.lease),
        };
        is_present.then_some(leader)
    }

    /// Whether this node leads `term`, and no lease has passed since a quorum acknowledged it.
    pub(crate) fn leads_with_quorum(&self, term: u64) -> bool {
        // A new leader has some time to be acknowledged.
        let age = || self.quorum_age().unwrap_or_else(|| self.led_since.lock().elapsed());
        self.is_leader_of(term) && age() <= self.timers.lease
    }
}
