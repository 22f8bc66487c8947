//! The one thread that writes to the log, and the only place that syncs it: one
//! sync for all appends that wait. What is written is the log store's business.
//!
//! It also keeps the note: the vote and the last synced entry, in a small file
//! of its own, renewed each second and lowered before a truncate. RocksDB drops
//! a damaged tail of its log without a status; the note is what notices.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use openraft::storage::IOFlushed;
use storage::{Log, LogWrite, codec};
use tokio::sync::{oneshot, watch};

use crate::fault::Fault;
use crate::log::record::{HighWaterMark, LogIdRecord, VoteRecord};
use crate::types::TypeConfig;

/// Writes that may wait; raft itself awaits each, so few ever do.
const QUEUE_MAX: usize = 1_024;
/// How often the note follows the log.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Something to write, and whom to tell.
pub(crate) struct Write {
    pub(crate) what: LogWrite,
    /// WithNotifications when the write is readable.
    pub(crate) written: oneshot::Sender<()>,
    /// WithNotifications when it is durable; without it the write waits for the next sync.
    pub(crate) durable: Option<IOFlushed<TypeConfig>>,
    /// What the note says once the write is durable.
    pub(crate) note: MarkUpdate,
}

/// What a write does to the note.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MarkUpdate {
    None,
    Last(LogIdRecord),
    Vote(VoteRecord),
    /// The log is about to end here: the note must not say more, and first.
    Lower(Option<LogIdRecord>),
}

/// The sending side; cloned freely.
#[derive(Clone)]
pub(crate) struct LogWriter {
    queue: SyncSender<Write>,
    synced: watch::Receiver<Option<LogIdRecord>>,
}

impl LogWriter {
    /// Starts the thread. `note` is what the log was found to hold.
    pub(crate) fn start(log: Arc<Log>, path: PathBuf, note: HighWaterMark, fault: Fault) -> Self {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let (synced_sender, synced) = watch::channel(note.last);
        let (noted, noted_at) = (HighWaterMark::default(), Instant::now());
        let thread = Thread { log, path, note, noted, noted_at, synced: synced_sender, fault };
        std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || thread.run(&waiting))
            .expect("the system refuses a thread at start-up: nothing can run then");
        Self { queue, synced }
    }

    /// Hands a write over. An error means that the thread has stopped on a fault.
    pub(crate) fn send(&self, write: Write) -> std::io::Result<()> {
        self.queue.send(write).map_err(|_| stopped())
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
    log: Arc<Log>,
    path: PathBuf,
    /// What the note should say.
    note: HighWaterMark,
    /// What it says on disk.
    noted: HighWaterMark,
    noted_at: Instant,
    synced: watch::Sender<Option<LogIdRecord>>,
    fault: Fault,
}

impl Thread {
    fn run(mut self, waiting: &Receiver<Write>) {
        loop {
            let first = match waiting.recv_timeout(NOTE_INTERVAL) {
                Ok(write) => Some(write),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let written = first.map_or(Ok(()), |first| self.write_all(first, waiting));
            if let Err(error) = written.and_then(|()| self.follow()) {
                // Dropping the queue and the watch fails everything that waits or comes.
                self.fault.storage(&error);
                return;
            }
        }
    }

    /// Writes everything that waits, then syncs once for all of it.
    fn write_all(&mut self, first: Write, waiting: &Receiver<Write>) -> storage::Result<()> {
        let mut durable: Vec<(IOFlushed<TypeConfig>, MarkUpdate)> = Vec::new();
        for write in std::iter::once(first).chain(waiting.try_iter()) {
            if let MarkUpdate::Lower(last) = write.note {
                // What stays of this pass's appends counts as synced from here on.
                if !durable.is_empty() {
                    self.log.sync()?;
                }
                // What this pass appended before is about to go again.
                for (_, note) in &mut durable {
                    *note = match *note {
                        MarkUpdate::Last(_) => MarkUpdate::None,
                        kept => kept,
                    };
                }
                self.note.last = last;
                self.keep_note()?;
                self.synced.send_replace(last);
            }
            self.log.write(&write.what)?;
            // A caller that went away needs no answer.
            let _: Result<(), ()> = write.written.send(());
            durable.extend(write.durable.map(|callback| (callback, write.note)));
        }
        if durable.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.log.sync() {
            // First: raft, told next, knows less of the cause.
            self.fault.storage(&error);
            for (callback, _) in durable {
                callback.io_completed(Err(std::io::Error::other(error.to_string())));
            }
            return Err(error);
        }
        for (callback, note) in durable {
            match note {
                MarkUpdate::Last(last) => self.note.last = Some(last),
                MarkUpdate::Vote(vote) => self.note.vote = Some(vote),
                MarkUpdate::None | MarkUpdate::Lower(_) => {}
            }
            callback.io_completed(Ok(()));
        }
        self.synced.send_replace(self.note.last);
        Ok(())
    }

    /// Renews the note when its time has come, however busy the log is.
    fn follow(&mut self) -> storage::Result<()> {
        if self.noted_at.elapsed() < NOTE_INTERVAL {
            return Ok(());
        }
        self.noted_at = Instant::now();
        self.keep_note()
    }

    fn keep_note(&mut self) -> storage::Result<()> {
        if self.noted != self.note {
            storage::file::replace(&self.path, &codec::encode(&self.note))?;
            self.noted = self.note;
        }
        Ok(())
    }
}
