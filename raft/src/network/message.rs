//! What nodes say to each other, in formats of our own: openraft's types promise
//! none. Not how it travels.

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};
use storage::Command;
use storage::codec::Record;
use storage::model::cluster::Incarnation;

use crate::contact::Clocks;
use crate::error::{Outcome, SubmitError};
use crate::log::record::{EntryRecord, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::operation::{Hash, HashStatus, OperateError, Operation, OperationResult};
use crate::types::{Entry, LogId, NodeId, SnapshotMeta, TypeConfig};

/// Largest message that is read, in bytes; snapshots are streams of their own.
pub(crate) const MESSAGE_BYTES_MAX: usize = storage::codec::RECORD_BYTES_MAX;
/// HTTP/2 flow-control window, both ways, in bytes.
pub const WINDOW_BYTES: u32 = 4 << 20;

/// Who speaks: stands in everything that a node sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerIdentity {
    /// Its cluster; none before its state says so.
    pub(crate) cluster: Option<Incarnation>,
    pub(crate) node: NodeId,
    /// This incarnation of its data folder.
    pub(crate) incarnation: Incarnation,
}

/// A call to a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) from: PeerIdentity,
    /// Whom it is for: an address may have changed hands.
    pub(crate) to: Option<NodeId>,
    /// The incarnation of that node's data folder, as the caller's cluster knows it.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) clocks: Clocks,
    pub(crate) call: Rpc,
}

impl Record for Request {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "peer request";
}

/// What is asked of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Rpc {
    /// Who are you?
    Introduce,
    Append(AppendRpc),
    Vote(VoteRpc),
    PreVote(VoteRpc),
    Transfer {
        vote: VoteRecord,
        to: NodeId,
        last: Option<LogIdRecord>,
    },
    /// Which index must be applied to read linearizably now?
    ReadIndex,
    /// Decide this as the leader; never passed on.
    Submit {
        command: Command,
        patience_micros: u64,
    },
    /// Announces the files of a snapshot, which follow.
    Snapshot(SnapshotRpc),
    /// Do this as the leader; never passed on.
    Operate {
        operation: Operation,
        patience_micros: u64,
    },
    /// What did your state hash to at this mark?
    Verified {
        number: u64,
    },
    /// Most voters hold what hashes to this at this mark: do you? The leader asks.
    Diverged {
        number: u64,
        agreed: Hash,
    },
}

/// openraft's AppendEntries, with what a follower needs to know how fresh it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AppendRpc {
    pub(crate) vote: VoteRecord,
    pub(crate) previous: Option<LogIdRecord>,
    pub(crate) entries: Vec<EntryRecord>,
    pub(crate) commit: Option<LogIdRecord>,
    /// How the leader stood as it sent this.
    pub(crate) quorum_status: Option<QuorumStatus>,
}

/// What a leader knows by which followers can tell how fresh they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuorumStatus {
    /// Index up to which it knows entries to be committed, all that its predecessors
    /// acknowledged among them.
    pub(crate) commit: u64,
    /// Time since a quorum last acknowledged it.
    pub(crate) quorum_age_micros: u64,
}

/// openraft's RequestVote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRpc {
    vote: VoteRecord,
    last: Option<LogIdRecord>,
    leadership_transfer: bool,
}

/// What a snapshot is, ahead of its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotRpc {
    pub(crate) vote: VoteRecord,
    pub(crate) last: Option<LogIdRecord>,
    pub(crate) membership: StoredMembershipRecord,
    /// Name and length of each file, in the order in which they follow.
    pub(crate) files: Vec<(String, u64)>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) from: PeerIdentity,
    pub(crate) clocks: Clocks,
    pub(crate) result: Result<RpcResponse, PeerRejection>,
}

impl Record for Response {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "peer response";
}

/// What a peer answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum RpcResponse {
    /// Whether it belongs to a cluster, or ever did.
    Introduced {
        pristine: bool,
    },
    Appended(Appended),
    Voted {
        vote: VoteRecord,
        granted: bool,
        last: Option<LogIdRecord>,
    },
    Transferred {
        accepted: bool,
    },
    ReadIndex {
        index: Option<u64>,
    },
    Submitted(Result<Outcome, SubmitError>),
    Installed {
        vote: VoteRecord,
    },
    OperationResult(Result<OperationResult, OperateError>),
    Verified(HashStatus),
    /// Whether the node keeps out from now on.
    Quarantined {
        accepted: bool,
    },
}

