//! The types that openraft is instantiated with. What a payload holds is the
//! storage engine's business; here it is bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies a node; never reused.
pub type NodeId = u64;

/// What one log entry carries: an encoded batch.
#[derive(Clone, Serialize, Deserialize)]
pub struct Payload(#[serde(with = "serde_bytes")] pub Vec<u8>);

impl fmt::Display for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "batch of {} bytes", self.0.len())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// How a member is reached by its peers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Host and port of its peer listener; empty in a cluster of one.
    pub address: String,
}

openraft::declare_raft_types!(
    /// Hearth's instance of openraft, with terms as in the Raft paper: one
    /// leader a term, so that a term names a decider.
    pub TypeConfig:
        D = Payload,
        R = storage::ApplyOutcome,
        NodeId = NodeId,
        Node = Peer,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<TypeConfig>;
