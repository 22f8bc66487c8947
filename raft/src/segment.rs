//! Log shipping: consecutive entries of the log, to be kept outside the cluster.
//!
//! A segment is a head, then the entries as the log stores them. Each of these parts follows its
//! length in 4 bytes, big-endian. The head names the cluster, and the entry before the first one and
//! the last one with their hashes: segments form a chain.
//!
//! A node continues the chain of another one, and segments may overlap: the entries up to a given
//! term and index are the same on all nodes (Log Matching, Raft, section 5.3).

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use storage::model::cluster::{Incarnation, Position};
use storage::model::id::Timestamp;
use storage::{Batch, LogField, codec};

use crate::handle::Handle;
use crate::log::record::{EntryRecord, LogIdRecord};
use crate::log::store::field;
use crate::shared::Shared;
use crate::state_machine::snapshot_meta;
use crate::types::Entry;

/// Bytes of the entries of a segment. A larger entry is alone in one.
const BYTES_MAX: usize = 4 << 20;
/// Entries of a segment. So many of them without a change make a segment too: fewer ones wait for a
/// change.
const ENTRIES_MAX: usize = 1_000;
/// Bytes that contain the head of any segment.
pub const HEAD_BYTES_MAX: usize = 512;

storage::records! {
    SegmentHead: 1, "head of a log segment";
}

/// An entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// Its term.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// SHA-256 of its bytes; `None` if only a state contains it.
    pub sha256: Option<[u8; 32]>,
}

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHead {
    /// Id of the cluster.
    pub cluster: Incarnation,
    /// The entry before the first one.
    pub before: LogEnd,
    /// The last entry.
    pub last: LogEnd,
    /// Cluster time at the last entry.
    pub clock: Timestamp,
    /// SHA-256 of all that follows the head.
    pub sha256: [u8; 32],
}

/// Consecutive entries of the log of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// What it holds.
    pub head: SegmentHead,
    /// The entries, each after its length.
    body: Bytes,
}

/// What follows an entry in the log of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing that has to be kept yet.
    Nothing,
    /// These entries.
    Segment(Segment),
    /// Entries that the log no longer has.
    Purged,
}

impl LogEnd {
    /// The last entry that a state contains.
    ///
    /// # Errors
    /// If the position is damaged.
    pub fn of_state(position: &Position) -> storage::Result<Self> {
        let last = snapshot_meta(position)?.last_log_id.map(LogIdRecord::from);
        let LogIdRecord { term, index } = last.unwrap_or(LogIdRecord { term: 0, index: 0 });
        Ok(Self { term, index, sha256: None })
    }

    fn of_row(row: &[u8]) -> storage::Result<Self> {
        let LogIdRecord { term, index } = codec::decode::<EntryRecord>(row)?.id;
        Ok(Self { term, index, sha256: Some(Sha256::digest(row).into()) })
    }

    /// Whether both are the same entry, as far as that is known.
    pub fn is(&self, other: &Self) -> bool {
        let is_other = |a: [u8; 32]| other.sha256.is_some_and(|b| a != b);
        self.id() == other.id() && !self.sha256.is_some_and(is_other)
    }

    fn id(&self) -> LogIdRecord {
        LogIdRecord { term: self.term, index: self.index }
    }
}

impl SegmentHead {
    /// Reads the head from the first bytes of a segment.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn read(bytes: &[u8]) -> storage::Result<Self> {
        codec::decode(split(bytes)?.0)
    }
}

