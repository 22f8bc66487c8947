//! What raft needs done now and then: the state made durable so that the log may
//! be cut, and, on the leader, learners that have caught up made voters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{ChangeMembers, RaftMetrics};
use storage::Log;
use tokio::time::Instant;

use crate::membership::followers::Followers;
use crate::shared::Shared;
use crate::types::{LogId, NodeId, TypeConfig};

/// Log bytes up to which entries are kept for a follower that is catching up.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// A learner that answered so recently is there to vote.
const CONTACT_AGE_MAX: Duration = Duration::from_secs(1);
/// How long a change of membership may take; the next look finds how it went.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Entries that a learner may be behind when it becomes a voter.
const PROMOTION_LAG_MAX: u64 = 100;

/// When the state is made durable and the log cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCompaction {
    /// After the log has grown by so many bytes.
    pub log_bytes: u64,
    /// After so long all the same.
    pub log_age: Duration,
    /// Entries that stay although the state is durable past them: a follower that was
    /// away for a moment needs no snapshot.
    pub keep_entries: u64,
    /// For how long a follower that does not answer holds compaction back: longer than it is
    /// silent while it installs a copy of the state.
    pub hold: Duration,
}

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>, log: Arc<Log>, compaction: LogCompaction) {
    let (mut durable_at, mut bytes_then) = (Instant::now(), 0);
    let mut joint = None;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let metrics = shared.raft.metrics().borrow_watched().clone();
        if shared.serves() {
            advance_membership(&shared, &metrics, &mut joint).await;
        }
        let bytes = log.size_bytes();
        // The log shrinks some time after its entries are purged.
        bytes_then = bytes.min(bytes_then);
        let grown = bytes.saturating_sub(bytes_then);
        let old =
            durable_at.elapsed() >= compaction.log_age && metrics.last_applied > metrics.snapshot;
        let due = grown >= compaction.log_bytes || old;
        if !due || bytes < LOG_BYTES_MAX && is_log_needed(&metrics, compaction) {
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
fn is_log_needed(metrics: &RaftMetrics<TypeConfig>, compaction: LogCompaction) -> bool {
    let followers = Followers(metrics);
    let applied = metrics.last_applied.map_or(0, |id| id.index());
    let reached = applied.saturating_sub(compaction.keep_entries);
    metrics.membership_config.nodes().any(|(node, _)| {
        let behind = followers.matched(*node).unwrap_or(0) < reached;
        *node != metrics.id && behind && followers.answers(*node, compaction.hold)
    })
}

/// Finishes a change of membership whose leader died over it, then makes voters of
/// the learners that hold nearly all of the log. `joint` is the half-done change that
/// the last look found: one that is found only now may be under way.
async fn advance_membership(
    shared: &Shared,
    metrics: &RaftMetrics<TypeConfig>,
    joint: &mut Option<LogId>,
) {
    let membership = metrics.membership_config.membership();
    let change = match membership.get_joint_config().as_slice() {
        [_, .., wanted] => {
            let found = *metrics.membership_config.log_id();
            if std::mem::replace(joint, found) != found {
                return;
            }
            ChangeMembers::ReplaceAllVoters(wanted.clone())
        }
        _ => {
            let ready = ready_learners(metrics);
            let voters: Vec<NodeId> = membership.voter_ids().chain(ready.iter().copied()).collect();
            // One that cannot commit what it is given would be stuck in the change.
            let answers = Followers(metrics).majority_answers(&voters, CONTACT_AGE_MAX);
            if ready.is_empty() || !answers {
                return;
            }
            tracing::info!(?ready, "learners have caught up and become voters");
            ChangeMembers::AddVoterIds(ready)
        }
    };
    // Voters that the change drops were to be removed: they do not stay as learners.
    let changed = shared.raft.change_membership(change, false);
    match tokio::time::timeout(CHANGE_TIMEOUT, changed).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the change of membership did not go through"),
        Err(_) => tracing::warn!("a change of membership takes long"),
    }
}

fn ready_learners(metrics: &RaftMetrics<TypeConfig>) -> BTreeSet<NodeId> {
    let followers = Followers(metrics);
    let ready = |node: &NodeId| {
        let near = followers.lag(*node).is_some_and(|lag| lag <= PROMOTION_LAG_MAX);
        near && followers.answers(*node, CONTACT_AGE_MAX)
    };
    metrics.membership_config.membership().learner_ids().filter(ready).collect()
}
