//! Messages between nodes. openraft guarantees no stable encoding, so its requests and responses
//! are converted to these records.
//!
//! Every message begins with a format byte. A node that cannot decode a request, for example
//! because its format is newer, returns a plain text that names the format. Every version can
//! read a plain text.

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use serde::{Deserialize, Serialize};
use storage::Command;
use storage::model::bounded::bounded;
use storage::model::cluster::{GroupId, Incarnation};

use crate::contact::{Condition, LeastDifference};
use crate::error::SubmitResult;
use crate::grants::{Grant, GrantRequest};
use crate::log::record::{EntryRecord, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::operation::{Hash, HashStatus, OperateResult, Operation, OperationResult};
use crate::span::RemoteSpan;
use crate::types::{Entry, LogId, NodeId, SnapshotMeta, TypeConfig};

storage::records! {
    Request: 1, "peer request";
    Response: 1, "peer response";
}

/// Maximum bytes of a message. Snapshots are streamed and have no such limit.
pub(crate) const MESSAGE_BYTES_MAX: usize = storage::codec::RECORD_BYTES_MAX;
/// Maximum entries of an AppendEntries message.
pub(crate) const ENTRIES_MAX: usize = 300;
/// Maximum files of a snapshot.
const FILES_MAX: usize = 1 << 16;

/// Identity of a sender; part of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerIdentity {
    /// Its cluster; `None` before its state holds one.
    pub(crate) cluster: Option<Incarnation>,
    pub(crate) node: NodeId,
    /// Incarnation of its data folder.
    pub(crate) incarnation: Incarnation,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The Raft group that it is for.
    pub(crate) group: GroupId,
    pub(crate) from: PeerIdentity,
    /// The node that it is for: another node may use the address now. `None` if an
    /// [`Rpc::Identify`] is to find that out.
    pub(crate) to: Option<NodeId>,
    /// The incarnation of that node's data folder that the sender's cluster has recorded.
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) condition: Condition,
    /// Time after which the sender no longer waits for the response.
    pub(crate) timeout_micros: u64,
    pub(crate) call: Rpc,
}

impl Request {
    /// Whether the sender wants to know which node this is. It may be any node with a certificate
    /// of the authority. A probe of a known member names its receiver, and is checked as each call.
    pub(crate) fn is_of_stranger(&self) -> bool {
        self.to.is_none() && self.call == Rpc::Identify
    }
}

/// A remote procedure call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Rpc {
    /// Returns the receiver's identity, and whether it is pristine.
    Identify,
    Append(AppendRpc),
    Vote(VoteRpc),
    PreVote(VoteRpc),
    Transfer {
        vote: VoteRecord,
        to: NodeId,
        last: Option<LogIdRecord>,
    },
    /// Returns the leader's read index.
    ReadIndex,
    /// Submits a command to the receiver as the leader. It is never forwarded again.
    Submit {
        command: Box<Command>,
        /// The span of its request, if that is traced.
        span: Option<RemoteSpan>,
    },
    /// Announces a snapshot. Its files follow in the same stream.
    Snapshot(SnapshotRpc),
    /// Runs an operation on the receiver as the leader. It is never forwarded again.
    Operate(Operation),
    /// Returns the hash of the receiver's state at a verify mark.
    StateHash(u64),
    /// From the leader: quarantines the receiver if its hash at the mark is not `majority`.
    Quarantine {
        mark: u64,
        majority: Hash,
    },
    /// Returns whether the receiver leads a term. If it `waits`, it responds once it does not, or after
    /// some seconds.
    Leads {
        term: u64,
        waits: bool,
    },
    /// To a voter: returns whether the leader of a term is gone (`leader/watch.rs`).
    IsGone {
        leader: NodeId,
        term: u64,
    },
    /// Requests that the receiver, as the leader, grants to a tenant on this node.
    Grant(GrantRequest),
}

/// openraft's AppendEntries, with the data for the follower's freshness (`contact.rs`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AppendRpc {
    pub(crate) vote: VoteRecord,
    pub(crate) previous: Option<LogIdRecord>,
    #[serde(deserialize_with = "bounded::<ENTRIES_MAX, _, _>")]
    pub(crate) entries: Vec<EntryRecord>,
    pub(crate) commit: Option<LogIdRecord>,
    /// `None` until the leader has committed an entry of its own term.
    pub(crate) quorum_status: Option<QuorumStatus>,
}

/// The leader's commit index, and how old and how late this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuorumStatus {
    /// Its commit index. It covers all entries that earlier leaders acknowledged.
    pub(crate) commit: u64,
    /// Time since a quorum last acknowledged the leader, at the time of sending.
    pub(crate) quorum_age_micros: u64,
    /// That of the receiver's messages to the leader.
    pub(crate) least: Option<LeastDifference>,
}

/// openraft's RequestVote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRpc {
    vote: VoteRecord,
    last: Option<LogIdRecord>,
    leadership_transfer: bool,
}

/// Metadata of a snapshot and a list of its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotRpc {
    pub(crate) vote: VoteRecord,
    pub(crate) last: Option<LogIdRecord>,
    pub(crate) membership: StoredMembershipRecord,
    /// Name and length in bytes of each file, in stream order.
    #[serde(deserialize_with = "bounded::<FILES_MAX, _, _>")]
    pub(crate) files: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) from: PeerIdentity,
    pub(crate) condition: Condition,
    pub(crate) result: Result<RpcResponse, PeerRejection>,
}

