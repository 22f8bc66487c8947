//! Operator requests to a cluster, and their results. Plain types, shared by the peer protocol
//! and by the code that runs the operations.

use serde::{Deserialize, Serialize};
use storage::RowFaults;
use storage::model::id::Timestamp;

use crate::types::NodeId;

/// A request of an operator. The leader runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Return the status of the cluster.
    Status,
    /// Add the pristine node at this address as a learner. The leader makes it a voter once
    /// it has caught up.
    Add {
        /// Its id, which must equal the id in its own configuration.
        node: NodeId,
        /// Host and port of its peer listener.
        address: String,
    },
    /// Remove a node for good. Its id cannot be added again.
    Remove(NodeId),
    /// Transfer leadership to another voter.
    Transfer(NodeId),
    /// Hash the state of every node at one index, and compare the hashes.
    Verify,
    /// Return cluster time and the wall clocks of all members.
    Clock,
    /// Move cluster time forward to the median of the voters' wall clocks. Without this, it
    /// approaches the median slowly.
    SetClock,
}

/// Result of an [`Operation`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationResult {
    /// See [`Operation::Status`].
    Status(ClusterStatus),
    /// The operation is complete, except for what the operation leaves to the leader.
    Done,
    /// See [`Operation::Verify`].
    Verified(Verification),
    /// See [`Operation::Clock`] and [`Operation::SetClock`].
    Clock(ClockStatus),
}

/// Cluster time and wall clocks at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStatus {
    /// Cluster time.
    pub cluster_time: Timestamp,
    /// Median of the voters' wall clocks; `None` if those of a quorum are unknown.
    pub median: Option<Timestamp>,
    /// The wall clock of each member; `None` if it sent no message in the last
    /// hour.
    pub wall_clocks: Vec<(NodeId, Option<Timestamp>)>,
}

/// Status of the cluster as one node sees it, the leader by preference. Operators read it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The leader; `None` if this node has no contact with one.
    pub leader: Option<NodeId>,
    /// The node that reports this.
    pub node: NodeId,
    /// Its term.
    pub term: u64,
    /// Index of the last entry of its log.
    pub last_log_index: u64,
    /// Its commit index.
    pub commit_index: u64,
    /// Index of the last entry that it has applied.
    pub applied_index: u64,
    /// The feature level that all members have, as the state holds it.
    pub feature_level: u16,
    /// A membership change is in progress (joint consensus).
    pub changing: bool,
    /// All members by id.
    pub members: Vec<MemberStatus>,
}

/// What a member does in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberRole {
    /// It leads, and votes.
    Leader,
    /// It votes.
    Voter,
    /// It receives the log.
    Learner,
}

impl MemberRole {
    /// Whether it counts for a quorum.
    pub fn votes(self) -> bool {
        self != Self::Learner
    }
}

/// Status of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its id.
    #[serde(rename = "id")]
    pub node: NodeId,
    /// Host and port of its peer listener.
    pub address: String,
    /// What it does in the cluster.
    pub role: MemberRole,
    /// Entries of the leader's log that it has not confirmed. Only the leader knows it.
    pub lag: Option<u64>,
    /// Milliseconds since its last response to the leader, or its last message to another node that
    /// reports this.
    pub last_contact_ms: Option<u64>,
    /// Whether its disk has less free space than its reserve.
    pub disk_full: bool,
    /// Version of Hearth that it runs; `None` if this process of the leader has no message from it.
    pub version: Option<String>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OperateError {
    /// No leader is reachable; no effect.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// The operation may or may not have taken effect.
    #[error("the outcome is unknown: check the cluster's status")]
    Unknown,
    /// The operation is not possible; holds the reason.
    #[error("{0}")]
    Rejected(String),
}

/// Result of running an operation.
pub(crate) type OperateResult<T> = Result<T, OperateError>;

/// SHA-256 of a state.
pub(crate) type Hash = [u8; 32];

/// A node's hash of its state at a verify mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HashStatus {
    /// The mark is not applied or not hashed yet, or its hash is no longer kept.
    Pending,
    /// Not hashed, because the node was still hashing at an earlier mark.
    Skipped,
    Ready(Hash),
}

/// Hashes of all members' states at one index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The index.
    pub index: u64,
    /// SHA-256 of each member's state; `None` for a member that returned no hash.
    pub hashes: Vec<(NodeId, Option<Hash>)>,
    /// Members that were quarantined, because a majority agrees on another hash.
    pub quarantined: Vec<NodeId>,
    /// Rows of the leader's state that cannot be, if they were searched in time. Equal states have the
    /// same ones.
    pub faults: Option<RowFaults>,
}

impl Verification {
    /// Whether all members returned the same hash.
    pub fn agrees(&self) -> bool {
        self.hashes.iter().all(|(_, hash)| hash.is_some()) && !self.differs()
    }

    /// Whether two members returned different hashes.
    pub fn differs(&self) -> bool {
        let mut hashes = self.hashes.iter().filter_map(|(_, hash)| *hash);
        let first = hashes.next();
        hashes.any(|hash| Some(hash) != first)
    }
}
