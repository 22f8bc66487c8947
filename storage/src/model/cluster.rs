//! What the cluster is and where its state stands: identity, clock, position.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::Timestamp;
use crate::model::vector::ModelId;

/// A random 16-byte name: of a cluster, or of one life of a data folder.
pub type Incarnation = [u8; 16];

/// Who this cluster is, and of whom; written by its first batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Random name of the cluster; peers of another one are refused.
    pub id: Incarnation,
    /// Everybody who was ever admitted, by id: an id is never given twice.
    pub members: Vec<Member>,
    /// The embedding model that all vectors come from.
    pub model: Model,
}

/// A node that was admitted to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub node: u64,
    /// The life of its data folder: one that was emptied is another node.
    pub incarnation: Incarnation,
    /// It was removed, and is dealt with no more.
    pub removed: bool,
}

impl Member {
    /// A node that belongs to the cluster.
    pub fn new(node: u64, incarnation: Incarnation) -> Self {
        Self { node, incarnation, removed: false }
    }
}

impl Record for Cluster {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "cluster";
}

/// An embedding model, as far as vectors depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Stands in every vector row.
    pub id: ModelId,
    /// Name for people.
    pub name: String,
    /// Components of its vectors.
    pub dimension: u32,
}

/// Names a batch: the term of its decider and a counter within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchId {
    /// Raft term in which the batch was decided.
    pub term: u64,
    /// Counts the batches of that term, from 1.
    pub counter: u64,
}

/// How far a state has come. Written in the same RocksDB write as the changes
/// it counts, so it can never disagree with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Index of the last applied log entry, 0 before the first.
    pub index: u64,
    /// Raft's own name of that entry; opaque here.
    #[serde(with = "serde_bytes")]
    pub log_id: Vec<u8>,
    /// Raft's last applied membership; opaque here.
    #[serde(with = "serde_bytes")]
    pub membership: Vec<u8>,
    /// The last batch whose changes are in.
    pub batch: BatchId,
    /// The cluster clock: the stamp of that batch.
    pub clock: Timestamp,
}

impl Record for Position {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "position";
}
