//! The log writer: one thread that makes all writes to the log, syncs them, and keeps the
//! durable high-water mark.
//!
//! # Group commit
//! A sync costs milliseconds, a write costs microseconds. The thread therefore takes all queued
//! writes, writes them, and syncs once for all of them. Then it runs their callbacks.
//!
//! # High-water mark
//! Raft is correct only if a node never loses a vote or an entry that it has acknowledged. A
//! disk may lose synced data. RocksDB then drops the damaged tail of its write-ahead log and
//! opens without an error, as after an ordinary crash. The node would vote twice in one term,
//! or elect a leader without a committed entry.
//!
//! The mark detects this. It holds the vote and the last synced entry, in a small file outside
//! RocksDB. `LogStore::open` compares it with the log; a log below its mark must not take part
//! in the cluster.
//!
//! # Invariants
//! - The mark on disk is never above the durable log. It is raised after a sync, and lowered
//!   durably before a truncation is written.
//! - The mark on disk is at most [`MARK_INTERVAL`] behind the log, also under load.
//! - The commit index on disk is never above the durable log. It saves a restarted node a wait for
//!   the leader, so it is written once per interval only.
//! - After a failed write or sync the thread stops. A failed sync is never repeated: the data
//!   that it did not write may be gone although the next sync succeeds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use openraft::storage::IOFlushed;
use parking_lot::Mutex;
use storage::{Log, LogField, LogWrite, codec};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::fault::Fault;
use crate::log::record::{HighWaterMark, LogIdRecord, VoteRecord};
use crate::machine::{DiskStep, Machine};
use crate::timings::Steps;
use crate::types::TypeConfig;

/// Capacity of the queue of writes. Raft waits for earlier entries to be durable, so it stays short.
const QUEUE_MAX: usize = 1_024;
/// Interval at which the mark is written.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Write {
    pub(crate) write: LogWrite,
    /// Notified when the write is in the log.
    pub(crate) written: Option<oneshot::Sender<()>>,
    /// Notified when the write is durable. Without it the write does not cause a sync.
    pub(crate) durable: Option<IOFlushed<TypeConfig>>,
    /// Change of the mark once the write is durable.
    pub(crate) mark: MarkUpdate,
}

/// Effect of a write on the mark.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MarkUpdate {
    None,
    Last(LogIdRecord),
    Vote(VoteRecord),
    /// The write truncates the log to end at this entry. The mark is lowered before it.
    Lower(Option<LogIdRecord>),
}

/// The sending side of the writer's queue; cheap to clone.
#[derive(Clone)]
pub(crate) struct LogWriter {
    queue: mpsc::Sender<Write>,
    synced: watch::Receiver<Option<LogIdRecord>>,
    committed: Arc<Mutex<Option<LogIdRecord>>>,
}

impl LogWriter {
    /// Starts the thread. `mark` describes the present content of the log; `path` is the
    /// mark's file.
    pub(crate) fn start(
        log: Arc<Log>,
        path: PathBuf,
        mark: HighWaterMark,
        fault: Fault,
        [syncs, marks]: [Steps; 2],
        machine: Arc<dyn Machine>,
    ) -> std::io::Result<Self> {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let (synced_sender, synced) = watch::channel(mark.last);
        let committed = Arc::default();
        let thread = Thread {
            machine: Arc::clone(&machine),
            log,
            committed: Arc::clone(&committed),
            written_committed: None,
            path,
            mark,
            written_mark: HighWaterMark::default(),
            mark_checked_at: Instant::now(),
            synced: synced_sender,
            fault,
            syncs,
            marks,
        };
        machine.start_thread("log-writer", thread.run(receiver).boxed())?;
        Ok(Self { queue, synced, committed })
    }

    /// Queues a write. An error means that the thread has stopped on a fault.
    pub(crate) async fn send(&self, write: Write) -> std::io::Result<()> {
        self.queue.send(write).await.map_err(|_| stopped())
    }

    /// Records the last committed entry.
    pub(crate) fn commit(&self, committed: Option<LogIdRecord>) {
        *self.committed.lock() = committed;
    }

    /// The last committed entry that was recorded.
    pub(crate) fn committed(&self) -> Option<LogIdRecord> {
        *self.committed.lock()
    }

    /// The last synced entry.
    pub(crate) fn synced(&self) -> Option<LogIdRecord> {
        *self.synced.borrow()
    }

    /// Waits until the log is synced up to entry `index`.
    pub(crate) async fn synced_to(&self, index: u64) -> std::io::Result<()> {
        let mut synced = self.synced.clone();
        synced
            .wait_for(|last| last.is_some_and(|last| last.index >= index))
            .await
            .map(drop)
            .map_err(|_| stopped())
    }
}

pub(crate) fn stopped() -> std::io::Error {
    std::io::Error::other("the log writer has stopped")
}

struct Thread {
    machine: Arc<dyn Machine>,
    log: Arc<Log>,
    committed: Arc<Mutex<Option<LogIdRecord>>>,
    /// The last committed entry on disk, as far as this thread has written it.
    written_committed: Option<LogIdRecord>,
    path: PathBuf,
    /// The mark of the log as it is synced now.
    mark: HighWaterMark,
    /// The mark on disk, as far as this thread has written it.
    written_mark: HighWaterMark,
    mark_checked_at: Instant,
    synced: watch::Sender<Option<LogIdRecord>>,
    fault: Fault,
    syncs: Steps,
    marks: Steps,
}