impl Segment {
    pub(crate) fn new(
        cluster: Incarnation,
        before: LogEnd,
        entries: &[Vec<u8>],
        clock: Timestamp,
    ) -> storage::Result<Self> {
        let mut body = Vec::new();
        entries.iter().for_each(|entry| join(&mut body, entry));
        let sha256: [u8; 32] = Sha256::digest(&body).into();
        let last = entries.last().map_or(Ok(before), |row| LogEnd::of_row(row))?;
        Ok(Self { head: SegmentHead { cluster, before, last, clock, sha256 }, body: body.into() })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES_MAX + self.body.len());
        join(&mut bytes, &codec::encode(&self.head));
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Bytes of its entries.
    pub fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// Reads a segment, and checks its hashes.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn decode(bytes: &Bytes) -> storage::Result<Self> {
        let (head, body) = split(bytes)?;
        let (head, body) = (codec::decode::<SegmentHead>(head)?, bytes.slice_ref(body));
        let sha256: [u8; 32] = Sha256::digest(&body).into();
        if sha256 != head.sha256 {
            return Err(corrupt("its hash is another one".into()));
        }
        Ok(Self { head, body })
    }

    /// The bytes of a segment with the hash of its entries in its head.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn with_right_hash(bytes: &[u8]) -> Option<Bytes> {
        let (head, body) = split(bytes).ok()?;
        let head = codec::decode::<SegmentHead>(head).ok()?;
        let head = SegmentHead { sha256: Sha256::digest(body).into(), ..head };
        Some(Self { head, body: Bytes::copy_from_slice(body) }.encode().into())
    }

    /// Its entries, with what they are.
    ///
    /// # Errors
    /// If one is damaged, or they do not follow one another as the head says.
    pub(crate) fn entries(&self) -> storage::Result<Vec<(Entry, LogEnd)>> {
        let (mut rest, mut last, mut entries) = (&self.body[..], self.head.before, Vec::new());
        while !rest.is_empty() {
            let (row, after) = split(rest)?;
            let found = LogEnd::of_row(row)?;
            if found.index != last.index + 1 || found.term < last.term {
                return Err(corrupt(format!("{:?} follows {:?}", found.id(), last.id())));
            }
            (last, rest) = (found, after);
            entries.push((codec::decode::<EntryRecord>(row)?.into_entry()?, found));
        }
        match last == self.head.last {
            true => Ok(entries),
            false => Err(corrupt(format!("it ends with {:?}", last.id()))),
        }
    }
}

impl Handle {
    /// What follows `after` in the log of this node, as far as it is applied. Reads the disk.
    ///
    /// # Errors
    /// If `after` is not an entry of this log, or an entry is damaged.
    pub fn entries_after(&self, cluster: Incarnation, after: &LogEnd) -> storage::Result<Next> {
        self.shared().map_or(Ok(Next::Nothing), |shared| entries_after(shared, cluster, after))
    }

