//! A memory as it is, from one cluster to another: what an export reads, and an import writes.

use serde::{Deserialize, Serialize};

use model::heat::Anchor;
use model::id::MemoryId;
use model::memory::Memory;
use model::vector::Vector;

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

impl ImportedMemory {
    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        self.memory.stored_bytes() as usize
    }
}
