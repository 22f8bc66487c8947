//! Record formats of Raft's persistent data: log ids, votes, memberships, entries, and the
//! high-water mark. openraft guarantees no stable encoding, so its types are converted to these
//! records before they are stored or sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use bytes::Bytes;
use openraft::entry::RaftEntry;
use openraft::{EntryPayload, Membership};
use serde::{Deserialize, Serialize};
use storage::codec;
use storage::file;
use storage::model::bounded::bounded;

use crate::types::{Address, Entry, LogId, NodeId, Payload, StoredMembership, Vote};

storage::records! {
    LogIdRecord: 1, "log id";
    VoteRecord: 1, "vote";
    StoredMembershipRecord: 1, "membership";
    EntryRecord: 1, "log entry";
    HighWaterMark: 1, "high-water mark of the log";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogIdRecord {
    pub(crate) term: u64,
    pub(crate) index: u64,
}

impl From<LogId> for LogIdRecord {
    fn from(id: LogId) -> Self {
        Self { term: id.committed_leader_id().term, index: id.index() }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(record: LogIdRecord) -> Self {
        Self::new_term_index(record.term, record.index)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    pub(crate) term: u64,
    pub(crate) voted_for: NodeId,
    pub(crate) committed: bool,
}

impl From<&Vote> for VoteRecord {
    fn from(vote: &Vote) -> Self {
        Self {
            term: vote.leader_id.term,
            voted_for: vote.leader_id.voted_for,
            committed: vote.committed,
        }
    }
}

impl From<VoteRecord> for Vote {
    fn from(record: VoteRecord) -> Self {
        match record.committed {
            true => Self::new_committed(record.term, record.voted_for),
            false => Self::new(record.term, record.voted_for),
        }
    }
}

/// The members of the cluster. There are two sets of voters during a change (joint
/// consensus), else one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipRecord {
    #[serde(deserialize_with = "bounded::<2, _, _>")]
    voters: Vec<BTreeSet<NodeId>>,
    nodes: BTreeMap<NodeId, Address>,
}

impl From<&Membership<NodeId, Address>> for MembershipRecord {
    fn from(membership: &Membership<NodeId, Address>) -> Self {
        Self {
            voters: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, address)| (*id, address.clone())).collect(),
        }
    }
}

impl MembershipRecord {
    fn into_membership(self) -> storage::Result<Membership<NodeId, Address>> {
        Membership::new(self.voters, self.nodes).map_err(|error| storage::Error::Corrupt {
            what: "membership",
            detail: error.to_string(),
        })
    }
}

/// A membership, and the log entry that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMembershipRecord {
    log_id: Option<LogIdRecord>,
    membership: MembershipRecord,
}

impl From<&StoredMembership> for StoredMembershipRecord {
    fn from(stored: &StoredMembership) -> Self {
        Self {
            log_id: stored.log_id().map(LogIdRecord::from),
            membership: stored.membership().into(),
        }
    }
}

impl StoredMembershipRecord {
    pub(crate) fn into_stored(self) -> storage::Result<StoredMembership> {
        let membership = self.membership.into_membership()?;
        Ok(StoredMembership::new(self.log_id.map(LogId::from), membership))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryRecord {
    pub(crate) id: LogIdRecord,
    body: BodyRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum BodyRecord {
    Blank,
    Batch(Bytes),
    Membership(MembershipRecord),
}

impl From<Entry> for EntryRecord {
    fn from(entry: Entry) -> Self {
        let body = match entry.payload {
            EntryPayload::Blank => BodyRecord::Blank,
            EntryPayload::Normal(payload) => BodyRecord::Batch(payload.0),
            EntryPayload::Membership(membership) => BodyRecord::Membership((&membership).into()),
        };
        Self { id: entry.log_id.into(), body }
    }
}

impl EntryRecord {
    /// The bytes of its batch, if it has one.
    pub(crate) fn batch(&self) -> Option<&Bytes> {
        match &self.body {
            BodyRecord::Batch(bytes) => Some(bytes),
            BodyRecord::Blank | BodyRecord::Membership(_) => None,
        }
    }

    pub(crate) fn into_entry(self) -> storage::Result<Entry> {
        let payload = match self.body {
            BodyRecord::Blank => EntryPayload::Blank,
            BodyRecord::Batch(bytes) => EntryPayload::Normal(Payload(bytes)),
            BodyRecord::Membership(membership) => {
                EntryPayload::Membership(membership.into_membership()?)
            }
        };
        Ok(Entry::new(self.id.into(), payload))
    }
}

/// The durable high-water mark: vote and last entry that the log has contained durably. Kept
/// outside the log, to detect a log that lost its tail. See `log/writer.rs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HighWaterMark {
    pub(crate) vote: Option<VoteRecord>,
    pub(crate) last: Option<LogIdRecord>,
}

impl HighWaterMark {
    /// Reads the file at `path`; `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> storage::Result<Option<Self>> {
        file::read_checked(path)?.map(|bytes| codec::decode(&bytes)).transpose()
    }

    /// Replaces the file at `path`, durably.
    pub(crate) fn write(&self, path: &Path) -> storage::Result<()> {
        file::replace_checked(path, codec::encode(self))
    }
}

impl fmt::Display for HighWaterMark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => write!(out, "entry {} of term {}", last.index, last.term)?,
            None => write!(out, "no entry")?,
        }
        match self.vote {
            Some(vote) => write!(out, " (voted in term {})", vote.term),
            None => write!(out, " (no vote)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::codec::{decode, encode};

    #[test]
    fn encoded_bytes_are_pinned_and_decodable() {
        let id = LogIdRecord { term: 2, index: 300 };
        assert_eq!(encode(&id), [1, 2, 251, 44, 1]);
        let vote = VoteRecord { term: 2, voted_for: 3, committed: true };
        assert_eq!(encode(&vote), [1, 2, 3, 1]);
        let membership = MembershipRecord {
            voters: vec![BTreeSet::from([1])],
            nodes: BTreeMap::from([(1, "a".into())]),
        };
        let stored = StoredMembershipRecord { log_id: Some(id), membership: membership.clone() };
        assert_eq!(encode(&stored), [1, 1, 2, 251, 44, 1, 1, 1, 1, 1, 1, 1, b'a']);
        let blank = EntryRecord { id, body: BodyRecord::Blank };
        assert_eq!(encode(&blank), [1, 2, 251, 44, 1, 0]);
        let batch = EntryRecord { id, body: BodyRecord::Batch(vec![9, 8].into()) };
        assert_eq!(encode(&batch), [1, 2, 251, 44, 1, 1, 2, 9, 8]);
        let member = EntryRecord { id, body: BodyRecord::Membership(membership) };
        assert_eq!(encode(&member), [1, 2, 251, 44, 1, 2, 1, 1, 1, 1, 1, 1, b'a']);
        let mark = HighWaterMark { vote: Some(vote), last: None };
        assert_eq!(encode(&mark), [1, 1, 2, 3, 1, 0]);
        let entry = batch.clone().into_entry().unwrap();
        assert_eq!(decode::<EntryRecord>(&encode(&EntryRecord::from(entry))).unwrap(), batch);
    }
}
