//! Edges between memories: what relates two of them, and how strongly. A pair has one
//! edge a relation, whichever of the two was named first; warmth flows both ways.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::codec::Record;
use crate::model::id::{MemoryId, Timestamp};

/// Longest relation in bytes.
pub const RELATION_BYTES_MAX: usize = 64;
/// Most edges of a memory.
pub const EDGES_MAX: usize = 256;
/// Most edges that a new memory gets by itself.
pub const SUGGESTIONS_MAX: usize = 8;
/// Relation of memories that share a key point.
pub const SHARES_KEY_POINT: &str = "shares_key_point";
/// Weight of such an edge.
pub const SHARED_KEY_POINT_WEIGHT: f32 = 0.5;
/// Relation of memories that say nearly the same.
pub const SIMILAR_TO: &str = "similar_to";
/// Lowest cosine of such memories; it is the weight of their edge.
pub const SIMILAR_COSINE: f32 = 0.92;

/// Names a relation within a key.
pub type RelationKey = [u8; 8];

/// First 8 bytes of the SHA-256 of a relation's name.
pub fn relation_key(relation: &str) -> RelationKey {
    let hash: [u8; 32] = Sha256::digest(relation).into();
    hash[..8].try_into().expect("eight of thirty-two bytes")
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The memory that was named first.
    pub source: MemoryId,
    /// The other one.
    pub target: MemoryId,
    /// What relates them, 1 to [`RELATION_BYTES_MAX`] bytes.
    pub relation: String,
    /// 0 to 1; explicit edges have 1.
    pub weight: f32,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Record for Edge {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "edge";
}

impl Edge {
    /// The memory at the other end than `end`.
    pub fn other(&self, end: MemoryId) -> MemoryId {
        if self.source == end { self.target } else { self.source }
    }
}

/// An edge that a new memory should get, found by the node that embedded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// To which memory.
    pub other: MemoryId,
    /// [`SHARES_KEY_POINT`] or [`SIMILAR_TO`].
    pub relation: String,
    /// 0 to 1.
    pub weight: f32,
}
