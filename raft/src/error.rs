//! Outcomes of submitted commands, the right to end one, and errors of submits, reads and the start of a
//! node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use storage::{Accepted, Rejection};

/// Outcome of a decided command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Log index at which the reply holds. A read at this index includes the effect.
    pub index: u64,
    /// What it returns, or the rule that rejected the command.
    pub accepted: Result<Accepted, Rejection>,
}

/// Why a command has no outcome. Every variant except `Unknown` means that the command had
/// no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full; no effect.
    #[error("too many requests are queued: try again later")]
    Busy,
    /// This node has no contact with a leader; no effect.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// The deadline passed while the command was queued; no effect.
    #[error("the request timed out in the queue: try again later")]
    DeadlinePassed,
    /// The command may or may not have taken effect.
    #[error("the outcome of the request is unknown")]
    Unknown,
    /// This node is quarantined; no effect.
    #[error("this node is quarantined")]
    Quarantined,
    /// The leader is above its memory limit; no effect.
    #[error("the leader has reached its memory limit")]
    MemoryFull,
    /// A majority of the nodes lacks disk space; no effect.
    #[error("the disks of the cluster are full: delete memories, or enlarge the disks")]
    DiskFull,
}

/// Result of submitting a command.
pub type SubmitResult = Result<Outcome, SubmitError>;

/// Why a linearizable read is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This node has no contact with a leader.
    #[error("the cluster has no leader at the moment")]
    NoLeader,
    /// The deadline passed before this node had applied the index.
    #[error("the index was not reached in time")]
    DeadlinePassed,
    /// This node is quarantined.
    #[error("this node is quarantined")]
    Quarantined,
}

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log ends at the first text, below its durable high-water mark, the second.
    #[error(
        "the log ends at {0}, but this node had synced {1}: its disk lost acknowledged data. The \
         node stays up but does not vote. Keep a copy of its data folder. If other nodes hold the \
         data, start this node empty with a new id, and run `hearth cluster replace`. Never restore \
         an old copy of one node beside the others. For a cluster of one, restore a backup"
    )]
    BelowHighWaterMark(String, String),
    /// A state comparison quarantined this node; holds the reason.
    #[error("{0}")]
    Quarantined(String),
    /// The data is damaged or cannot be read.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The operating system refused a folder or a thread.
    #[error("cannot prepare the node: {0}")]
    System(#[from] std::io::Error),
    /// The disks of a lost cluster are not recovered.
    #[error("{0}")]
    Disks(&'static str),
    /// The settings are invalid.
    #[error("invalid raft settings: {0}")]
    Settings(String),
    /// Raft could not start or bootstrap.
    #[error("raft cannot start: {0}")]
    Raft(String),
}

/// The exclusive right to end a command: held by the executor, which decides it, or by the
/// submitter, which cancels it. A submitter that takes the claim is sure that the command has
/// no effect.
#[derive(Clone, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// True for the first caller only.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}
