//! What the data folders of stopped nodes hold, and the state that follows from a log: that of a
//! stopped node, or one that was kept outside the cluster.
//!
//! Without a majority, no node can say which entries of a log were committed. All that a node
//! acknowledged is among them, so recovery applies the log to its end. Of several logs, the one whose
//! last entry has the highest term, then index, contains each committed entry of the others (Raft,
//! section 5.4.1). It contains every acknowledged entry if the logs are those of a majority.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use openraft::EntryPayload;
use storage::backup::Examined;
use storage::model::cluster::{Incarnation, Position};
use storage::model::id::Timestamp;
use storage::{Batch, Change, Log, Options, Reader, RowFaults, Writer, codec};

use crate::error::StartError;
use crate::integrity::quarantine_reason;
use crate::log::record::{HighWaterMark, LogIdRecord};
use crate::log::store::{MARK_FILE, last, purged_index, read_from};
use crate::segment::{LogEnd, Segment};
use crate::state_machine::{apply, snapshot_meta};
use crate::types::{Entry, NodeId};

/// What a data folder holds.
#[derive(Debug, Clone)]
pub struct Remains {
    /// The data folder.
    pub data: PathBuf,
    /// Term and index of the last entry of its log.
    pub last: (u64, u64),
    /// Index of the last entry that its state contains.
    pub applied: u64,
    /// The high-water mark beside the log.
    pub mark: String,
    /// Whether the log ends before that mark: the disk lost what it had synced.
    pub is_short: bool,
    /// Id of its cluster. `None` if state and log know none: the node was not yet a member.
    pub cluster: Option<Incarnation>,
    /// Rows of its state that cannot be.
    pub faults: RowFaults,
    /// Why the node was quarantined: its state is not to be trusted. `None` if it was not.
    pub quarantined: Option<String>,
}

/// Examines the data folder of a stopped node. Changes no file.
///
/// # Errors
/// If the folder holds no log or no state, or they are damaged.
pub fn examine_remains(data: &Path) -> Result<Remains, StartError> {
    let log = storage::open_log_to_read(data)?.ok_or_else(|| storage::Error::Corrupt {
        what: "log",
        detail: format!("{} holds none", data.display()),
    })?;
    let mark = HighWaterMark::read(&data.join(MARK_FILE))?;
    let last = last(&log)?;
    // The mark is written before the first entry: one that is absent was lost with the rest.
    let is_short = mark.is_none_or(|mark| last < mark.last);
    let Examined { position, cluster, faults } = storage::backup::examine_data(data)?;
    let cluster = match cluster {
        Some(id) => Some(id),
        None => cluster_in(&log, &position)?,
    };
    let LogIdRecord { term, index } = last.unwrap_or(LogIdRecord { term: 0, index: 0 });
    Ok(Remains {
        data: data.to_owned(),
        last: (term, index),
        applied: position.index,
        mark: mark.map_or_else(|| "the file log.mark is absent".into(), |mark| mark.to_string()),
        is_short,
        cluster,
        faults,
        quarantined: quarantine_reason(data)?,
    })
}

/// The cluster that a log creates after this position.
fn cluster_in(log: &Log, position: &Position) -> storage::Result<Option<Incarnation>> {
    let mut next = if position.log_id.is_empty() { 0 } else { position.index + 1 };
    loop {
        let entries = read_from(log, next, u64::MAX)?;
        let Some(last) = entries.last() else { return Ok(None) };
        next = last.log_id.index() + 1;
        for entry in entries {
            let EntryPayload::Normal(payload) = &entry.payload else { continue };
            let batch: Batch = codec::decode(&payload.0)?;
            // Another one was decided on another state, and changes nothing.
            if batch.after == position.batch {
                let mut changes = batch.changes.into_iter();
                return Ok(changes.find_map(|change| match change {
                    Change::ClusterPut(cluster) => Some(cluster.id),
                    _ => None,
                }));
            }
        }
    }
}

/// What is left of a cluster: the disks of some of its nodes.
#[derive(Debug)]
pub struct RemainingDisks(Vec<(NodeId, Remains)>);

impl RemainingDisks {
    /// Sorts them: the log that goes furthest is first.
    pub fn new(mut disks: Vec<(NodeId, Remains)>) -> Self {
        disks.sort_by_key(|(_, remains)| Reverse(remains.last));
        Self(disks)
    }

    /// All of them.
    pub fn all(&self) -> &[(NodeId, Remains)] {
        &self.0
    }

    /// The one that is recovered: its log contains those of the others. A state that is not to be trusted is
    /// left out, and so is a node that was not yet a member.
    ///
    /// # Errors
    /// If none is left, or they are of several clusters.
    pub fn best(&self) -> Result<&Remains, StartError> {
        let clusters: BTreeSet<_> = self.0.iter().filter_map(|(_, it)| it.cluster).collect();
        match clusters.len() {
            0 => Err(StartError::Disks("none of these nodes was a member of a cluster")),
            1 => {
                let best = self.trusted().next().map(|(_, remains)| remains);
                best.ok_or(StartError::Disks("each of these members was quarantined"))
            }
            _ => Err(StartError::Disks("these are disks of several clusters")),
        }
    }