impl Thread {
    async fn run(mut self, mut queue: mpsc::Receiver<Write>) {
        loop {
            let written = match timeout(MARK_INTERVAL, queue.recv()).await {
                Ok(Some(first)) => self.write_all(first, &mut queue).await,
                Ok(None) => return,
                Err(_) => Ok(()),
            };
            let renewed = match written {
                Ok(()) => self.renew_mark().await,
                Err(error) => Err(error),
            };
            if let Err(error) = renewed {
                // The drop of queue and watch fails all pending and future calls.
                self.fault.report_storage(&error);
                return;
            }
        }
    }

    /// Writes all queued writes, then syncs once. Reports an error before it drops a callback:
    /// openraft's own report has less detail, and the first report is the one that is kept.
    async fn write_all(
        &mut self,
        first: Write,
        queue: &mut mpsc::Receiver<Write>,
    ) -> storage::Result<()> {
        let fault = self.fault.clone();
        let report = |error: &storage::Error| fault.report_storage(error);
        let syncs = self.syncs.clone();
        let step = syncs.start();
        let mut unsynced: Vec<(IOFlushed<TypeConfig>, MarkUpdate)> = Vec::new();
        let mut next = Some(first);
        while let Some(write) = next.take().or_else(|| queue.try_recv().ok()) {
            if let MarkUpdate::Lower(last) = write.mark {
                self.lower_mark(last, &mut unsynced).await.inspect_err(report)?;
            }
            self.machine.before(DiskStep::LogWrite).await.inspect_err(report)?;
            self.log.write(&write.write).inspect_err(report)?;
            // A cancelled caller has dropped the receiver.
            let _: Option<Result<(), ()>> = write.written.map(|written| written.send(()));
            unsynced.extend(write.durable.map(|callback| (callback, write.mark)));
        }
        if unsynced.is_empty() {
            step.discard();
            return Ok(());
        }
        let synced = self.sync().await;
        drop(step);
        self.complete(unsynced, synced).await
    }

    async fn sync(&self) -> storage::Result<()> {
        self.machine.before(DiskStep::LogSync).await?;
        self.log.sync()
    }

    /// Lowers the mark durably to `last`, ahead of a truncation.
    async fn lower_mark(
        &mut self,
        last: Option<LogIdRecord>,
        unsynced: &mut [(IOFlushed<TypeConfig>, MarkUpdate)],
    ) -> storage::Result<()> {
        // `synced` reports `last` below, so appends of this pass up to there must be durable.
        if !unsynced.is_empty() {
            self.sync().await?;
        }
        // The truncation removes appends of this pass: they must not raise the mark.
        for (_, update) in unsynced {
            if matches!(update, MarkUpdate::Last(_)) {
                *update = MarkUpdate::None;
            }
        }
        self.mark.last = last;
        self.write_mark().await?;
        self.synced.send_replace(last);
        Ok(())
    }

    /// After a sync: raises the mark in memory, and runs the callbacks.
    async fn complete(
        &mut self,
        unsynced: Vec<(IOFlushed<TypeConfig>, MarkUpdate)>,
        synced: storage::Result<()>,
    ) -> storage::Result<()> {
        if let Err(error) = synced {
            self.fault.report_storage(&error);
            for (callback, _) in unsynced {
                callback.io_completed(Err(std::io::Error::other(error.to_string())));
            }
            return Err(error);
        }
        let mut has_vote = false;
        for (callback, update) in unsynced {
            match update {
                MarkUpdate::Last(last) => self.mark.last = Some(last),
                MarkUpdate::Vote(vote) => (self.mark.vote, has_vote) = (Some(vote), true),
                MarkUpdate::None | MarkUpdate::Lower(_) => {}
            }
            callback.io_completed(Ok(()));
        }
        self.synced.send_replace(self.mark.last);
        // At once, since a node that votes twice in a term could make two leaders. After the vote,
        // which waits for one sync only.
        if has_vote { self.write_mark().await } else { Ok(()) }
    }

    /// Writes the mark and the commit index once per interval.
    async fn renew_mark(&mut self) -> storage::Result<()> {
        if self.mark_checked_at.elapsed() < MARK_INTERVAL {
            return Ok(());
        }
        self.mark_checked_at = Instant::now();
        self.write_mark().await?;
        self.write_committed().await
    }

    async fn write_committed(&mut self) -> storage::Result<()> {
        let committed = *self.committed.lock();
        if committed > self.mark.last || committed == self.written_committed {
            return Ok(());
        }
        self.written_committed = committed;
        let Some(committed) = committed else { return Ok(()) };
        self.machine.before(DiskStep::LogWrite).await?;
        self.log.write(&LogWrite::Set(LogField::Committed, codec::encode(&committed)))
    }

    async fn write_mark(&mut self) -> storage::Result<()> {
        if self.written_mark != self.mark {
            let marks = self.marks.clone();
            let _step = marks.start();
            self.machine.before(DiskStep::LogMark).await?;
            fail::fail_point!("log-mark");
            self.mark.write(&self.path)?;
            self.written_mark = self.mark;
        }
        Ok(())
    }
}
