//! Slots: the dense numbers under which one tenant's index stores its memories, like the doc
//! ids of Lucene and Tantivy. A slot is a chunk number and a row within the chunk.

/// Rows per chunk. Readers hold the lock of a tenant for one chunk at a time.
pub(crate) const CHUNK_ROWS: usize = 1_024;

/// Number of a memory within its tenant's index. Reused after the memory is deleted.
/// Nodes assign slots independently, so results must never depend on their order.
pub(crate) type Slot = u32;

/// Chunk of a slot.
#[inline]
pub(crate) fn chunk_of(slot: Slot) -> usize {
    slot as usize / CHUNK_ROWS
}

/// Row of a slot within its chunk.
#[inline]
pub(crate) fn row_of(slot: Slot) -> usize {
    slot as usize % CHUNK_ROWS
}

/// The slot of a row in a chunk.
#[inline]
pub(crate) fn slot_at(chunk: usize, row: usize) -> Slot {
    (chunk * CHUNK_ROWS + row) as Slot
}