    /// Whether nothing that was acknowledged is missing in the state that was recovered: the disks are those
    /// of a majority of its voters, of both sets of them during a change.
    ///
    /// # Errors
    /// If the membership in the position is damaged.
    pub fn are_majority(&self, recovered: &Position) -> Result<bool, StartError> {
        // A log that lost its end may lack an entry that its node had confirmed.
        let whole = self.trusted().filter(|(_, remains)| !remains.is_short);
        let nodes: BTreeSet<NodeId> = whole.map(|(node, _)| *node).collect();
        let membership = snapshot_meta(recovered)?.last_membership;
        let sets = membership.membership().get_joint_config();
        let hold =
            |voters: &BTreeSet<NodeId>| voters.intersection(&nodes).count() > voters.len() / 2;
        Ok(!sets.is_empty() && sets.iter().all(hold))
    }

    fn trusted(&self) -> impl Iterator<Item = &(NodeId, Remains)> {
        let is_trusted = |it: &Remains| it.cluster.is_some() && it.quarantined.is_none();
        self.0.iter().filter(move |(_, remains)| is_trusted(remains))
    }
}

/// Copies the state of a data folder into the new folder `work`, applies its whole log, and copies
/// the result to the new folder `to`. The data folder stays as it is.
///
/// # Errors
/// If the log does not continue the state, an entry is damaged, or the file system fails.
pub fn apply_remains(remains: &Remains, work: &Path, to: &Path) -> Result<(), StartError> {
    let log = storage::open_log_to_read(&remains.data)?.ok_or_else(|| storage::Error::Corrupt {
        what: "log",
        detail: format!("{} holds none", remains.data.display()),
    })?;
    let purged = purged_index(&log)?;
    storage::backup::copy_state(&remains.data, work)?;
    let mut replay = Replay::open(work, purged)?;
    loop {
        let entries = read_from(&log, replay.next(), u64::MAX)?;
        if entries.is_empty() {
            return replay.end(to);
        }
        for entry in entries {
            apply(&mut replay.writer, entry)?;
        }
    }
}

/// Where a replay of a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At its last entry.
    End,
    /// At the entry with this index.
    Index(u64),
    /// At the last batch whose stamp is not above this cluster time.
    Clock(Timestamp),
}

/// A state to which the entries of a log are applied, outside a cluster.
pub struct Replay {
    writer: Writer,
    /// The last entry that it contains.
    last: LogEnd,
}

impl Replay {
    /// Opens the state in the folder `work`. The log has entries after `purged`.
    ///
    /// # Errors
    /// If the state is damaged, or the log does not continue it.
    pub fn open(work: &Path, purged: u64) -> Result<Self, StartError> {
        let (writer, reader, _) = storage::open(work, Options::default(), |_| Ok(purged))?;
        Ok(Self { writer, last: LogEnd::of_state(&reader.position())? })
    }

    /// The state.
    pub fn reader(&self) -> &Reader {
        self.writer.reader()
    }

    /// Index of the next entry.
    pub fn next(&self) -> u64 {
        let Position { index, log_id, .. } = self.reader().position();
        if log_id.is_empty() { 0 } else { index + 1 }
    }

    /// Applies the entries of a segment that follow the state, up to `until`. Returns whether that
    /// is reached.
    ///
    /// # Errors
    /// If the segment is damaged, or does not continue the state.
    pub fn apply(&mut self, segment: &Segment, until: Until) -> Result<bool, StartError> {
        let before = segment.head.before;
        let is_other = |end: &LogEnd, last: &LogEnd| end.index == last.index && !end.is(last);
        if before.index > self.last.index || is_other(&before, &self.last) {
            return Err(gap(&self.last, &before).into());
        }
        for (entry, end) in segment.entries()? {
            if is_other(&end, &self.last) {
                return Err(gap(&self.last, &end).into());
            }
            if end.index > self.last.index {
                if self.is_after(&entry, until)? {
                    return Ok(true);
                }
                apply(&mut self.writer, entry)?;
                self.last = end;
            }
        }
        Ok(until == Until::Index(self.last.index))
    }

    /// Whether the replay ends before this entry.
    fn is_after(&self, entry: &Entry, until: Until) -> storage::Result<bool> {
        Ok(match (until, &entry.payload) {
            (Until::Index(index), _) => entry.log_id.index() > index,
            (Until::Clock(time), EntryPayload::Normal(payload)) => {
                let batch: Batch = codec::decode(&payload.0)?;
                // One that was decided on another state changes nothing, and its stamp is not cluster time.
                batch.after == self.reader().position().batch && batch.stamp > time
            }
            (Until::End | Until::Clock(_), _) => false,
        })
    }

    /// Copies the state to the new folder `to`.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn end(self, to: &Path) -> Result<(), StartError> {
        Ok(self.writer.flusher().checkpoint(to)?)
    }
}

fn gap(last: &LogEnd, found: &LogEnd) -> storage::Error {
    let detail = format!(
        "it has entry {} of term {}, which does not continue entry {} of term {}",
        found.index, found.term, last.index, last.term
    );
    storage::Error::Corrupt { what: "log segment", detail }
}
