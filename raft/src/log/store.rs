//! openraft's log storage over `storage::Log`. Converts entries and votes to records, and sends
//! every write to the log writer, which alone syncs. Entries are readable at once, from memory, so
//! raft does not wait for the disk between two messages.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use futures::Stream;
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use parking_lot::Mutex;
use storage::codec::{self, Record};
use storage::{Log, LogField, LogWrite};
use tokio::sync::oneshot;

use crate::error::StartError;
use crate::fault::Fault;
use crate::log::recent::Recent;
use crate::log::record::{EntryRecord, HighWaterMark, LogIdRecord, VoteRecord};
use crate::log::writer::{LogWriter, MarkUpdate, Write, stopped};
use crate::machine::{Machine, run_blocking};
use crate::timings::Timings;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Maximum bytes per chunk of entries that are read, sent or applied together.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Maximum entries per chunk.
const CHUNK_ENTRIES_MAX: usize = 1_024;
/// File name of the high-water mark in the data folder.
pub(crate) const MARK_FILE: &str = "log.mark";

#[derive(Clone)]
pub(crate) struct LogStore {
    log: Arc<Log>,
    recent: Arc<Mutex<Recent>>,
    pub(crate) writer: LogWriter,
    fault: Fault,
    machine: Arc<dyn Machine>,
}

impl LogStore {
    /// Opens the log of the data folder `data`, after a check against its high-water mark.
    pub(crate) fn open(
        log: Arc<Log>,
        data: &Path,
        fault: Fault,
        timings: &Timings,
        machine: Arc<dyn Machine>,
    ) -> Result<Self, StartError> {
        let path = data.join(MARK_FILE);
        let found = HighWaterMark { vote: field(&log, LogField::Vote)?, last: last(&log)? };
        match HighWaterMark::read(&path)? {
            Some(mark) => compare(&found, &mark)?,
            // The mark is written before the first entry, so only an empty log may lack it.
            None if found != HighWaterMark::default() => {
                let detail = format!("is missing beside a log that ends at {found}");
                return Err(storage::Error::Corrupt { what: MARK_FILE, detail }.into());
            }
            None => found.write(&path)?,
        }
        // The last process may have written without a sync. Make that durable before the
        // writer starts with `found` as its mark.
        log.sync()?;
        let steps = [timings.log_sync.clone(), timings.log_mark.clone()];
        let (of_writer, stops) = (Arc::clone(&log), fault.clone());
        let writer = LogWriter::start(of_writer, path, found, stops, steps, Arc::clone(&machine))?;
        Ok(Self { log, recent: Arc::default(), writer, fault, machine })
    }

    fn field<R: Record>(&self, name: LogField) -> io::Result<Option<R>> {
        field(&self.log, name).map_err(self.fault.fail())
    }

    /// One chunk of entries from `first` on. A chunk that is not empty begins with `first`.
    async fn read_chunk(&self, first: u64, end: u64) -> io::Result<Vec<Entry>> {
        // A stream of entries ends with an empty read, for each applied round.
        if first >= end {
            return Ok(Vec::new());
        }
        let recent = self.recent.lock().read(first, end, CHUNK_BYTES_MAX);
        match recent {
            Some(entries) => Ok(entries),
            None => self.on_disk(move |log| read_from(log, first, end)).await,
        }
    }

    /// All entries from `first` to before `end`.
    async fn read_all(&self, first: u64, end: u64) -> io::Result<Vec<Entry>> {
        let recent = self.recent.lock().read(first, end, usize::MAX);
        if let Some(entries) = recent {
            return Ok(entries);
        }
        let read_all = move |log: &Log| read(log, first, end, usize::MAX);
        let mut entries = self.on_disk(read_all).await?;
        // The last ones may not be written yet.
        let next = entries.last().map_or(first, |last| last.log_id.index() + 1);
        let tail = self.recent.lock().tail(next, end);
        // Entries that were written and left the memory in between: they are in the log now.
        if tail.first().is_some_and(|first| first.log_id.index() > next) && !entries.is_empty() {
            return self.on_disk(read_all).await;
        }
        entries.extend(tail);
        Ok(entries)
    }

    /// Reads the disk on another thread. Raft's own ones send heartbeats, and must not wait for it.
    async fn on_disk<F>(&self, read: F) -> io::Result<Vec<Entry>>
    where
        F: FnOnce(&Log) -> storage::Result<Vec<Entry>> + Send + 'static,
    {
        let log = Arc::clone(&self.log);
        run_blocking(&*self.machine, move || read(&log)).await?.map_err(self.fault.fail())
    }

    /// The last purged entry. Its removal may be under way.
    fn purged(&self) -> io::Result<Option<LogId>> {
        let purged = self.recent.lock().purged();
        match purged {
            Some(purged) => Ok(Some(purged)),
            None => Ok(self.field::<LogIdRecord>(LogField::Purged)?.map(LogId::from)),
        }
    }
}

/// Index of the last entry that was removed from the log, or 0. For [`storage::open`].
///
/// # Errors
/// If the log cannot be read.
pub fn purged_index(log: &Log) -> storage::Result<u64> {
    Ok(field::<LogIdRecord>(log, LogField::Purged)?.map_or(0, |purged| purged.index))
}

