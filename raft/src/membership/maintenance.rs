//! Periodic maintenance of raft. On every node: log compaction, which makes the state durable
//! and purges the log below, as far as nothing needs it. On the leader: completing membership changes
//! and promoting learners.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::{ChangeMembers, Instant as _, RaftMetrics};
use tokio::time::Instant;

use crate::shared::Shared;
use crate::types::{LogId, NodeId, TypeConfig};

/// Log size up to which entries stay that a slow follower or the place of backups lacks.
const LOG_BYTES_MAX: u64 = 1 << 30;
const INTERVAL: Duration = Duration::from_millis(500);
/// Age of the last response up to which a node counts as responsive.
pub(crate) const CONTACT_AGE_MAX: Duration = Duration::from_secs(1);
/// Wait for a membership change. A later run detects one that takes longer.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum lag of a learner that becomes a voter, in entries.
const PROMOTION_LAG_MAX: u64 = 100;

/// Settings of the log compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCompaction {
    /// Growth of the log in bytes after which it is compacted.
    pub log_bytes: u64,
    /// Time after which it is compacted regardless of its growth.
    pub log_age: Duration,
    /// Entries that are kept below the durable state. A follower that was away for a short time
    /// then needs no snapshot.
    pub keep_entries: u64,
    /// Time since its last response during which the log is kept for a slow follower. It must exceed the
    /// time in which a follower installs a snapshot, because it does not respond then.
    pub follower_timeout: Duration,
}

/// Replication progress and responsiveness of the followers, from the leader's metrics.
pub(crate) struct Followers<'a>(pub(crate) &'a RaftMetrics<TypeConfig>);

impl Followers<'_> {
    /// Index up to which a follower has confirmed the log.
    pub(crate) fn matched_index(&self, node: NodeId) -> Option<u64> {
        let replication = self.0.replication.as_ref()?.get(&node).copied();
        replication.flatten().map(|id| id.index())
    }

    /// Time since a follower's last response.
    pub(crate) fn last_contact(&self, node: NodeId) -> Option<Duration> {
        let responded_at = self.0.heartbeat.as_ref()?.get(&node).copied().flatten();
        responded_at.map(|at| at.elapsed())
    }

    /// Whether a node responded within `time`. The leader itself always did.
    pub(crate) fn is_responsive(&self, node: NodeId, time: Duration) -> bool {
        node == self.0.id || self.last_contact(node).is_some_and(|contact| contact <= time)
    }

    /// Entries of the leader's log that a node has not confirmed.
    pub(crate) fn lag(&self, node: NodeId) -> Option<u64> {
        let last = self.0.last_log_index.unwrap_or(0);
        if node == self.0.id {
            return Some(0);
        }
        self.matched_index(node).map(|matched| last.saturating_sub(matched))
    }
}

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>, compaction: LogCompaction) {
    let (mut compacted_at, mut compacted_bytes) = (Instant::now(), 0);
    let mut joint = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let metrics = shared.raft.metrics().borrow_watched().clone();
        if shared.is_serving() {
            advance_membership(&shared, &metrics, &mut joint).await;
        }
        let bytes = shared.log.size_bytes();
        // RocksDB frees purged entries with a delay.
        compacted_bytes = bytes.min(compacted_bytes);
        let growth = bytes.saturating_sub(compacted_bytes);
        let is_old =
            compacted_at.elapsed() >= compaction.log_age && metrics.last_applied > metrics.snapshot;
        if growth >= compaction.log_bytes || is_old {
            if shared.raft.trigger().snapshot().await.is_err() {
                return;
            }
            (compacted_at, compacted_bytes) = (Instant::now(), bytes);
        }
        let is_at_limit = bytes >= log_bytes_max();
        let purge_index = purge_index(&metrics, compaction, (!is_at_limit).then_some(&shared));
        if purge_index > metrics.purged.map_or(0, |id| id.index())
            && shared.raft.trigger().purge_log(purge_index).await.is_err()
        {
            return;
        }
    }
}

fn log_bytes_max() -> u64 {
    fail::fail_point!("log-at-its-limit", |_| 0);
    LOG_BYTES_MAX
}

/// Index up to which the log is purged: the entries that the durable state contains, but for the newest
/// ones. Unless the log is at its limit, it is kept for the place of backups, and for responsive
/// followers. These would otherwise need a snapshot. While a follower installs one the log grows, and
/// the next purge would remove the entries that it needs after that.
fn purge_index(
    metrics: &RaftMetrics<TypeConfig>,
    compaction: LogCompaction,
    kept_for: Option<&Shared>,
) -> u64 {
    let durable = metrics.snapshot.map_or(0, |id| id.index());
    let index = durable.saturating_sub(compaction.keep_entries);
    let Some(shared) = kept_for else { return index };
    let followers = Followers(metrics);
    let nodes = metrics.membership_config.nodes().map(|(node, _)| *node);
    let responsive = nodes.filter(|node| {
        *node != metrics.id && followers.is_responsive(*node, compaction.follower_timeout)
    });
    let matched = responsive.map(|node| followers.matched_index(node).unwrap_or(0));
    let shipped = shared.reported.shipped.load(Ordering::Relaxed);
    matched.fold(index.min(shipped), u64::min)
}

/// Completes a membership change whose leader failed, else promotes learners that have caught
/// up. `joint` is the joint configuration that the last run found. A joint configuration is
/// completed only if it was there in the last run too: a new one may still be in progress.
async fn advance_membership(
    shared: &Shared,
    metrics: &RaftMetrics<TypeConfig>,
    joint: &mut Option<LogId>,
) {
    let membership = metrics.membership_config.membership();
    let change = match membership.get_joint_config().as_slice() {
        [_, .., new_voters] => {
            let found = *metrics.membership_config.log_id();
            if std::mem::replace(joint, found) != found {
                return;
            }
            ChangeMembers::ReplaceAllVoters(new_voters.clone())
        }
        _ => {
            let followers = Followers(metrics);
            let is_ready = |node: &NodeId| {
                let is_near = followers.lag(*node).is_some_and(|lag| lag <= PROMOTION_LAG_MAX);
                is_near && followers.is_responsive(*node, CONTACT_AGE_MAX)
            };
            let ready: BTreeSet<NodeId> = membership.learner_ids().filter(is_ready).collect();
            let voters: Vec<NodeId> = membership.voter_ids().chain(ready.iter().copied()).collect();
            let is_responsive = |node: &&NodeId| followers.is_responsive(**node, CONTACT_AGE_MAX);
            let responsive = voters.iter().filter(is_responsive).count();
            // The new configuration must be able to commit the change itself.
            if ready.is_empty() || responsive <= voters.len() / 2 {
                return;
            }
            tracing::info!(?ready, "promoting learners to voters");
            ChangeMembers::AddVoterIds(ready)
        }
    };
    // Removed voters leave the cluster; they do not stay as learners.
    let changed = shared.raft.change_membership(change, false);
    match tokio::time::timeout(CHANGE_TIMEOUT, changed).await {
        Ok(Ok(_)) if shared.voters().len() == 2 => tracing::warn!(
            "the cluster has two voters: if one of them fails, writes stop. Add a third"
        ),
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(%error, "membership change failed"),
        Err(_) => tracing::warn!("membership change not committed in time; it continues"),
    }
}
