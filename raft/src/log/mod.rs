//! The Raft log on disk: openraft's log storage, the thread that writes and syncs, and the
//! record formats.

pub(crate) mod recent;
pub(crate) mod record;
pub(crate) mod store;
pub(crate) mod writer;
