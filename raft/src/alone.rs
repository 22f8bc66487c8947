//! The network of a cluster of one: it has no peers, so every call fails as
//! unreachable. Defaults that would grant or accept on a peer's behalf are overridden.

use openraft::OptionalSend;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};

use crate::snapshot::SnapshotFolder;
use crate::types::{NodeId, Peer, Snapshot, TypeConfig, Vote};

/// Reaches nobody.
pub(crate) struct Alone;

fn unreachable() -> Unreachable<TypeConfig> {
    Unreachable::from_string("this node runs as a cluster of one")
}

impl RaftNetworkFactory<TypeConfig> for Alone {
    type Network = Self;

    async fn new_client(&mut self, _target: NodeId, _node: &Peer) -> Self {
        Self
    }
}

impl RaftNetworkV2<TypeConfig> for Alone {
    type SnapshotData = SnapshotFolder;

    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(unreachable()))
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(unreachable()))
    }

    async fn pre_vote(
        &mut self,
        _request: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(unreachable()))
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(StreamingError::Unreachable(unreachable()))
    }
}
