//! In-memory indexes, derived from the state: rebuilt at start, updated by `apply`, never
//! written to disk.
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
pub(crate) mod graph_task;
pub(crate) mod heats;
mod namespaces;
pub(crate) mod rebuild;
pub(crate) mod registry;
pub(crate) mod slot;
pub(crate) mod tenant;
pub(crate) mod triggers;
pub(crate) mod words;
