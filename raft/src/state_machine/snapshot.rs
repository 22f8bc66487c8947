//! Snapshots: folders with copies of the state, their metadata, and the builder that makes the
//! state durable. `network/transfer.rs` sends them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::storage::RaftSnapshotBuilder;
use storage::model::cluster::Position;
use storage::{Flusher, codec};

use crate::log::record::{LogIdRecord, StoredMembershipRecord};
use crate::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// openraft's snapshot, with its folder.
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<TypeConfig, SnapshotFolder>;

/// A folder with a copy of a state. A drop removes the folder, unless the engine has moved it.
#[derive(Debug)]
pub struct SnapshotFolder {
    path: PathBuf,
}

impl SnapshotFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SnapshotFolder {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "snapshot folder not removed");
            }
            _ => {}
        }
    }
}

/// The parent of all snapshot folders. Folders of one process have distinct names. A start
/// removes the folders of earlier processes.
#[derive(Clone)]
pub(crate) struct Snapshots {
    root: PathBuf,
    next: Arc<AtomicU64>,
}

impl Snapshots {
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let root = data.join("snapshots");
        match std::fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&root)?,
        }
        Ok(Self { root, next: Arc::default() })
    }

    /// A new folder name. The caller creates the folder.
    pub(crate) fn next_folder(&self) -> SnapshotFolder {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        SnapshotFolder { path: self.root.join(number.to_string()) }
    }
}

/// The snapshot metadata of a state at `position`.
pub(crate) fn snapshot_meta(position: &Position) -> storage::Result<SnapshotMeta> {
    let (last_log_id, last_membership) = log_state(position)?;
    Ok(SnapshotMeta { last_log_id, last_membership })
}

/// Last applied entry and membership of a state at `position`.
pub(crate) fn log_state(position: &Position) -> storage::Result<(Option<LogId>, StoredMembership)> {
    let last = match &position.log_id[..] {
        [] => None,
        bytes => Some(codec::decode::<LogIdRecord>(bytes)?.into()),
    };
    let membership = match &position.membership[..] {
        [] => StoredMembership::default(),
        bytes => codec::decode::<StoredMembershipRecord>(bytes)?.into_stored()?,
    };
    Ok((last, membership))
}

/// Builds a snapshot: makes the state durable at its position, so that the log below may be
/// purged. It copies nothing. A copy is made when a follower needs one.
pub(crate) struct Builder {
    pub(crate) flusher: Flusher,
    pub(crate) snapshots: Snapshots,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFolder;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let flushed = tokio::task::block_in_place(|| self.flusher.flush());
        let position = flushed.map_err(io::Error::other)?;
        let meta = snapshot_meta(&position).map_err(io::Error::other)?;
        Ok(Snapshot { meta, snapshot: self.snapshots.next_folder() })
    }
}
