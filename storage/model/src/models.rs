//! Which vectors are in use, and a change of the embedding model.
//!
//! A memory has a place for the vector in use and one for that of the next model. While a change is
//! under way, searches use the former. When all memories have the latter, one log entry switches.

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;
use crate::cluster::Model;
use crate::id::{MemoryId, TenantId, Timestamp};
use crate::vector::Vector;

/// Most bytes of the path of a model's folder.
pub const FOLDER_BYTES_MAX: usize = 4_096;
/// Most vectors of one command.
pub const EMBEDDED_MAX: usize = 256;
/// Most members of a cluster that can report.
const READY_MAX: usize = 1_024;

/// A place for the vectors of all memories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VectorPlace {
    /// Rows of the kind `Vector`.
    #[default]
    First,
    /// Rows of the kind `SecondVector`.
    Second,
}

impl VectorPlace {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Which vectors are in use, and which are to come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// The place in use.
    pub place: VectorPlace,
    /// The change that is under way.
    pub next: Option<NextModel>,
}

/// A change of the model that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextModel {
    /// The model.
    pub model: Model,
    /// Its folder on every node.
    pub folder: String,
    /// When the change began.
    pub started_at: Timestamp,
    /// Whether new texts are rejected for the moment, so that the last vectors can be computed.
    pub is_switching: bool,
    /// Whether the switch does not wait for members that have not loaded it.
    pub forced: bool,
    /// The nodes that have loaded it.
    #[serde(deserialize_with = "bounded::<READY_MAX, _, _>")]
    pub ready: Vec<u64>,
}

/// A memory that was embedded by the next model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedMemory {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: MemoryId,
    /// The text that was embedded. The memory may have another one by now.
    pub label: String,
    /// The vector of that text.
    pub vector: Vector,
}
