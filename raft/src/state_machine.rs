//! openraft's state machine over `storage::Writer`.
//!
//! # Problem
//! Raft commits an entry once a majority has synced it. This node may be in the minority: its
//! own log may hold the entry unsynced. If it applied the entry then, a flush could make the
//! state durable before the log. After a power failure the state would be ahead of its log, and
//! the log would end before entries that this node has already applied.
//!
//! # Rule
//! [`StateMachine::apply`] waits until the local log is synced up to the entry, then applies it.
//!
//! # Invariants
//! - Durable state is never ahead of the durable log.
//! - Entries are applied one by one, in log order. Each is one atomic write of its changes and
//!   its position, so a restart continues after the last applied entry.
//! - Readers see an entry before its submitter receives the response.
//! - An error or a panic in apply stops the node. Otherwise it would diverge from the others.
//!
//! A snapshot has no copy at first: it only makes the state durable, so that the log below may
//! be purged. A copy for a follower is made on request ([`StateMachine::get_current_snapshot`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::TryReadyChunksError;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use parking_lot::Mutex;
use storage::model::cluster::{Cluster, Position};
use storage::{ApplyOutcome, EntryBody, Flusher, Reader, Received, View, Writer, codec};
use tokio::sync::watch;

use crate::fault::Fault;
use crate::log::record::{LogIdRecord, StoredMembershipRecord};
use crate::log::writer::LogWriter;
use crate::machine::{DiskStep, Machine, run_blocking};
use crate::timings::{Steps, Timings};
use crate::types::{Entry, LogId, SnapshotMeta, StoredMembership, TypeConfig};
use crate::writer_thread::WriterThread;

pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// Entries that are applied in one pass of the writer's thread.
const PASS_ENTRIES_MAX: usize = 16;

pub(crate) struct StateMachine {
    writer: WriterThread,
    reader: Reader,
    flusher: Flusher,
    log: Option<LogWriter>,
    snapshots: Snapshots,
    /// Index of the last applied entry.
    pub(crate) applied: Arc<watch::Sender<u64>>,
    fault: Fault,
    passes: Steps,
    machine: Arc<dyn Machine>,
}

impl StateMachine {
    /// `log` is `None` in the conformance suite only, which applies entries without a log.
    pub(crate) fn new(
        writer: Writer,
        log: Option<LogWriter>,
        snapshots: Snapshots,
        fault: Fault,
        timings: &Timings,
        machine: Arc<dyn Machine>,
    ) -> io::Result<Self> {
        let (reader, flusher) = (writer.reader().clone(), writer.flusher());
        let applied = Arc::new(watch::Sender::new(reader.position().index));
        let writer = WriterThread::start(writer, Arc::clone(&machine))?;
        let passes = timings.apply.clone();
        Ok(Self { writer, reader, flusher, log, snapshots, applied, fault, passes, machine })
    }
}

/// Applies one entry.
pub(crate) fn apply(writer: &mut Writer, entry: Entry) -> storage::Result<ApplyOutcome> {
    let log_id = codec::encode(&LogIdRecord::from(entry.log_id));
    let index = entry.log_id.index();
    let body = match &entry.payload {
        EntryPayload::Blank => EntryBody::Blank,
        EntryPayload::Normal(payload) => EntryBody::Batch(&payload.0),
        EntryPayload::Membership(membership) => {
            let stored = StoredMembership::new(Some(entry.log_id), membership.clone());
            EntryBody::Membership(codec::encode(&StoredMembershipRecord::from(&stored)))
        }
    };
    writer.apply(storage::Entry { index, log_id, body })
}

