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
use crate::state_machine::snapshot::{
    Builder, Snapshot, SnapshotFolder, Snapshots, log_state, snapshot_meta,
};
use crate::types::{Entry, LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// openraft with this state machine.
pub(crate) type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// The state machine.
pub(crate) struct StateMachine {
    writer: Writer,
    log: Option<LogWriter>,
    snapshots: Snapshots,
    applied: watch::Sender<u64>,
    fault: Fault,
}

impl StateMachine {
    /// `log` is `None` in the conformance suite only, which applies entries without a log.
    pub(crate) fn new(
        writer: Writer,
        log: Option<LogWriter>,
        snapshots: Snapshots,
        fault: Fault,
    ) -> Self {
        let applied = watch::Sender::new(writer.reader().position().index);
        Self { writer, log, snapshots, applied, fault }
    }

    /// Index of the last applied entry.
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

    fn report(&self, error: &storage::Error) -> io::Error {
        self.fault.report_storage(error);
        io::Error::other(error.to_string())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFolder;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        log_state(&self.writer.reader().position()).map_err(|error| self.report(&error))
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
            // The engine may block, so raft's other tasks move to another thread. A panic must
            // become an error: openraft would wait for the result without end.
            let applied = catch_unwind(AssertUnwindSafe(|| {
                tokio::task::block_in_place(|| self.apply_one(entry))
            }));
            let outcome = applied
                .unwrap_or_else(|_| Err(storage::Error::Misuse("apply panicked".into())))
                .map_err(|error| self.report(&error))?;
            self.applied.send_replace(index);
            if let Some(responder) = responder {
                responder.send(outcome);
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
        let is_announced =
            |position: &Position| snapshot_meta(position).is_ok_and(|found| found == *meta);
        // Blocks in proportion to the size of the state.
        let installed =
            tokio::task::block_in_place(|| self.writer.install(snapshot.path(), is_announced));
        installed.map_err(|error| self.report(&error))?;
        self.applied.send_replace(self.writer.reader().position().index);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        if self.writer.reader().position().log_id.is_empty() {
            return Ok(None);
        }
        let folder = self.snapshots.next_folder();
        let position = tokio::task::block_in_place(|| self.writer.checkpoint(folder.path()))
            .map_err(|error| self.report(&error))?;
        let meta = snapshot_meta(&position).map_err(|error| self.report(&error))?;
        Ok(Some(Snapshot { meta, snapshot: folder }))
    }
}
