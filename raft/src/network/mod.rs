//! openraft's network: one link per peer. `message` has the message formats, `connection` carries
//! calls in frames, `client` and `server` are its two ends, and `transfer` is the snapshot stream.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod https;
pub(crate) mod identity;
pub(crate) mod install;
pub(crate) mod log_throttle;
pub(crate) mod message;
pub(crate) mod transfer;
pub(crate) mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::Instant as _;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EntryPayload, OptionalSend};
use storage::codec;

use crate::log::record::{LogIdRecord, VoteRecord};
use crate::network::client::Peers;
use crate::network::message::{AppendRpc, QuorumStatus, Rpc, RpcError, RpcResponse};
use crate::network::transfer::SentSnapshot;
use crate::network::transport::Channel;
use crate::state_machine::{Raft, Snapshot, SnapshotState};
use crate::types::{Address, Entry, LogId, NodeId, TypeConfig, Vote};

/// Timeout of AppendEntries, without the time to send it. The follower syncs within it, possibly on
/// a slow disk.
const APPEND_TIMEOUT: Duration = Duration::from_secs(2);
/// Slowest network that entries pass in time: 1 Mbit/s.
const BYTES_PER_SECOND_MIN: u64 = 125_000;

/// Interval at which an unreachable target of a snapshot is probed.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(1);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) peers: Arc<Peers>,
    /// Set once raft runs. Raft itself needs the network to start.
    pub(crate) raft: Arc<OnceLock<Raft>>,
    /// Time without a message from a peer after which an append is preceded by a probe.
    pub(crate) silence_max: Duration,
}

pub(crate) struct Link {
    network: Network,
    target: NodeId,
    address: Address,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: NodeId, address: &Address) -> Link {
        Link { network: self.clone(), target, address: address.clone() }
    }
}

impl Link {
    async fn call(
        &self,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RPCError<TypeConfig>> {
        let peers = &self.network.peers;
        let called = peers.call(Channel::Raft, self.target, &self.address, call, timeout);
        called.await.map_err(|error| match error {
            // `Unreachable` makes openraft wait before the next attempt.
            RpcError::NotSent(_) | RpcError::Rejected(_) => {
                RPCError::Unreachable(Unreachable::from_string(error.to_string()))
            }
            RpcError::Lost(_) => RPCError::Network(NetworkError::from_string(error.to_string())),
        })
    }

    /// The quorum status of this node as the leader of the term of `vote`. `None` until it has
    /// committed an entry of that term: its commit index may not yet cover all entries that
    /// earlier leaders acknowledged.
    fn quorum_status(&self, vote: &Vote) -> Option<QuorumStatus> {
        let metrics = self.network.raft.get()?.metrics();
        // One consistent copy for both values.
        let metrics = metrics.borrow_watched();
        let commit = metrics.cluster_committed?;
        let acknowledged = metrics.last_quorum_acked?;
        let is_own_term = commit.committed_leader_id().term == vote.leader_id.term;
        let age = self.network.peers.local.clock.age(acknowledged.elapsed());
        let quorum_age_micros = u64::try_from(age.as_micros()).ok()?;
        let least = self.network.peers.local.contact.least_difference(self.target);
        let commit = commit.index();
        is_own_term.then_some(QuorumStatus { commit, quorum_age_micros, least })
    }

    /// Returns an error if the peer is silent and does not respond to a probe.
    ///
    /// An append renews the lease of its receiver, a probe does not. Otherwise a leader that
    /// reaches all nodes, but receives nothing from them, would prevent an election. The response
    /// to an append waits for the disk of the peer, the response to a probe does not: a peer with
    /// a slow disk is not silent.
    async fn check_contact(&self) -> Result<(), RPCError<TypeConfig>> {
        let local = &self.network.peers.local;
        let age = local.contact.message_age(self.target, local.clock.read().boottime);
        if age.is_none_or(|age| age > self.network.silence_max) {
            self.call(Rpc::Identify, PROBE_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Waits until the peer responds to a probe.
    async fn wait_reachable(&self) {
        loop {
            tokio::time::sleep(SNAPSHOT_RETRY).await;
            let peers = &self.network.peers;
            if peers.identify(Channel::Raft, &self.address, PROBE_TIMEOUT).await.is_ok() {
                return;
            }
        }
    }

    /// Sends a snapshot, and waits until the peer has installed it.
    async fn send(&self, vote: VoteRecord, snapshot: &Snapshot) -> Result<RpcResponse, RpcError> {
        let peers = &self.network.peers;
        let call = SentSnapshot::announce(vote, snapshot)
            .map_err(|error| RpcError::NotSent(format!("cannot read the snapshot: {error}")))?;
        let files = call.files.clone();
        // The receiver waits for the whole stream, however long it takes.
        let request = peers.request(Some(self.target), Duration::MAX, Rpc::Snapshot(call));
        let sent = SentSnapshot::new(codec::encode(&request), snapshot, files);
        peers.send_snapshot(self.target, &self.address, sent).await
    }

    async fn call_vote(
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

fn payload_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(payload) => payload.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

fn unexpected() -> RPCError<TypeConfig> {
    RPCError::Network(NetworkError::from_string("the response does not match the request"))
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotState;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.check_contact().await?;
        let quorum_status = self.quorum_status(&request.vote);
        let bytes: usize = request.entries.iter().map(payload_bytes).sum();
        let sending = Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN);
        let call = Rpc::Append(AppendRpc::new(request, quorum_status));
        match self.call(call, APPEND_TIMEOUT + sending).await? {
            RpcResponse::Appended(appended) => Ok(appended.into()),
            _ => Err(unexpected()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.call_vote(Rpc::Vote(request.into()), &option).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.call_vote(Rpc::PreVote(request.into()), &option).await
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
        let sent = self.send(vote, &snapshot);
        let mut cancel = std::pin::pin!(cancel);
        let response = tokio::select! {
            closed = &mut cancel => return Err(StreamingError::Closed(closed)),
            response = sent => response,
        };
        let error = match response {
            Ok(RpcResponse::Installed(vote)) => {
                peers.timings.sent_snapshots.inc();
                return Ok(SnapshotResponse::new(vote.into()));
            }
            Ok(_) => return Err(unexpected().into()),
            Err(error) => error,
        };
        // Each attempt copies the state, so the next one waits until the peer is reachable.
        drop(snapshot);
        tokio::select! {
            closed = cancel => return Err(StreamingError::Closed(closed)),
            () = self.wait_reachable() => {}
        }
        Err(StreamingError::Unreachable(Unreachable::from_string(error.to_string())))
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let last = request.last_log_id().copied();
        let (vote, to) = (request.from_leader().into(), *request.to_node_id());
        let call = Rpc::Transfer { vote, to, last: last.map(LogIdRecord::from) };
        match self.call(call, option.soft_ttl()).await? {
            RpcResponse::Transferred(true) => Ok(Ok(())),
            RpcResponse::Transferred(false) => {
                Ok(Err(TransferLeaderError::LogNotFlushed { expected: last, actual: None }))
            }
            _ => Err(unexpected()),
        }
    }
}