/// Makes the state durable if it has other members than before. After a crash, a node must know the
/// incarnations of all voters before it replays its log: one that lost its disk would get requests for its
/// vote under its former id, and accept entries under it.
fn keep_members(writer: &Writer, before: Option<&Cluster>) -> storage::Result<()> {
    let after = writer.reader().cluster()?;
    if after.as_deref().map(|it| &it.members) == before.map(|it| &it.members) {
        return Ok(());
    }
    writer.flusher().flush().map(drop)
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotState;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let meta = snapshot_meta(&self.reader.position()).map_err(self.fault.fail())?;
        Ok((meta.last_log_id, meta.last_membership))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut passes = entries.try_ready_chunks(PASS_ENTRIES_MAX);
        // Entries before a failed one are not applied either: the node stops.
        while let Some(pass) = passes.try_next().await.map_err(|TryReadyChunksError(_, e)| e)? {
            if let (Some(log), Some((last, _))) = (&self.log, pass.last()) {
                log.synced_to(last.log_id.index()).await?;
            }
            let (applied, steps) = (Arc::clone(&self.applied), self.passes.clone());
            let apply_all = move |writer: &mut Writer| {
                let _step = steps.start();
                pass.into_iter().try_for_each(|(entry, responder)| {
                    let (index, before) = (entry.log_id.index(), writer.reader().cluster()?);
                    let outcome = apply(writer, entry)?;
                    keep_members(writer, before.as_deref())?;
                    applied.send_replace(index);
                    if let Some(responder) = responder {
                        responder.send(outcome);
                    }
                    Ok(())
                })
            };
            self.writer.run(apply_all).await.map_err(self.fault.fail())?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let (flusher, fault) = (self.flusher.clone(), self.fault.clone());
        let machine = Arc::clone(&self.machine);
        Builder { flusher, snapshots: self.snapshots.clone(), fault, machine }
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta,
        SnapshotState { folder, opened }: SnapshotState,
    ) -> io::Result<()> {
        let opened = opened.lock().take();
        if opened.is_none() {
            self.machine.before(DiskStep::Open).await.map_err(self.fault.fail())?;
        }
        let switch = move |writer: &mut Writer| match opened {
            Some(received) => writer.switch(received),
            None => writer.open_and_switch(&folder.path),
        };
        self.writer.run(switch).await.map_err(self.fault.fail())?;
        self.applied.send_replace(self.reader.position().index);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        if self.reader.position().log_id.is_empty() {
            return Ok(None);
        }
        let folder = self.snapshots.next_folder();
        let path = folder.path.clone();
        let copied = self.writer.run(move |writer| writer.checkpoint(&path)).await;
        let position = copied.map_err(self.fault.fail())?;
        let meta = snapshot_meta(&position).map_err(self.fault.fail())?;
        Ok(Some(Snapshot { meta, snapshot: folder.into() }))
    }
}

/// openraft's snapshot, with its folder.
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<TypeConfig, SnapshotState>;

/// An opened state, until it is installed. Each snapshot that is given to Raft shares it.
pub(crate) type Opened = Arc<Mutex<Option<Received>>>;

/// The state of a snapshot: a copy in a folder, which this node sends; or one that it has received,
/// and opened if there was memory for it.
pub(crate) struct SnapshotState {
    pub(crate) folder: SnapshotFolder,
    pub(crate) opened: Opened,
}

impl From<SnapshotFolder> for SnapshotState {
    fn from(folder: SnapshotFolder) -> Self {
        Self { folder, opened: Opened::default() }
    }
}

/// A folder with a copy of a state. A drop removes the folder, unless the engine has moved it.
#[derive(Debug)]
pub struct SnapshotFolder {
    pub(crate) path: PathBuf,
}

impl SnapshotFolder {
    /// Its path.
    pub fn path(&self) -> &Path {
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
        let root = data.join("state/snapshots");
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

/// Last applied entry and membership of a state at `position`.
pub(crate) fn snapshot_meta(position: &Position) -> storage::Result<SnapshotMeta> {
    let last_log_id = match &position.log_id[..] {
        [] => None,
        bytes => Some(codec::decode::<LogIdRecord>(bytes)?.into()),
    };
    let last_membership = match &position.membership[..] {
        [] => StoredMembership::default(),
        bytes => codec::decode::<StoredMembershipRecord>(bytes)?.into_stored()?,
    };
    Ok(SnapshotMeta { last_log_id, last_membership })
}

/// Builds a snapshot: makes the state durable at its position, so that the log below may be
/// purged. It copies nothing. A copy is made when a follower needs one.
pub(crate) struct Builder {
    pub(crate) flusher: Flusher,
    pub(crate) snapshots: Snapshots,
    pub(crate) fault: Fault,
    pub(crate) machine: Arc<dyn Machine>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotState;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (flusher, machine) = (self.flusher.clone(), &*self.machine);
        machine.before(DiskStep::Flush).await.map_err(self.fault.fail())?;
        let flushed = run_blocking(machine, move || flusher.flush()).await;
        let flushed = flushed.inspect_err(|panic| self.fault.report(panic))?;
        let position = flushed.map_err(self.fault.fail())?;
        let meta = snapshot_meta(&position).map_err(self.fault.fail())?;
        Ok(Snapshot { meta, snapshot: self.snapshots.next_folder().into() })
    }
}
