//! In-memory indexes, derived from the state: rebuilt at start, updated by `apply`.
//!
//! ```text
//! registry ── per tenant ── tenant (lock) ── data ┬─ chunk: columns of 1,024 memories
//!                                                 ├─ words: inverted index
//!                                                 └─ coverage: HNSW graph and what it covers
//! ```

pub(crate) mod attributes;
pub(crate) mod builder;
pub(crate) mod chunk;
pub(crate) mod coverage;
pub(crate) mod covered;
pub(crate) mod data;
pub(crate) mod graph;
pub(crate) mod heats;
pub(crate) mod hnsw;
pub(crate) mod journal;
mod namespaces;
mod points;
mod postings;
mod rebuild;
pub(crate) mod receipts;
pub(crate) mod registry;
pub(crate) mod saved;
mod schedule;
mod slots;
pub(crate) mod tenant;
pub(crate) mod triggers;
pub(crate) mod words;

/// Rows per chunk. Readers hold the lock of a tenant for one chunk at a time.
pub(crate) const CHUNK_ROWS: usize = 1_024;

/// Number of a memory within its tenant's index, like the doc ids of Lucene and Tantivy. Reused
/// after the memory is deleted.
/// Nodes assign slots independently, so results must never depend on their order.
pub(crate) type Slot = u32;

#[inline]
pub(crate) fn chunk_of(slot: Slot) -> usize {
    slot as usize / CHUNK_ROWS
}

#[inline]
pub(crate) fn row_of(slot: Slot) -> usize {
    slot as usize % CHUNK_ROWS
}

#[inline]
pub(crate) fn slot_at(chunk: usize, row: usize) -> Slot {
    (chunk * CHUNK_ROWS + row) as Slot
}

/// A count and its change. Both come from the same rows, so a count below zero is a bug:
/// tests stop at it. A release goes on with 0: the rows are right, and the next start counts them.
pub(crate) fn changed(count: u64, by: i64) -> u64 {
    let sum = count.checked_add_signed(by);
    debug_assert!(sum.is_some(), "a count of {count} changes by {by}");
    sum.unwrap_or_default()
}

fn less(count: u64, removed: u64) -> u64 {
    changed(count, -(removed as i64))
}
