//! The types with which openraft is instantiated. A payload is opaque bytes here; the storage
//! engine defines its content.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Id of a node. An id is never reused.
pub type NodeId = u64;

/// Payload of one log entry: an encoded batch. A clone shares the bytes.
#[derive(Clone, Serialize, Deserialize)]
pub struct Payload(pub Bytes);

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

/// Whether a text is a host and a port with which peers can be called. The host is a name, an IPv4
/// address, or an IPv6 address in brackets.
pub fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let is_plain = !text.contains(|c: char| c.is_whitespace() || "/\\?#@%".contains(c));
    let has_host =
        || reqwest::Url::parse(&format!("https://{text}")).is_ok_and(|url| url.has_host());
    port.is_some_and(|port| port > 0) && is_plain && has_host()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for address in ["node-4:4282", "10.0.0.4:4282", "[::1]:4282", "node.example.:1"] {
            assert!(is_address(address), "{address}");
        }
        for invalid in [
            "",
            "node-4",
            "node-4:",
            ":4282",
            "node-4:0",
            "node-4:99999",
            "node-4:+80",
            "a b:1",
            "user@node-4:1",
            "node-4:1/x",
            "node-4:1?x",
            "node-4#x:1",
            "[::1:1",
            "::1:1",
            "node\t4:1",
            "https://node-4:1",
            "node-4:1\n",
            "%6eode:1",
        ] {
            assert!(!is_address(invalid), "{invalid:?}");
        }
    }
}
