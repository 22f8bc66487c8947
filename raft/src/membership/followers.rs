//! What the leader's metrics say of its followers: how far they are, and whether
//! they answer. Judgements for changes of membership; nothing is done here.

use std::time::Duration;

use openraft::Instant as _;
use openraft::RaftMetrics;

use crate::types::{NodeId, TypeConfig};

/// The leader's metrics, looked at.
pub(crate) struct Followers<'a>(pub(crate) &'a RaftMetrics<TypeConfig>);

impl Followers<'_> {
    /// Index up to which a follower is known to hold the log.
    pub(crate) fn matched(&self, node: NodeId) -> Option<u64> {
        let replication = self.0.replication.as_ref()?.get(&node).copied();
        replication.flatten().map(|id| id.index())
    }

    /// Time since it last answered.
    pub(crate) fn silence(&self, node: NodeId) -> Option<Duration> {
        let heard = self.0.heartbeat.as_ref()?.get(&node).copied().flatten();
        heard.map(|at| at.elapsed())
    }

    /// Whether it answered within `time`; the leader itself always does.
    pub(crate) fn answers(&self, node: NodeId, time: Duration) -> bool {
        node == self.0.id || self.silence(node).is_some_and(|silence| silence <= time)
    }

    /// Whether a majority of these voters answered within `time`: a configuration of
    /// them can commit what it is given.
    pub(crate) fn majority_answers(&self, voters: &[NodeId], time: Duration) -> bool {
        let there = voters.iter().filter(|node| self.answers(**node, time)).count();
        there > voters.len() / 2
    }

    /// Entries of the leader's log that it is not known to hold.
    pub(crate) fn lag(&self, node: NodeId) -> Option<u64> {
        let last = self.0.last_log_index.unwrap_or(0);
        if node == self.0.id {
            return Some(0);
        }
        self.matched(node).map(|matched| last.saturating_sub(matched))
    }
}
