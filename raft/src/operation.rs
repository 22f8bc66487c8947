//! What operators can request of a cluster, and the results: plain types, shared by the peer
//! protocol and by the code that carries them out.

use serde::{Deserialize, Serialize};

use crate::types::NodeId;

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// How the cluster stands.
    Status,
    /// Let the pristine node at this address in. It follows at once, and votes once
    /// it has caught up.
    Add {
        /// Its id, as its own configuration says.
        node: NodeId,
        /// Host and port of its peer listener.
        address: String,
    },
    /// Let a node go for good.
    Remove {
        /// Its id.
        node: NodeId,
    },
    /// Have another voter lead.
    Transfer {
        /// Its id.
        to: NodeId,
    },
    /// Have every node hash its state at one index, and compare.
    Verify,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationResult {
    /// See [`Operation::Status`].
    Status(ClusterStatus),
    /// It is done, or under way where the operation says so.
    Done,
    /// See [`Operation::Verify`].
    Verified(Verification),
}

/// How the cluster stands, as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// The leader.
    pub leader: NodeId,
    /// Its term.
    pub term: u64,
    /// Index of the last entry of its log.
    pub last_log_index: u64,
    /// A change of membership is under way.
    pub changing: bool,
    /// All members by id.
    pub members: Vec<MemberStatus>,
}

/// One member of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its id.
    pub node: NodeId,
    /// Host and port of its peer listener.
    pub address: String,
    /// `leader`, `voter` or `learner`.
    pub role: String,
    /// Entries of the leader's log that it is not known to hold.
    pub lag: Option<u64>,
    /// Milliseconds since it last answered the leader.
    pub last_contact_ms: Option<u64>,
}

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OperateError {
    /// Nobody leads; nothing happened.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// It may or may not have happened: look at the cluster's status.
    #[error("the outcome is not known: look at the cluster's status")]
    Unknown,
    /// It cannot be done, and why.
    #[error("{0}")]
    Refused(String),
}

/// Result of an operation.
pub(crate) type Operate<T> = Result<T, OperateError>;

/// The SHA-256 of a state.
pub(crate) type Hash = [u8; 32];

/// What a node says of its state at a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HashStatus {
    /// Not applied or not hashed yet, or forgotten.
    Pending,
    /// Not hashed, since it was still at an earlier mark.
    Skipped,
    Ready(Hash),
}

/// Hashes of all members' states as of one index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The index.
    pub index: u64,
    /// Each member with the SHA-256 of its state; `None` for one that did not say.
    pub hashes: Vec<(NodeId, Option<Hash>)>,
    /// Members that keep out from now on: most voters agree on another hash.
    pub quarantined: Vec<NodeId>,
}

impl Verification {
    /// Whether all members said the same.
    pub fn agrees(&self) -> bool {
        self.hashes.iter().all(|(_, hash)| hash.is_some()) && !self.differs()
    }

    /// Whether two of them said different things.
    pub fn differs(&self) -> bool {
        let mut said = self.hashes.iter().filter_map(|(_, hash)| *hash);
        let first = said.next();
        said.any(|hash| Some(hash) != first)
    }
}
