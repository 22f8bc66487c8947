//! openraft's log over `storage::Log`: translates entries and votes, and hands
//! every write to the log writer. Syncs nothing itself.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use futures::Stream;
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use storage::codec::{self, Record};
use storage::{Log, LogField, LogWrite};
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::log::record::{EntryRecord, HighWaterMark, LogIdRecord, VoteRecord};
use crate::log::writer::{LogWriter, MarkUpdate, Write, stopped};
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Entries are read, sent and applied in pieces of this size, in bytes.
const READ_BYTES: usize = 1 << 20;
/// Most entries of such a piece.
const READ_ENTRIES: usize = 1_024;
/// Name of the note beside the log.
const NOTE: &str = "log.note";

/// The log, as openraft sees it.
#[derive(Clone)]
pub(crate) struct LogStore {
    log: Arc<Log>,
    writer: LogWriter,
    fault: Fault,
}

/// A log that holds less than it is known to have held.
#[derive(Debug, thiserror::Error)]
#[error(
    "the log ends at {found}, but this node had synced {noted}: its disk lost acknowledged data. \
     The node stays up but does not vote. Keep a copy of its data folder. If other nodes hold the \
     data, remove this one from the cluster and add it again, empty, with a new id; never put an \
     old copy of one node back beside them. A cluster of one can restore its folder from a backup"
)]
pub struct BelowHighWaterMark {
    found: String,
    noted: String,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    BelowHighWaterMark(#[from] BelowHighWaterMark),
    #[error(transparent)]
    Storage(#[from] storage::Error),
}

impl LogStore {
    /// Takes the log into use, if it holds all that the note in folder `data` says.
    pub(crate) fn open(log: Arc<Log>, data: &Path, fault: Fault) -> Result<Self, OpenError> {
        let path = data.join(NOTE);
        let found = HighWaterMark { vote: named(&log, LogField::Vote)?, last: last(&log)? };
        match std::fs::read(&path) {
            Ok(bytes) => compare(&found, &codec::decode(&bytes)?)?,
            // WriteOutcome before the first entry: without it there must be nothing yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if found != HighWaterMark::default() {
                    let detail = format!("is missing beside a log that ends at {found}");
                    return Err(storage::Error::Corrupt { what: NOTE, detail }.into());
                }
                storage::file::replace(&path, &codec::encode(&found))?;
            }
            Err(source) => {
                return Err(storage::Error::File { action: "read", path, source }.into());
            }
        }
        // What was read from disk is as durable as it will get once synced again.
        log.sync()?;
        let writer = LogWriter::start(Arc::clone(&log), path, found, fault.clone());
        Ok(Self { log, writer, fault })
    }

    /// The side that waits for syncs.
    pub(crate) fn writer(&self) -> LogWriter {
        self.writer.clone()
    }

    async fn write(&self, what: LogWrite, note: MarkUpdate) -> io::Result<()> {
        self.send(what, None, note).await
    }

    async fn write_durably(&self, what: LogWrite, note: MarkUpdate) -> io::Result<()> {
        let (sender, durable) = TypeConfig::oneshot();
        self.send(what, Some(IOFlushed::signal(sender)), note).await?;
        durable.await.map_err(|_| stopped())?
    }

    async fn send(
        &self,
        what: LogWrite,
        durable: Option<IOFlushed<TypeConfig>>,
        note: MarkUpdate,
    ) -> io::Result<()> {
        let (written, readable) = oneshot::channel();
        self.writer.send(Write { what, written, durable, note })?;
        readable.await.map_err(|_| stopped())
    }
}

fn compare(found: &HighWaterMark, noted: &HighWaterMark) -> Result<(), BelowHighWaterMark> {
    let votes_back = match (&found.vote, &noted.vote) {
        (Some(found), Some(noted)) => found.is_older_than(noted),
        (None, Some(_)) => true,
        (_, None) => false,
    };
    if votes_back || found.last < noted.last {
        return Err(BelowHighWaterMark { found: found.to_string(), noted: noted.to_string() });
    }
    Ok(())
}

fn named<R: Record>(log: &Log, name: LogField) -> storage::Result<Option<R>> {
    log.get(name)?.map(|bytes| codec::decode(&bytes)).transpose()
}

fn last(log: &Log) -> storage::Result<Option<LogIdRecord>> {
    let last = log.last()?.map(|(_, bytes)| codec::decode::<EntryRecord>(&bytes)).transpose()?;
    let purged = named::<LogIdRecord>(log, LogField::Purged)?;
    Ok(last.map(|entry| entry.id).or(purged))
}

