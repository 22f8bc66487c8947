//! openraft's state machine over `storage::Writer`. It adds one rule of its own:
//! an entry is applied only once the log is synced past it, so that after a
//! power cut the state is never ahead of its log.

pub(crate) mod snapshot;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use storage::model::cluster::Position;
use storage::{ApplyOutcome, EntryBody, Writer, codec};
use tokio::sync::watch;

use crate::fault::Fault;
use crate::log::record::{LogIdRecord, StoredMembershipRecord};
use crate::log::writer::LogWriter;
use crate::state_machine::snapshot::{Builder, Snapshot, SnapshotFolder, Snapshots, meta, names};
use crate::types::{Entry, LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// openraft over this state machine.
pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// The state machine, as openraft sees it.
pub(crate) struct StateMachine {
    writer: Writer,
    log: Option<LogWriter>,
    snapshots: Snapshots,
    applied: watch::Sender<u64>,
    fault: Fault,
}

impl StateMachine {
    /// `log` is only absent in the conformance suite, which applies entries that no log holds.
    pub(crate) fn new(
        writer: Writer,
        log: Option<LogWriter>,
        snapshots: Snapshots,
        fault: Fault,
    ) -> Self {
        let applied = watch::Sender::new(writer.reader().position().index);
        Self { writer, log, snapshots, applied, fault }
    }

    /// Index of the last entry that readers see.
    pub(crate) fn watch_applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    fn apply_one(&mut self, entry: Entry) -> storage::Result<ApplyOutcome> {
        let log_id = codec::encode(&LogIdRecord::from(entry.log_id));
        let index = entry.log_id.index();
        let body = match entry.payload {
            EntryPayload::Blank => EntryBody::Blank,
            EntryPayload::Normal(payload) => EntryBody::Batch(payload.0),
            EntryPayload::Membership(membership) => {
                let stored = StoredMembership::new(Some(entry.log_id), membership);
                EntryBody::Membership(codec::encode(&StoredMembershipRecord::from(&stored)))
            }
        };
        self.writer.apply(storage::Entry { index, log_id, body })
    }

    fn failed(&self, error: &storage::Error) -> io::Error {
        self.fault.storage(error);
        io::Error::other(error.to_string())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFolder;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        names(&self.writer.reader().position()).map_err(|error| self.failed(&error))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let index = entry.log_id.index();
            if let Some(log) = &self.log {
                log.synced_to(index).await?;
            }
            // The engine may stall a write: heartbeats and votes move away meanwhile. A panic
            // here would leave raft waiting for an answer for ever.
            let applied = catch_unwind(AssertUnwindSafe(|| {
                tokio::task::block_in_place(|| self.apply_one(entry))
            }));
            let answer = applied
                .unwrap_or_else(|_| Err(storage::Error::Misuse("apply panicked".into())))
                .map_err(|error| self.failed(&error))?;
            self.applied.send_replace(index);
            // Last: who gets the answer must be able to read what it says.
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { flusher: self.writer.flusher(), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotFolder,
    ) -> io::Result<()> {
        let announced =
            |position: &Position| self::meta(position).is_ok_and(|found| found == *meta);
        // This blocks for as long as the state is large: other tasks move away.
        let installed =
            tokio::task::block_in_place(|| self.writer.install(snapshot.path(), announced));
        installed.map_err(|error| self.failed(&error))?;
        self.applied.send_replace(self.writer.reader().position().index);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        if self.writer.reader().position().log_id.is_empty() {
            return Ok(None);
        }
        let folder = self.snapshots.folder();
        let position = tokio::task::block_in_place(|| self.writer.checkpoint(folder.path()))
            .map_err(|error| self.failed(&error))?;
        let meta = meta(&position).map_err(|error| self.failed(&error))?;
        Ok(Some(Snapshot { meta, snapshot: folder }))
    }
}
