//! What became of a command that was submitted, and why a node could not start.

use serde::{Deserialize, Serialize};
use storage::Decision;

use crate::log::store::BelowHighWaterMark;

/// A decided command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Log index at which the decision holds: reading at it sees its effect.
    pub index: u64,
    /// The decision.
    pub decision: Decision,
}

/// Why a command has no decision. All but one mean that nothing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full; nothing happened.
    #[error("too many requests wait")]
    Busy,
    /// No node leads as far as this one knows; nothing happened.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// The deadline passed before the command was decided; nothing happened.
    #[error("the request waited for longer than it may")]
    DeadlinePassed,
    /// The command may or may not have been done.
    #[error("the outcome of the request is not known")]
    Unknown,
    /// This node takes no part in the cluster; nothing happened.
    #[error("this node is quarantined")]
    Quarantined,
}

/// Why a linearizable read could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No node leads as far as this one knows.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// The deadline passed.
    #[error("the index was not reached in time")]
    DeadlinePassed,
    /// This node takes no part in the cluster.
    #[error("this node is quarantined")]
    Quarantined,
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log lost what it is known to have held.
    #[error(transparent)]
    BelowHighWaterMark(#[from] BelowHighWaterMark),
    /// The node was found to hold another state than most others.
    #[error("{0}")]
    Quarantined(String),
    /// The data is damaged or not reachable.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// A folder or a thread was refused.
    #[error("cannot prepare the node: {0}")]
    System(#[from] std::io::Error),
    /// The configuration cannot work.
    #[error("bad raft settings: {0}")]
    Settings(String),
    /// Raft refused what it found.
    #[error("raft refused to start: {0}")]
    Raft(String),
}
