//! What carries encoded calls between nodes: connections with mutual TLS (`https`), or the network of a
//! simulation.

use std::io;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Claim;
use crate::network::message::RpcError;
use crate::network::transfer::SentSnapshot;

/// The purpose of a connection. Its task runs where its first call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Calls that only Raft's threads make, so that no other load delays them.
    Raft,
    /// Calls for clients of a node.
    Forward,
    /// Copies of a state.
    Snapshot,
}

impl Channel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::Forward => "forward",
            Self::Snapshot => "snapshot",
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Raft => "/peer/raft",
            Self::Forward => "/peer/forward",
            Self::Snapshot => "/peer/snapshot",
        }
    }
}

/// Carries encoded calls to the peer at an address: the host and the port of its peer listener.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call, and returns the response. Its caller may drop the future at any time. A caller that
    /// can take `claim` then is sure that the call was not sent.
    fn call(
        &self,
        channel: Channel,
        address: &str,
        message: Vec<u8>,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>>;

    /// Sends a snapshot, and returns the response.
    fn send_snapshot(
        &self,
        address: &str,
        snapshot: SentSnapshot,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>>;

    /// Opens a connection and closes it: whether a process listens there.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<()>>;
}
