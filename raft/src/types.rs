//! The types with which openraft is instantiated. A payload is opaque bytes here; the storage
//! engine defines its content.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Id of a node. An id is never reused.
pub type NodeId = u64;

/// Payload of one log entry: an encoded batch.
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

/// Host and port of a member's peer listener; empty in a cluster of one.
pub(crate) type Address = String;

openraft::declare_raft_types!(
    /// Hearth's instance of openraft. Terms are those of the Raft paper: at most one leader
    /// per term, so a term identifies the node that decided a batch.
    pub TypeConfig:
        D = Payload,
        R = storage::ApplyOutcome,
        NodeId = NodeId,
        Node = Address,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<TypeConfig>;
