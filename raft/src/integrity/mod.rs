//! Detection of replicas that differ: state hashes are compared at one log index, and a
//! minority is quarantined.

pub(crate) mod quarantine;
pub(crate) mod verify;
