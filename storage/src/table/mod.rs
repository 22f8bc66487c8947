//! The rows of `state/`: their keys, the RocksDB instance, and typed reads.

pub mod key;
pub mod state;
pub mod view;
