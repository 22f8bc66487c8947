//! Replication progress and responsiveness of the followers, from the leader's metrics.
//! Membership changes and log compaction depend on it.

use std::time::Duration;

use openraft::Instant as _;
use openraft::RaftMetrics;

use crate::types::{NodeId, TypeConfig};

/// A view of the leader's metrics.
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

    /// Whether a majority of these voters responded within `time`, so that a configuration of
    /// them can commit entries.
    pub(crate) fn is_majority_responsive(&self, voters: &[NodeId], time: Duration) -> bool {
        let responsive = voters.iter().filter(|node| self.is_responsive(**node, time)).count();
        responsive > voters.len() / 2
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
