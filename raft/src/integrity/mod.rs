//! Detection of diverged replicas: all nodes hash their state at one log index, the leader
//! compares the hashes, and a node in the minority is quarantined.

pub(crate) mod quarantine;
pub(crate) mod verify;