/// The result of an [`Rpc`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum RpcResponse {
    /// Whether the node is pristine: it has never belonged to a cluster.
    Identified(bool),
    Appended(Appended),
    Voted {
        vote: VoteRecord,
        granted: bool,
        last: Option<LogIdRecord>,
    },
    /// Whether it accepted the leadership.
    Transferred(bool),
    ReadIndex(Option<u64>),
    /// The outcome, and whether several tenants use the leader.
    Submitted(SubmitResult, bool),
    Installed(VoteRecord),
    OperationResult(OperateResult<OperationResult>),
    StateHash(HashStatus),
    /// Whether the node is quarantined.
    Quarantined(bool),
    Leads(bool),
    /// The last entry of the voter's log, if the leader has ended.
    Gone(Option<LogIdRecord>),
    /// `None` if the receiver does not lead.
    Granted(Option<Grant>),
}

/// openraft's response to AppendEntries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Appended {
    All,
    UpTo(Option<LogIdRecord>),
    Conflict,
    HigherVote(VoteRecord),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The peer did not receive it; no effect.
    #[error("not delivered: {0}")]
    NotSent(String),
    /// The peer may have received it; the effect is unknown.
    #[error("no response: {0}")]
    Lost(String),
    /// The peer rejected it; no effect.
    #[error("rejected: {0}")]
    Rejected(#[from] PeerRejection),
}

/// Why a peer rejects a call. The call has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum PeerRejection {
    #[error("the node at this address has another id")]
    OtherNode,
    #[error("the node belongs to another cluster")]
    OtherCluster,
    #[error(
        "this node is not a member, or has lost its data: start it empty with a new id, and run \
         `hearth cluster replace`"
    )]
    NotAMember,
    #[error("the node is unavailable at present")]
    Unavailable,
    #[error("the node has no such Raft group")]
    OtherGroup,
}

impl AppendRpc {
    pub(crate) fn new(
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

impl SnapshotRpc {
    pub(crate) fn meta(&self) -> storage::Result<SnapshotMeta> {
        Ok(SnapshotMeta {
            last_log_id: self.last.map(LogId::from),
            last_membership: self.membership.clone().into_stored()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openraft::entry::RaftEntry;
    use storage::codec::encode;
    use storage::command::UpdateSettings;
    use storage::model::cluster::GROUP;
    use storage::model::id::Timestamp;
    use storage::model::release::Release;

    #[test]
    fn long_lists_are_rejected() {
        let condition = Condition { wall_clock: Timestamp(1), boot: 3, ..Condition::default() };
        let from = PeerIdentity { cluster: None, node: 5, incarnation: [6; 16] };
        let decoded = |call| {
            let (to, incarnation, timeout_micros) = (None, None, 1);
            let request =
                Request { group: GROUP, from, to, incarnation, condition, timeout_micros, call };
            storage::codec::decode::<Request>(&encode(&request)).map(drop)
        };
        let vote = VoteRecord { term: 1, voted_for: 1, committed: true };
        let blank = || EntryRecord::from(Entry::new_blank(LogId::new_term_index(1, 1)));
        let append = |count| {
            let entries = (0..count).map(|_| blank()).collect();
            Rpc::Append(AppendRpc {
                vote,
                previous: None,
                entries,
                commit: None,
                quorum_status: None,
            })
        };
        let settings = |count| {
            let setting = (String::new(), storage::model::thermo::SettingValue::Number(0.0));
            let settings = UpdateSettings(vec![setting; count]);
            let command = Command::of_tenant(storage::model::id::TenantId(1), settings);
            Rpc::Submit { command: Box::new(command), span: None }
        };
        for (allowed, rejected) in [(append(300), append(301)), (settings(1_024), settings(1_025))]
        {
            assert!(decoded(allowed).is_ok());
            let error = decoded(rejected).unwrap_err().to_string();
            assert!(error.contains("more than"), "{error}");
        }
    }

    #[test]
    fn encoded_bytes_are_pinned() {
        let condition = Condition {
            wall_clock: Timestamp(-1),
            boot: 3,
            boottime_micros: 4,
            disk_full: false,
            is_unfit: false,
            release: Release { level: 8, version: (9, 10, 11) },
        };
        let request = Request {
            group: GROUP,
            from: PeerIdentity { cluster: None, node: 5, incarnation: [6; 16] },
            to: Some(7),
            incarnation: None,
            condition,
            timeout_micros: 9,
            call: Rpc::ReadIndex,
        };
        let sender = [&[0, 5][..], &[6; 16]].concat();
        let condition_bytes = [1, 3, 4, 0, 0, 8, 9, 10, 11];
        let expected = [&[1, 0], &sender[..], &[1, 7, 0], &condition_bytes, &[9, 5]].concat();
        assert_eq!(encode(&request), expected);
        let response =
            Response { from: request.from, condition, result: Err(PeerRejection::OtherGroup) };
        let expected = [&[1], &sender[..], &condition_bytes, &[1, 4]].concat();
        assert_eq!(encode(&response), expected);
    }
}
