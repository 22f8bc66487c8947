//! The way between nodes, as openraft sees it: one link a peer. Formats are
//! `message`'s, connections `client`'s, the other end is `server`'s.

pub(crate) mod client;
pub(crate) mod identity;
pub(crate) mod log_throttle;
pub(crate) mod message;
pub(crate) mod server;
pub(crate) mod transfer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::Instant as _;
use openraft::OptionalSend;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};

use crate::log::record::VoteRecord;
use crate::network::client::{Channel, Peers, RpcError};
use crate::network::message::{AppendRpc, QuorumStatus, Rpc, RpcResponse};
use crate::state_machine::Raft;
use crate::state_machine::snapshot::{Snapshot, SnapshotFolder};
use crate::types::{LogId, NodeId, Peer, TypeConfig, Vote};

/// How long a follower may take to append entries: its sync, on a slow disk.
const APPEND_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to ask whether a peer that a snapshot did not reach is there again.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(1);

/// Makes links to peers.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) peers: Arc<Peers>,
    /// Set once raft runs, which needs its network first.
    pub(crate) raft: Arc<OnceLock<Raft>>,
}

/// The link to one peer.
pub(crate) struct Link {
    network: Network,
    target: NodeId,
    address: String,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: NodeId, node: &Peer) -> Link {
        Link { network: self.clone(), target, address: node.address.clone() }
    }
}

impl Link {
    async fn call(
        &self,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RPCError<TypeConfig>> {
        let peers = &self.network.peers;
        let called = peers.call(Channel::Raft, self.target, &self.address, call, timeout).await;
        called.map_err(|error| match error {
            // Both make openraft wait before it tries again.
            RpcError::NotSent(_) | RpcError::Refused(_) => {
                RPCError::Unreachable(Unreachable::from_string(error.to_string()))
            }
            RpcError::Lost(_) => RPCError::Network(NetworkError::from_string(error.to_string())),
        })
    }

    /// How this node stands as the leader of the term of `vote`. Nothing before an entry
    /// of that term is committed: until then it does not know what its predecessors
    /// acknowledged.
    fn quorum_status(&self, vote: &Vote) -> Option<QuorumStatus> {
        let metrics = self.network.raft.get()?.metrics();
        // Both from one look, so that they belong together.
        let metrics = metrics.borrow_watched();
        let commit = metrics.cluster_committed?;
        let acknowledged = metrics.last_quorum_acked?;
        let own = commit.committed_leader_id().term == vote.leader_id.term;
        let quorum_age_micros = u64::try_from(acknowledged.elapsed().as_micros()).ok()?;
        own.then_some(QuorumStatus { commit: commit.index(), quorum_age_micros })
    }

    async fn voted(
        &self,
        call: Rpc,
        option: &RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        match self.call(call, option.soft_ttl()).await? {
            RpcResponse::Voted { vote, granted, last } => {
                Ok(VoteResponse::new(Vote::from(vote), last.map(LogId::from), granted))
            }
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::from_string("the peer answered another question"))
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotFolder;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let quorum_status = self.quorum_status(&request.vote);
        let call = Rpc::Append(AppendRpc::of(request, quorum_status));
        match self.call(call, APPEND_TIMEOUT).await? {
            RpcResponse::Appended(appended) => Ok(appended.into()),
            _ => Err(unexpected()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.voted(Rpc::Vote(request.into()), &option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.voted(Rpc::PreVote(request.into()), &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let peers = &self.network.peers;
        let vote = VoteRecord::from(&vote);
        let sent = transfer::send(peers, self.target, &self.address, vote, &snapshot);
        let mut cancel = std::pin::pin!(cancel);
        let returned = tokio::select! {
            closed = &mut cancel => return Err(StreamingError::Closed(closed)),
            returned = sent => returned,
        };
        match returned {
            Ok(RpcResponse::Installed { vote }) => Ok(SnapshotResponse::new(vote.into())),
            Ok(_) => Err(unexpected().into()),
            Err(error) => {
                // The next attempt makes a new copy of the state: not before somebody is there.
                drop(snapshot);
                let there = async {
                    loop {
                        tokio::time::sleep(SNAPSHOT_RETRY).await;
                        if peers.introduce(&self.address, SNAPSHOT_RETRY).await.is_ok() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    closed = cancel => return Err(StreamingError::Closed(closed)),
                    () = there => {}
                }
                let unreachable = Unreachable::from_string(error.to_string());
                Err(StreamingError::Unreachable(unreachable))
            }
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        match self.call((&request).into(), option.soft_ttl()).await? {
            RpcResponse::Transferred { accepted: true } => Ok(Ok(())),
            RpcResponse::Transferred { accepted: false } => {
                Ok(Err(TransferLeaderError::LogNotFlushed {
                    expected: request.last_log_id().copied(),
                    actual: None,
                }))
            }
            _ => Err(unexpected()),
        }
    }
}
