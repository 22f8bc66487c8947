//! Weighted, labelled edges between memories. At most one edge exists per pair of memories
//! and relation, in either direction. Heat spreads in both directions.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{MemoryId, Timestamp};

/// Longest relation in bytes.
pub const RELATION_BYTES_MAX: usize = 64;
/// Maximum number of edges per memory.
pub const EDGES_MAX: usize = 256;
/// Maximum number of edges that a new memory gets automatically.
pub const SUGGESTIONS_MAX: usize = 8;
/// Relation of memories that share a key point.
pub const SHARES_KEY_POINT: &str = "shares_key_point";
/// Weight of an edge of this relation.
pub const SHARED_KEY_POINT_WEIGHT: f32 = 0.5;
/// Relation of memories with nearly the same vector.
pub const SIMILAR_TO: &str = "similar_to";
/// Lowest cosine of such memories. The cosine is the weight of the edge.
pub const SIMILAR_COSINE: f32 = 0.92;

/// Relation from a memory to one that it replaces: see
/// [`Memory::superseded_by`](crate::memory::Memory::superseded_by).
pub const SUPERSEDES: &str = "supersedes";
/// Most memories that one supersedes: when it is deleted, the rows of all of them change.
pub const SUPERSEDED_MAX: usize = 16;

/// A relation within a key of the state.
pub type RelationKey = [u8; 8];

/// First 8 bytes of the SHA-256 of a relation's name.
pub fn relation_key(relation: &str) -> RelationKey {
    let hash: [u8; 32] = Sha256::digest(relation).into();
    hash[..8].try_into().expect("eight of thirty-two bytes")
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The memory at which the edge starts.
    pub source: MemoryId,
    /// The memory at which the edge ends.
    pub target: MemoryId,
    /// Name of the relation, 1 to [`RELATION_BYTES_MAX`] bytes.
    pub relation: String,
    /// 0 to 1. Explicit edges have 1.
    pub weight: f32,
    /// Creation time.
    pub created_at: Timestamp,
}

impl Edge {
    /// The end of the edge that is not `end`.
    pub fn other(&self, end: MemoryId) -> MemoryId {
        if self.source == end { self.target } else { self.source }
    }
}

/// An edge suggested for a new memory by the node that embedded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The existing memory.
    pub other: MemoryId,
    /// [`SHARES_KEY_POINT`] or [`SIMILAR_TO`].
    pub relation: String,
    /// 0 to 1.
    pub weight: f32,
}
