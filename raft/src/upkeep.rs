//! What raft needs done now and then: the state made durable so that the log may
//! be cut, and, on the leader, learners that have caught up made voters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::{ChangeMembers, RaftMetrics};
use storage::Log;
use tokio::time::Instant;

use crate::shared::Shared;
use crate::types::{NodeId, TypeConfig};

/// Log bytes up to which entries are kept for a follower that is catching up.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// A follower that answered so recently counts as there.
const CONTACT_AGE_MAX: Duration = Duration::from_secs(10);
/// Entries that a learner may be behind when it becomes a voter.
const PROMOTION_LAG_MAX: u64 = 100;

/// When the state is made durable and the log cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cuts {
    /// After the log has grown by so many bytes.
    pub log_bytes: u64,
    /// After so long all the same.
    pub log_age: Duration,
    /// Entries that stay although the state is durable past them: a follower that was
    /// away for a moment needs no snapshot.
    pub keep_entries: u64,
}

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>, log: Arc<Log>, cuts: Cuts) {
    let (mut durable_at, mut bytes_then) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let metrics = shared.raft.metrics().borrow_watched().clone();
        promote(&shared, &metrics).await;
        let bytes = log.size_bytes();
        // The log shrinks some time after its entries are purged.
        bytes_then = bytes.min(bytes_then);
        let grown = bytes.saturating_sub(bytes_then);
        let old = durable_at.elapsed() >= cuts.log_age && metrics.last_applied > metrics.snapshot;
        let due = grown >= cuts.log_bytes || old;
        if !due || bytes < LOG_BYTES_MAX && somebody_needs_the_log(&metrics, cuts.keep_entries) {
            continue;
        }
        if shared.raft.trigger().snapshot().await.is_err() {
            return;
        }
        (durable_at, bytes_then) = (Instant::now(), bytes);
    }
}

/// Whether a follower that answers has not reached what a cut would remove: cut
/// now, and it would need a snapshot, during which the log grows and is cut again.
fn somebody_needs_the_log(metrics: &RaftMetrics<TypeConfig>, keep_entries: u64) -> bool {
    let applied = metrics.last_applied.map_or(0, |id| id.index());
    let behind = |node: &NodeId| matched(metrics, node) < applied.saturating_sub(keep_entries);
    metrics
        .membership_config
        .nodes()
        .any(|(node, _)| *node != metrics.id && behind(node) && answers(metrics, node))
}

/// Makes voters of the learners that hold nearly all of the log.
async fn promote(shared: &Shared, metrics: &RaftMetrics<TypeConfig>) {
    if !shared.serves() {
        return;
    }
    let last = metrics.last_log_index.unwrap_or(0);
    let caught_up = |node: &NodeId| {
        answers(metrics, node) && matched(metrics, node) + PROMOTION_LAG_MAX >= last
    };
    let learners = metrics.membership_config.membership().learner_ids();
    let ready: BTreeSet<NodeId> = learners.filter(caught_up).collect();
    if ready.is_empty() {
        return;
    }
    tracing::info!(?ready, "learners have caught up and become voters");
    let changed = shared.raft.change_membership(ChangeMembers::AddVoterIds(ready), true);
    match tokio::time::timeout(CONTACT_AGE_MAX, changed).await {
        Ok(Ok(_)) => {}
        // The next look finds how it went.
        Ok(Err(error)) => tracing::warn!(%error, "learners do not become voters"),
        Err(_) => tracing::warn!("a change of membership takes long"),
    }
}

fn matched(metrics: &RaftMetrics<TypeConfig>, node: &NodeId) -> u64 {
    let replication = metrics.replication.as_ref().and_then(|all| all.get(node).copied());
    replication.flatten().map_or(0, |id| id.index())
}

fn answers(metrics: &RaftMetrics<TypeConfig>, node: &NodeId) -> bool {
    let contact = metrics.heartbeat.as_ref().and_then(|all| all.get(node).copied()).flatten();
    contact.is_some_and(|at| at.elapsed() <= CONTACT_AGE_MAX)
}
