//! Snapshots that this node receives.
//!
//! # Problem
//! While Raft installs a snapshot, it saves no vote: the purge of the log waits for the installation,
//! and what is written later waits for the purge. If the leader ends meanwhile, this node cannot vote
//! for the next one. Indexing takes some seconds per million memories.
//!
//! # Solution
//! The state is received, synced, opened and indexed beside Raft, which then only switches to it.
//! Raft rejects it if there was a later vote meanwhile. The opened state then stays for a minute,
//! since the next leader may send the same one.
//!
//! # Memory
//! Two states are in memory meanwhile. A node that uses more than half of its memory limit has no
//! room for that: Raft installs the files, and the present indexes are dropped first. Until the
//! received state is indexed, this node neither votes nor reads memories.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::statvfs;
use storage::{Received, Receiver};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::machine::{DiskStep, Machine, run_blocking};
use crate::state_machine::{Opened, SnapshotFolder, Snapshots, snapshot_meta};
use crate::types::{LogId, SnapshotMeta};

/// The snapshots that this node receives.
pub(crate) struct Incoming {
    /// Where their files go.
    pub(crate) snapshots: Snapshots,
    /// Free disk space in bytes that a snapshot must leave.
    reserve: u64,
    /// Locked while one is opened and installed: two states beside the present one may be too large.
    pub(crate) opening: AsyncMutex<Opening>,
    /// Whether memory suffices for two states. Sampled.
    has_memory: AtomicBool,
    /// The last entry of the opened state.
    last: Mutex<Option<LogId>>,
}

/// What opens states, and the one that is opened.
pub(crate) struct Opening {
    receiver: Arc<Receiver>,
    pub(crate) opened: Opened,
    /// When an opened state that was not installed is removed.
    pub(crate) kept_until: Instant,
}

impl Incoming {
    pub(crate) fn new(snapshots: Snapshots, receiver: Receiver, reserve: u64) -> Self {
        let (receiver, kept_until) = (Arc::new(receiver), Instant::now());
        let opening = Opening { receiver, opened: Opened::default(), kept_until };
        Self {
            snapshots,
            reserve,
            opening: AsyncMutex::new(opening),
            has_memory: AtomicBool::new(true),
            last: Mutex::default(),
        }
    }

    /// Takes the resident memory of the process and its limit, in bytes.
    pub(crate) fn set_memory(&self, resident: u64, limit: u64) {
        self.has_memory.store(resident <= limit / 2, Ordering::Relaxed);
    }

    /// Whether a received state may be opened beside the present one.
    pub(crate) fn has_memory(&self) -> bool {
        self.has_memory.load(Ordering::Relaxed)
    }

    /// Whether the state up to this entry is opened already, so that no file has to be sent.
    pub(crate) fn has(&self, last: Option<LogId>) -> bool {
        last.is_some() && *self.last.lock() == last
    }

    /// Removes an opened state that no leader has sent again.
    pub(crate) fn clear(&self) {
        if let Ok(opening) = self.opening.try_lock() {
            self.replace(&opening, None);
        }
    }

    /// Keeps a state instead of the one that was opened before.
    pub(crate) fn replace(&self, opening: &Opening, with: Option<(LogId, Received)>) {
        let (last, received) = with.unzip();
        *self.last.lock() = last;
        let before = std::mem::replace(&mut *opening.opened.lock(), received);
        drop(before);
    }

    /// Checks that the disk of `data` has space for so many bytes.
    pub(crate) fn check_space(&self, data: &Path, bytes: u64) -> io::Result<()> {
        let found = statvfs(data)?;
        let free = found.f_bavail * found.f_frsize;
        match free.checked_sub(bytes) {
            Some(left) if left >= self.reserve => Ok(()),
            _ => {
                let (needed, free) = (bytes >> 20, free >> 20);
                let text = format!("no space for a snapshot of {needed} MiB: {free} MiB are free");
                Err(io::Error::new(io::ErrorKind::StorageFull, text))
            }
        }
    }
}

impl Opening {
    /// Opens a received state. If it is not the announced one, or cannot be opened, the node stops.
    pub(crate) async fn open(
        &self,
        meta: &SnapshotMeta,
        folder: &SnapshotFolder,
        fault: &Fault,
        machine: &dyn Machine,
    ) -> Option<Received> {
        let (receiver, path) = (Arc::clone(&self.receiver), folder.path.clone());
        if let Err(error) = machine.before(DiskStep::Open).await {
            fault.report_storage(&error);
            return None;
        }
        let received = match run_blocking(machine, move || receiver.open(&path)).await {
            Ok(Ok(received)) => received,
            Ok(Err(error)) => {
                fault.report_storage(&error);
                return None;
            }
            Err(panic) => {
                fault.report(&panic);
                return None;
            }
        };
        if snapshot_meta(&received.position()).is_ok_and(|found| found == *meta) {
            return Some(received);
        }
        fault.report(&"a received state is not the one that was announced");
        None
    }
}