    /// Sets up to which entry the log is kept outside the cluster. It is not compacted beyond that
    /// before it reaches its greatest size.
    pub fn set_shipped(&self, index: u64) {
        if let Some(shared) = self.shared() {
            shared.reported.shipped.store(index, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

fn entries_after(shared: &Shared, cluster: Incarnation, after: &LogEnd) -> storage::Result<Next> {
    let applied = *shared.applied.borrow();
    if applied <= after.index {
        return Ok(Next::Nothing);
    }
    let before = match &shared.log.read(after.index, 1, 0)?[..] {
        [(index, row)] if *index == after.index => LogEnd::of_row(row)?,
        _ => match field::<LogIdRecord>(&shared.log, LogField::Purged)? {
            Some(LogIdRecord { term, index }) if index == after.index => {
                LogEnd { term, index, sha256: after.sha256 }
            }
            _ => return Ok(Next::Purged),
        },
    };
    if !before.is(after) {
        return Err(corrupt(format!("the log has {:?} and not {:?}", before.id(), after.id())));
    }
    let rows = shared.log.read(after.index + 1, ENTRIES_MAX, BYTES_MAX)?;
    let rows = rows.into_iter().take_while(|(index, _)| *index <= applied);
    let (mut entries, mut has_changes, mut clock) = (Vec::new(), false, Timestamp::default());
    for ((index, row), expected) in rows.zip(after.index + 1..) {
        if index != expected {
            // Purged meanwhile.
            return Ok(Next::Purged);
        }
        if let Some(bytes) = codec::decode::<EntryRecord>(&row)?.batch() {
            let batch: Batch = codec::decode(bytes)?;
            (has_changes, clock) = (has_changes || !batch.changes.is_empty(), batch.stamp);
        }
        entries.push(row);
    }
    match has_changes || entries.len() == ENTRIES_MAX {
        true => Ok(Next::Segment(Segment::new(cluster, before, &entries, clock)?)),
        false => Ok(Next::Nothing),
    }
}

fn join(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
    bytes.extend_from_slice(part);
}

/// The first part, and what follows it.
fn split(bytes: &[u8]) -> storage::Result<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(|| corrupt("it was cut".into()))?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
        .ok_or_else(|| corrupt("it was cut".into()))
}

fn corrupt(detail: String) -> storage::Error {
    storage::Error::Corrupt { what: "log segment", detail }
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use openraft::entry::RaftEntry;

    use super::*;
    use crate::types::LogId;

    const START: LogEnd = LogEnd { term: 2, index: 6, sha256: None };

    fn entries(ids: &[(u64, u64)]) -> Vec<Vec<u8>> {
        let entry = |(term, index): &(u64, u64)| {
            Entry::new(LogId::new_term_index(*term, *index), EntryPayload::Blank)
        };
        ids.iter().map(|id| codec::encode(&EntryRecord::from(entry(id)))).collect()
    }

    fn segment(before: LogEnd, ids: &[(u64, u64)]) -> Segment {
        Segment::new([9; 16], before, &entries(ids), Timestamp(5)).unwrap()
    }

    #[test]
    fn bytes_of_a_segment_are_pinned() {
        let bytes = segment(START, &[(2, 7)]).encode();
        let head = bytes[3];
        assert_eq!(bytes[..3], [0, 0, 0]);
        assert_eq!(bytes[4..22], [&[1][..], &[9; 16], &[2]].concat());
        assert_eq!(bytes[4 + usize::from(head)..], [0, 0, 0, 4, 1, 2, 7, 0]);
        assert!(bytes.len() < HEAD_BYTES_MAX);
    }

    #[test]
    fn segment_is_read_as_it_was_written() {
        let first = segment(START, &[(2, 7), (2, 8), (4, 9)]);
        let read = Segment::decode(&first.encode().into()).unwrap();
        assert_eq!(read, first);
        assert_eq!(SegmentHead::read(&first.encode()).unwrap(), first.head);
        let entries = read.entries().unwrap().into_iter();
        let ids = entries.map(|(entry, _)| LogIdRecord::from(entry.log_id));
        let expected = [(2, 7), (2, 8), (4, 9)].map(|(term, index)| LogIdRecord { term, index });
        assert_eq!(ids.collect::<Vec<_>>(), expected);
        let second = segment(first.head.last, &[(4, 10)]);
        assert!(second.head.before.is(&first.head.last));
        let other = LogEnd { sha256: Some([1; 32]), ..first.head.last };
        assert!(!second.head.before.is(&other), "another entry");
        assert!(second.head.before.is(&LogEnd { sha256: None, ..other }), "it is not known");
    }

    #[test]
    fn each_changed_byte_is_found() {
        let bytes = segment(START, &[(2, 7), (2, 8)]).encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let read = Segment::decode(&damaged.into());
            // The head's own fields are compared with the place and with the segment before.
            let same = |segment: &Segment| segment.head == segment_head(&bytes);
            assert!(!read.as_ref().is_ok_and(same), "byte {at}");
            if at > bytes.len() - 16 {
                assert!(read.is_err(), "byte {at}");
            }
        }
        for length in 0..bytes.len() {
            assert!(Segment::decode(&bytes[..length].to_vec().into()).is_err(), "{length} bytes");
        }
    }

    fn segment_head(bytes: &[u8]) -> SegmentHead {
        SegmentHead::read(bytes).unwrap()
    }

    #[test]
    fn entries_follow_one_another() {
        for ids in [&[(2, 8)][..], &[(2, 7), (2, 7)], &[(2, 7), (2, 9)], &[(3, 7), (2, 8)]] {
            assert!(segment(START, ids).entries().is_err(), "{ids:?}");
        }
    }
}