fn compare(found: &HighWaterMark, mark: &HighWaterMark) -> Result<(), StartError> {
    // Votes of a node ascend by term, then from not committed to committed.
    let vote = |mark: &HighWaterMark| mark.vote.map(|vote| (vote.term, vote.committed));
    if vote(found) < vote(mark) || found.last < mark.last {
        return Err(StartError::BelowHighWaterMark(found.to_string(), mark.to_string()));
    }
    Ok(())
}

/// A named value of the log.
pub(crate) fn field<R: Record>(log: &Log, name: LogField) -> storage::Result<Option<R>> {
    log.get(name)?.map(|bytes| codec::decode(&bytes)).transpose()
}

/// Id of the last entry.
pub(crate) fn last(log: &Log) -> storage::Result<Option<LogIdRecord>> {
    let last = log.last()?.map(|(_, bytes)| codec::decode::<EntryRecord>(&bytes)).transpose()?;
    let purged = field::<LogIdRecord>(log, LogField::Purged)?;
    Ok(last.map(|entry| entry.id).or(purged))
}

fn read(log: &Log, first: u64, end: u64, bytes_max: usize) -> storage::Result<Vec<Entry>> {
    let count = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX);
    let rows = log.read(first, count, bytes_max)?;
    let mut entries = Vec::with_capacity(rows.len());
    let mut previous = None;
    for (index, bytes) in rows.into_iter().take_while(|(index, _)| *index < end) {
        if let Some(previous) = previous.replace(index)
            && index != previous + 1
        {
            let detail = format!("entry {index} follows entry {previous}");
            return Err(storage::Error::Corrupt { what: "log", detail });
        }
        entries.push(codec::decode::<EntryRecord>(&bytes)?.into_entry()?);
    }
    Ok(entries)
}

/// One chunk of entries from `first` on. A chunk that is not empty must begin with `first`.
pub(crate) fn read_from(log: &Log, first: u64, end: u64) -> storage::Result<Vec<Entry>> {
    let entries = read(log, first, end, CHUNK_BYTES_MAX)?;
    match entries.first().map(|entry| entry.log_id.index()) {
        Some(found) if found != first => {
            let detail = format!("entry {first} is missing before entry {found}");
            Err(storage::Error::Corrupt { what: "log", detail })
        }
        _ => Ok(entries),
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
        self.read_all(first, end).await
    }

    async fn limited_get_log_entries(&mut self, first: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.read_chunk(first, end).await
    }

    async fn entries_stream<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend {
        let (first, end) = bounds(&range);
        let chunks = futures::stream::try_unfold(
            (self.clone(), first),
            move |(store, next): (Self, u64)| async move {
                let limit = end.min(next.saturating_add(CHUNK_ENTRIES_MAX as u64));
                let chunk = store.read_chunk(next, limit).await?;
                let count = chunk.len() as u64;
                Ok::<_, io::Error>((count > 0).then_some((chunk, (store, next + count))))
            },
        );
        use futures::{StreamExt, TryStreamExt};
        chunks
            .map_ok(|chunk| futures::stream::iter(chunk.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.field::<VoteRecord>(LogField::Vote)?.map(Vote::from))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let last_purged_log_id = self.purged()?;
        let written = last(&self.log).map_err(self.fault.fail())?.map(LogId::from);
        let last_log_id = self.recent.lock().last().or(written).max(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let record = VoteRecord::from(vote);
        let write = LogWrite::Set(LogField::Vote, codec::encode(&record));
        let (sender, durable) = TypeConfig::oneshot();
        let (written, callback) = (None, Some(IOFlushed::signal(sender)));
        let mark = MarkUpdate::Vote(record);
        self.writer.send(Write { write, written, durable: callback, mark }).await?;
        durable.await.map_err(|_| stopped())?
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        // If it is lost, the next leader commits its entries again.
        self.writer.commit(committed.map(LogIdRecord::from));
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let written = self.field::<LogIdRecord>(LogField::Committed)?;
        Ok(self.writer.committed().or(written).map(LogId::from))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut mark = MarkUpdate::None;
        let entries: Vec<Entry> = entries.into_iter().collect();
        let rows = entries.iter().cloned().map(EntryRecord::from).map(|record| {
            mark = MarkUpdate::Last(record.id);
            (record.id.index, codec::encode(&record))
        });
        let write = LogWrite::Append(rows.collect());
        self.recent.lock().append(entries, self.writer.synced());
        self.writer.send(Write { write, written: None, durable: Some(callback), mark }).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let first = last.map_or(0, |last| last.index() + 1);
        let mark = MarkUpdate::Lower(last.map(LogIdRecord::from));
        self.recent.lock().truncate_from(first);
        let (written, truncated) = oneshot::channel();
        let (write, written) = (LogWrite::TruncateFrom(first), Some(written));
        self.writer.send(Write { write, written, durable: None, mark }).await?;
        // Until then, the log reports truncated entries as synced.
        truncated.await.map_err(|_| stopped())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let record = LogIdRecord::from(upto);
        self.recent.lock().purge(upto);
        let write = LogWrite::Purge(record.index, codec::encode(&record));
        let mark = MarkUpdate::None;
        self.writer.send(Write { write, written: None, durable: None, mark }).await
    }
}