fn read(log: &Log, first: u64, end: u64, bytes_max: usize) -> storage::Result<Vec<Entry>> {
    let count = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX);
    let rows = log.read(first, count, bytes_max)?;
    let mut entries = Vec::with_capacity(rows.len());
    let mut before = None;
    for (index, bytes) in rows.into_iter().take_while(|(index, _)| *index < end) {
        if before.is_some_and(|before| index != before + 1) {
            let detail = format!("entry {index} follows entry {before:?}");
            return Err(storage::Error::Corrupt { what: "log", detail });
        }
        before = Some(index);
        entries.push(codec::decode::<EntryRecord>(&bytes)?.into_entry()?);
    }
    Ok(entries)
}

/// Some entries from `first` on; that one must be there if any is.
fn read_from(log: &Log, first: u64, end: u64) -> storage::Result<Vec<Entry>> {
    let entries = read(log, first, end, READ_BYTES)?;
    match entries.first().map(|entry| entry.log_id.index()) {
        Some(found) if found != first => {
            let detail = format!("has no entry {first}, but {found}");
            Err(storage::Error::Corrupt { what: "log", detail })
        }
        _ => Ok(entries),
    }
}

/// For `map_err`: a log that cannot be read ends the node.
fn unread(fault: &Fault) -> impl Fn(storage::Error) -> io::Error {
    |error| {
        fault.storage(&error);
        io::Error::other(error.to_string())
    }
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<Entry>> {
        let (first, end) = bounds(&range);
        read(&self.log, first, end, usize::MAX).map_err(unread(&self.fault))
    }

    async fn limited_get_log_entries(&mut self, first: u64, end: u64) -> io::Result<Vec<Entry>> {
        read_from(&self.log, first, end).map_err(unread(&self.fault))
    }

    async fn entries_stream<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend {
        let (first, end) = bounds(&range);
        let (log, fault) = (Arc::clone(&self.log), self.fault.clone());
        let pieces = futures::stream::try_unfold(first, move |next| {
            let piece = if next < end {
                let limit = end.min(next.saturating_add(READ_ENTRIES as u64));
                read_from(&log, next, limit).map_err(unread(&fault))
            } else {
                Ok(Vec::new())
            };
            async move {
                let piece = piece?;
                let count = piece.len() as u64;
                Ok::<_, io::Error>((count > 0).then_some((piece, next + count)))
            }
        });
        use futures::{StreamExt, TryStreamExt};
        pieces
            .map_ok(|piece| futures::stream::iter(piece.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let vote = named::<VoteRecord>(&self.log, LogField::Vote).map_err(unread(&self.fault))?;
        Ok(vote.map(Vote::from))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let purged =
            named::<LogIdRecord>(&self.log, LogField::Purged).map_err(unread(&self.fault))?;
        let last = last(&self.log).map_err(unread(&self.fault))?;
        Ok(LogState {
            last_purged_log_id: purged.map(LogId::from),
            last_log_id: last.map(LogId::from),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let record = VoteRecord::from(vote);
        let write = LogWrite::Set(LogField::Vote, codec::encode(&record));
        self.write_durably(write, MarkUpdate::Vote(record)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let Some(committed) = committed else { return Ok(()) };
        // Not synced by itself: it goes to disk after the entries it speaks of,
        // and a lost one only means that the tail is committed anew.
        let bytes = codec::encode(&LogIdRecord::from(committed));
        self.write(LogWrite::Set(LogField::Committed, bytes), MarkUpdate::None).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let committed = named::<LogIdRecord>(&self.log, LogField::Committed);
        Ok(committed.map_err(unread(&self.fault))?.map(LogId::from))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut note = MarkUpdate::None;
        let rows = entries.into_iter().map(EntryRecord::from).map(|record| {
            note = MarkUpdate::Last(record.id);
            (record.id.index, codec::encode(&record))
        });
        let rows: Vec<_> = rows.collect();
        self.send(LogWrite::Append(rows), Some(callback), note).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first = last.map_or(0, |last| last.index() + 1);
        let note = MarkUpdate::Lower(last.map(LogIdRecord::from));
        self.write(LogWrite::TruncateFrom(first), note).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let record = LogIdRecord::from(upto);
        let write = LogWrite::Purge(record.index, codec::encode(&record));
        self.write(write, MarkUpdate::None).await
    }
}
