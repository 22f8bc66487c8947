//! In-memory indexes, derived from the state: rebuilt at start, updated by `apply`.
//!
//! ```text
//! tenant (lock) ── data ┬─ chunk: columns of 1,024 memories
//!                       ├─ words: inverted index
//!                       └─ coverage: HNSW graph and what it covers
//! ```

pub mod attributes;
pub mod chunk;
pub mod counts;
pub mod coverage;
pub mod data;
pub mod graph;
pub mod heats;
pub mod hnsw;
pub mod inverted_index;
pub mod numbers;
pub mod overlaps;
pub mod points;
pub mod postings;
pub mod saved;
pub mod schedule;
pub mod slots;
pub mod terms;
pub mod triggers;

/// Rows per chunk. Readers hold the lock of a tenant for one chunk at a time.
pub const CHUNK_ROWS: usize = 1_024;

/// Number of a memory within its tenant's index, like the doc ids of Lucene and Tantivy. Reused
/// after the memory is deleted.
/// Nodes assign slots independently, so results must never depend on their order.
pub type Slot = u32;

#[inline]
pub fn chunk_of(slot: Slot) -> usize {
    slot as usize / CHUNK_ROWS
}

#[inline]
pub fn row_of(slot: Slot) -> usize {
    slot as usize % CHUNK_ROWS
}

#[inline]
pub fn slot_at(chunk: usize, row: usize) -> Slot {
    (chunk * CHUNK_ROWS + row) as Slot
}

/// A count and its change. Both come from the same rows, so a count below zero is a bug:
/// tests stop at it. A release goes on with 0: the rows are right, and the next start counts them.
pub fn changed(count: u64, by: i64) -> u64 {
    let sum = count.checked_add_signed(by);
    debug_assert!(sum.is_some(), "a count of {count} changes by {by}");
    sum.unwrap_or_default()
}

pub fn less(count: u64, removed: u64) -> u64 {
    changed(count, -(removed as i64))
}
