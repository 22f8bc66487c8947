//! What the data folders of stopped nodes hold, and the state that follows from a whole log.
//!
//! Without a majority, no node can say which entries of a log were committed. All that a node
//! acknowledged is among them, so recovery applies the log to its end. Of several logs, the one whose
//! last entry has the highest term, then index, contains each committed entry of the others (Raft,
//! section 5.4.1). It contains every acknowledged entry if the logs are those of a majority.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use storage::Options;
use storage::model::cluster::Position;

use crate::error::StartError;
use crate::integrity::quarantine_reason;
use crate::log::record::{HighWaterMark, LogIdRecord};
use crate::log::store::{MARK_FILE, last, purged_index, read_from};
use crate::state_machine::{apply, snapshot_meta};
use crate::types::NodeId;

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
    let (mut writer, reader, _) = storage::open(work, Options::default(), |_| Ok(purged))?;
    let Position { index, log_id, .. } = reader.position();
    let mut next = if log_id.is_empty() { 0 } else { index + 1 };
    loop {
        let entries = read_from(&log, next, u64::MAX)?;
        let Some(end) = entries.last() else { break };
        next = end.log_id.index() + 1;
        for entry in entries {
            apply(&mut writer, entry)?;
        }
    }
    Ok(writer.flusher().checkpoint(to)?)
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
