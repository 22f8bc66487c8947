//! What the data folders of stopped nodes hold, and the state that follows from a log: that of a
//! stopped node, or one that was kept outside the cluster.
//!
//! Without a majority, no node can say which entries of a log were committed. All that a node
//! acknowledged is among them, so recovery applies the log to its end. Of several logs, the one whose
//! last entry has the highest term, then index, contains each committed entry of the others (Raft,
//! section 5.4.1). It contains every acknowledged entry if the logs are those of a majority.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use openraft::EntryPayload;
use storage::model::cluster::Position;
use storage::model::id::Timestamp;
use storage::{Batch, Options, Reader, Writer, codec};

use crate::error::StartError;
use crate::integrity::quarantine_reason;
use crate::log::record::{HighWaterMark, LogIdRecord};
use crate::log::store::{MARK_FILE, last, purged_index, read_from};
use crate::segment::{LogEnd, Segment, SegmentHead};
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
    let mark = HighWaterMark::read(&data.join(MARK_FILE))?.unwrap_or_default();
    let last = last(&log)?;
    let LogIdRecord { term, index } = last.unwrap_or(LogIdRecord { term: 0, index: 0 });
    Ok(Remains {
        data: data.to_owned(),
        last: (term, index),
        applied: storage::backup::position(data)?.index,
        mark: mark.to_string(),
        is_short: last < mark.last,
        quarantined: quarantine_reason(data)?,
    })
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
    /// The last segment that was applied.
    last: Option<LogEnd>,
}

impl Replay {
    /// Opens the state in the folder `work`. The log has entries after `purged`.
    ///
    /// # Errors
    /// If the state is damaged, or the log does not continue it.
    pub fn open(work: &Path, purged: u64) -> Result<Self, StartError> {
        let (writer, ..) = storage::open(work, Options::default(), |_| Ok(purged))?;
        Ok(Self { writer, last: None })
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
    /// If the segment is damaged, or does not continue the state or the segment before it.
    pub fn apply(&mut self, segment: &Segment, until: Until) -> Result<bool, StartError> {
        let head = &segment.head;
        let position = LogEnd::of_state(&self.reader().position())?;
        let follows = match self.last {
            Some(last) => last == head.before,
            None => head.before.index <= position.index,
        };
        if !follows {
            return Err(gap(&position, head).into());
        }
        if head.before.index == position.index && head.before.term != position.term {
            return Err(gap(&position, head).into());
        }
        for entry in segment.entries()? {
            if until.excludes(&entry)? {
                return Ok(true);
            }
            let (id, next) = (LogIdRecord::from(entry.log_id), self.next());
            if id.index >= next {
                apply(&mut self.writer, entry)?;
            } else if id.index + 1 == next && id.term != position.term {
                return Err(gap(&position, head).into());
            }
        }
        self.last = Some(head.last);
        Ok(until == Until::Index(head.last.index))
    }

    /// Copies the state to the new folder `to`.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn end(self, to: &Path) -> Result<(), StartError> {
        Ok(self.writer.flusher().checkpoint(to)?)
    }
}

impl Until {
    /// Whether the replay ends before this entry.
    fn excludes(self, entry: &Entry) -> storage::Result<bool> {
        Ok(match (self, &entry.payload) {
            (Self::End, _) => false,
            (Self::Index(index), _) => entry.log_id.index() > index,
            (Self::Clock(time), EntryPayload::Normal(payload)) => {
                codec::decode::<Batch>(&payload.0)?.stamp > time
            }
            (Self::Clock(_), _) => false,
        })
    }
}

fn gap(position: &LogEnd, head: &SegmentHead) -> storage::Error {
    let LogEnd { term, index, .. } = position;
    let (first, before) = (head.before.index + 1, head.before.term);
    let detail = format!(
        "it begins with entry {first} after one of term {before}, and does not continue entry {index} of \
         term {term}"
    );
    storage::Error::Corrupt { what: "log segment", detail }
}

/// Whether these nodes are a majority of the voters of a state: of both sets of them during a
/// change.
///
/// # Errors
/// If the membership in the position is damaged.
pub fn is_majority(position: &Position, nodes: &BTreeSet<NodeId>) -> Result<bool, StartError> {
    let membership = snapshot_meta(position)?.last_membership;
    let sets = membership.membership().get_joint_config();
    let holds = |voters: &BTreeSet<NodeId>| voters.intersection(nodes).count() > voters.len() / 2;
    Ok(!sets.is_empty() && sets.iter().all(holds))
}
