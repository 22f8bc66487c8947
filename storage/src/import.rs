//! Memories, edges and triggers as they are, from one cluster to another: what an export reads, and an
//! import writes.

use serde::{Deserialize, Serialize};

use crate::codec::bounded;
use crate::model::edge::Edge;
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, TriggerId};
use crate::model::memory::Memory;
use crate::model::trigger::{Firings, Trigger};
use crate::model::vector::Vector;
use crate::new_memory::CREATE_MAX;

/// Most edges or triggers of a command.
pub const IMPORT_MAX: usize = 200;

/// A memory with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedMemory {
    /// Its id.
    pub id: MemoryId,
    /// Its row.
    pub memory: Memory,
    /// Its heat.
    pub anchor: Anchor,
    /// Its vector.
    pub vector: Vector,
}

/// What one command imports. Each item succeeds or fails by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Import {
    /// Memories. No trigger fires.
    Memories(#[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")] Vec<ImportedMemory>),
    /// Edges of memories that exist. No trigger fires.
    Edges(#[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")] Vec<Edge>),
    /// Triggers. The key of the command owns them.
    Triggers(
        #[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")]
        Vec<(TriggerId, Trigger, Firings)>,
    ),
}

impl ImportedMemory {
    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        self.memory.stored_bytes() as usize
    }
}

impl Import {
    /// Approximate size in memory, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        const FIXED: usize = 256;
        match self {
            Self::Memories(all) => {
                all.iter().map(|one| FIXED + one.text_bytes() + one.vector.size_bytes()).sum()
            }
            Self::Edges(all) => FIXED * all.len(),
            Self::Triggers(all) => all.iter().map(|(_, trigger, _)| trigger.size_bytes()).sum(),
        }
    }
}