/// openraft's answer to AppendEntries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    All,
    UpTo(Option<LogIdRecord>),
    Conflict,
    HigherVote(VoteRecord),
}

/// Why a peer does not deal with the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum PeerRejection {
    #[error("it is another node than the one called")]
    NotMe,
    #[error("it belongs to another cluster")]
    OtherCluster,
    #[error(
        "this node is no member, or has lost its data: remove it from the cluster, and add it \
         again, empty, with a new id"
    )]
    NotAMember,
    #[error("it takes no part in its cluster at present")]
    Unavailable,
}

impl AppendRpc {
    pub(crate) fn of(
        request: AppendEntriesRequest<TypeConfig>,
        quorum_status: Option<QuorumStatus>,
    ) -> Self {
        Self {
            vote: (&request.vote).into(),
            previous: request.prev_log_id.map(LogIdRecord::from),
            entries: request.entries.into_iter().map(EntryRecord::from).collect(),
            commit: request.leader_commit.map(LogIdRecord::from),
            quorum_status,
        }
    }

    pub(crate) fn into_raft(self) -> storage::Result<AppendEntriesRequest<TypeConfig>> {
        let entries: storage::Result<Vec<Entry>> =
            self.entries.into_iter().map(EntryRecord::into_entry).collect();
        Ok(AppendEntriesRequest {
            vote: self.vote.into(),
            prev_log_id: self.previous.map(LogId::from),
            entries: entries?,
            leader_commit: self.commit.map(LogId::from),
        })
    }
}

impl From<AppendEntriesResponse<TypeConfig>> for Appended {
    fn from(response: AppendEntriesResponse<TypeConfig>) -> Self {
        match response {
            AppendEntriesResponse::Success => Self::All,
            AppendEntriesResponse::PartialSuccess(last) => Self::UpTo(last.map(LogIdRecord::from)),
            AppendEntriesResponse::Conflict => Self::Conflict,
            AppendEntriesResponse::HigherVote(vote) => Self::HigherVote((&vote).into()),
        }
    }
}

impl From<Appended> for AppendEntriesResponse<TypeConfig> {
    fn from(appended: Appended) -> Self {
        match appended {
            Appended::All => Self::Success,
            Appended::UpTo(last) => Self::PartialSuccess(last.map(LogId::from)),
            Appended::Conflict => Self::Conflict,
            Appended::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

impl From<VoteRequest<TypeConfig>> for VoteRpc {
    fn from(request: VoteRequest<TypeConfig>) -> Self {
        Self {
            vote: (&request.vote).into(),
            last: request.last_log_id.map(LogIdRecord::from),
            leadership_transfer: request.leadership_transfer,
        }
    }
}

impl From<VoteRpc> for VoteRequest<TypeConfig> {
    fn from(call: VoteRpc) -> Self {
        let mut request = Self::new(call.vote.into(), call.last.map(LogId::from));
        request.leadership_transfer = call.leadership_transfer;
        request
    }
}

impl From<VoteResponse<TypeConfig>> for RpcResponse {
    fn from(response: VoteResponse<TypeConfig>) -> Self {
        Self::Voted {
            vote: (&response.vote).into(),
            granted: response.vote_granted,
            last: response.last_log_id.map(LogIdRecord::from),
        }
    }
}

impl From<&TransferLeaderRequest<TypeConfig>> for Rpc {
    fn from(request: &TransferLeaderRequest<TypeConfig>) -> Self {
        Self::Transfer {
            vote: request.from_leader().into(),
            to: *request.to_node_id(),
            last: request.last_log_id().copied().map(LogIdRecord::from),
        }
    }
}

impl SnapshotRpc {
    pub(crate) fn new(vote: VoteRecord, meta: &SnapshotMeta, files: Vec<(String, u64)>) -> Self {
        let last = meta.last_log_id.map(LogIdRecord::from);
        Self { vote, last, membership: (&meta.last_membership).into(), files }
    }

    pub(crate) fn meta(&self) -> storage::Result<SnapshotMeta> {
        Ok(SnapshotMeta {
            last_log_id: self.last.map(LogId::from),
            last_membership: self.membership.clone().into_stored()?,
        })
    }
}
