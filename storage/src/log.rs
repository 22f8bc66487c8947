//! `log/`: the RocksDB instance below the Raft log. It holds entries by index and a few named
//! values, all opaque bytes here. The raft crate defines their formats and when to sync.
//!
//! | key | value |
//! |---|---|
//! | `0x01`, group (4 bytes), index (8 bytes) | an entry |
//! | `0x02`, group (4 bytes), field (1 byte) | a named value |
//!
//! Integers are big-endian, so entries of one group are adjacent and ascend by index. Every
//! range stays within one group.

use std::path::Path;
use std::sync::Arc;

use model::cluster::{GROUP, GroupId};
use rocksdb::statistics::Ticker;
use rocksdb::{DB, DBRecoveryMode, Direction, IteratorMode, ReadOptions, WriteBatch};

use crate::error::{Error, Result};
use crate::table::key::fixed;
use crate::table::state;
use crate::table::state::Environment;
use crate::table::view::Row;

const ENTRY: u8 = 0x01;
const NAMED: u8 = 0x02;
const WRITE_BUFFER_BYTES: usize = 64 << 20;

/// A named value of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LogField {
    /// The vote.
    Vote = 0x01,
    /// Id of the last committed entry, as far as it was recorded.
    Committed = 0x02,
    /// Id of the last purged entry.
    Purged = 0x03,
}

/// One write to the log. It is durable after [`Log::sync`].
#[derive(Debug)]
pub enum LogWrite {
    /// Entries with consecutive indexes.
    Append(Vec<(u64, Vec<u8>)>),
    /// Removes this entry and all above it.
    TruncateFrom(u64),
    /// Removes this entry and all below it, and sets [`LogField::Purged`] to these bytes.
    Purge(u64, Vec<u8>),
    /// Sets a named value.
    Set(LogField, Vec<u8>),
}

/// The open log.
pub struct Log {
    db: DB,
    options: rocksdb::Options,
}

impl Log {
    /// Opens the log at `path`, or creates an empty one. RocksDB drops a damaged tail silently. The
    /// caller detects that: it compares [`Self::last`] with its durable high-water mark.
    pub(crate) fn open(path: &Path, environment: Environment) -> Result<Self> {
        let options = options(environment);
        let db = DB::open(&options, path).map_err(Error::engine("open log"))?;
        Ok(Self { db, options })
    }

    /// Opens an existing log to read it. Changes no file: an ordinary open would remove the files
    /// that a damaged MANIFEST no longer lists. `None` without a log.
    pub(crate) fn open_to_read(path: &Path) -> Result<Option<Self>> {
        if !path.join("CURRENT").exists() {
            return Ok(None);
        }
        let options = options(Environment::Machine);
        let db = DB::open_for_read_only(&options, path, false);
        Ok(Some(Self { db: db.map_err(Error::engine("open log"))?, options }))
    }

    /// Writes to the operating system. The write is readable at once, durable after [`Self::sync`].
    ///
    /// # Errors
    /// When the engine fails. The log must not be used after that.
    pub fn write(&self, write: &LogWrite) -> Result<()> {
        fail::fail_point!("log-append", |_| {
            let full = std::io::ErrorKind::StorageFull.into();
            Err(Error::File { action: "write", path: self.db.path().to_owned(), source: full })
        });
        let mut batch = WriteBatch::default();
        match write {
            LogWrite::Append(entries) => {
                let put = |(index, bytes): &_| batch.put(entry_key(GROUP, *index), bytes);
                entries.iter().for_each(put);
            }
            LogWrite::TruncateFrom(first) => {
                batch.delete_range(&entry_key(GROUP, *first)[..], &entries_end(GROUP)[..]);
            }
            LogWrite::Purge(last, purged) => {
                batch.put(field_key(GROUP, LogField::Purged), purged);
                let end = entry_key(GROUP, last.saturating_add(1));
                batch.delete_range(entry_key(GROUP, 0), end);
            }
            LogWrite::Set(field, bytes) => batch.put(field_key(GROUP, *field), bytes),
        }
        self.db.write(batch).map_err(Error::engine("write log"))
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// When the engine fails. A failed sync must not be repeated: the data that it did not write
    /// may be lost although the next sync succeeds.
    pub fn sync(&self) -> Result<()> {
        fail::fail_point!("log-sync", |_| Err(Error::Misuse("failpoint log-sync".into())));
        self.db.flush_wal(true).map_err(Error::engine("sync log"))
    }

    /// Stops the engine's background threads. At the end of the process they must not access
    /// memory that is already freed. No write may follow.
    pub fn close(self: &Arc<Self>) {
        self.db.cancel_all_background_work(true);
        // Leaks the instance: RocksDB must not be closed while the process exits.
        std::mem::forget(Arc::clone(self));
    }

    /// Number of syncs of the write-ahead log since start.
    pub fn syncs(&self) -> u64 {
        self.options.get_ticker_count(Ticker::WalFileSynced)
    }

    /// A named value.
    ///
    /// # Errors
    /// When the engine fails; the same holds for all methods below.
    pub fn get(&self, field: LogField) -> Result<Option<Vec<u8>>> {
        self.db.get(field_key(GROUP, field)).map_err(Error::engine("read log"))
    }

    /// Entries from `first` on in ascending order: at most `count` entries and `bytes_max` bytes,
    /// but at least one entry if there is one. `first` must be above the last purged entry.
    pub fn read(&self, first: u64, count: usize, bytes_max: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(entries_end(GROUP));
        let start = entry_key(GROUP, first);
        let rows = self.db.iterator_opt(IteratorMode::From(&start, Direction::Forward), options);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for row in rows.take(count) {
            let (index, entry) = entry(row)?;
            bytes += entry.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push((index, entry));
        }
        Ok(entries)
    }

    /// Reads all entries above the last `purged` one, with their checksums.
    ///
    /// # Errors
    /// If one is missing. RocksDB opens a log whose list of files was cut.
    pub(crate) fn check_complete(&self, purged: u64) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(entries_end(GROUP));
        options.fill_cache(false);
        let start = entry_key(GROUP, purged);
        let rows = self.db.iterator_opt(IteratorMode::From(&start, Direction::Forward), options);
        // 0 stands for no purged entry too, and then the first one is 0.
        let mut last = purged;
        for row in rows {
            let (index, _) = entry(row)?;
            if index > last.saturating_add(1) {
                let detail = format!("entry {} is missing", last + 1);
                return Err(Error::Corrupt { what: "log", detail });
            }
            last = index;
        }
        Ok(())
    }

    /// The last entry with its index.
    pub fn last(&self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(entry_key(GROUP, 0));
        let end = entry_key(GROUP, u64::MAX);
        let mut rows = self.db.iterator_opt(IteratorMode::From(&end, Direction::Reverse), options);
        rows.next().map(entry).transpose()
    }

    /// Approximate size of the log on disk and in memory, in bytes.
    pub fn size_bytes(&self) -> u64 {
        let property = |name| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        property("rocksdb.total-sst-files-size") + property("rocksdb.cur-size-all-mem-tables")
    }

    /// Bytes that RocksDB holds in RAM for the log: cached blocks, and entries not yet in a file.
    pub fn cache_bytes(&self) -> u64 {
        state::cache_bytes(&self.db)
    }
}

fn options(environment: Environment) -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_paranoid_checks(true);
    // Entries are removed soon: they are not worth the processor time of compression.
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_keep_log_file_num(4);
    options.set_bytes_per_sync(state::BYTES_PER_SYNC);
    options.enable_statistics();
    options.set_disable_auto_compactions(environment == Environment::Simulation);
    options
}

fn entry_key(group: GroupId, index: u64) -> [u8; 13] {
    let mut key = [ENTRY; 13];
    key[1..5].copy_from_slice(&group.0.to_be_bytes());
    key[5..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The smallest key above all entries of a group.
fn entries_end(group: GroupId) -> Vec<u8> {
    [&entry_key(group, u64::MAX)[..], &[0]].concat()
}

fn field_key(group: GroupId, field: LogField) -> [u8; 6] {
    let [a, b, c, d] = group.0.to_be_bytes();
    [NAMED, a, b, c, d, field as u8]
}

fn entry(row: std::result::Result<Row, rocksdb::Error>) -> Result<(u64, Vec<u8>)> {
    let (key, value) = row.map_err(Error::engine("read log"))?;
    let [ENTRY, _, _, _, _, index @ ..] = &key[..] else {
        return Err(Error::Corrupt { what: "log key", detail: format!("{key:02x?}") });
    };
    Ok((u64::from_be_bytes(fixed(index)?), value.into_vec()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn keys(log: &Log) -> Vec<Vec<u8>> {
        log.db.iterator(IteratorMode::Start).map(|row| row.unwrap().0.into_vec()).collect()
    }

    #[test]
    fn key_bytes_are_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(folder.path(), Environment::Machine).unwrap();
        log.write(&LogWrite::Append(vec![(300, b"entry".to_vec())])).unwrap();
        for field in [LogField::Vote, LogField::Committed] {
            log.write(&LogWrite::Set(field, b"named".to_vec())).unwrap();
        }
        log.write(&LogWrite::Purge(1, b"purged".to_vec())).unwrap();
        let expected: [&[u8]; 4] = [
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 44],
            &[2, 0, 0, 0, 0, 1],
            &[2, 0, 0, 0, 0, 2],
            &[2, 0, 0, 0, 0, 3],
        ];
        assert_eq!(keys(&log), expected);
        assert_eq!(field_key(GroupId(0x0102_0304), LogField::Vote), [2, 1, 2, 3, 4, 1]);
    }

    /// RocksDB as published reads a header of the types 5 to 8, 11 and 131 again without end.
    #[test]
    fn torn_tail_of_any_type_is_dropped() {
        let (sender, dropped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            let kinds = (0..16_u8).chain(126..=136).chain([255]);
            for (index, kind) in (1..).zip(kinds) {
                let log = Log::open(folder.path(), Environment::Machine).unwrap();
                assert_eq!(log.last().unwrap().map_or(0, |(last, _)| last), index - 1);
                log.write(&LogWrite::Append(vec![(index, vec![kind; 30])])).unwrap();
                drop(log);
                let paths = folder.path().read_dir().unwrap().map(|file| file.unwrap().path());
                let path =
                    paths.filter(|path| path.extension().is_some_and(|it| it == "log")).max();
                let mut file =
                    std::fs::OpenOptions::new().append(true).open(path.unwrap()).unwrap();
                // A checksum, the length, the type, and the number of a log.
                file.write_all(&[1, 2, 3, 4, 9, 0, kind, 5, 0, 0, 0, 6, 7, 8, 9, 1, 2, 3, 4])
                    .unwrap();
            }
            sender.send(()).unwrap();
        });
        dropped.recv_timeout(Duration::from_secs(100)).unwrap();
    }

    #[test]
    fn ranges_stay_within_their_group() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(folder.path(), Environment::Machine).unwrap();
        let other = entry_key(GroupId(1), 0);
        log.db.put(other, b"of another group").unwrap();
        assert_eq!(log.last().unwrap(), None);
        let entries = vec![(7, b"a".to_vec()), (u64::MAX, b"b".to_vec())];
        log.write(&LogWrite::Append(entries.clone())).unwrap();
        assert_eq!(log.last().unwrap().unwrap().0, u64::MAX);
        assert_eq!(log.read(0, 9, usize::MAX).unwrap(), entries);
        log.check_complete(u64::MAX - 1).unwrap();
        for purged in [5, 6, 7] {
            let error = log.check_complete(purged).unwrap_err().to_string();
            assert!(error.contains(if purged == 5 { "entry 6 " } else { "entry 8 " }), "{error}");
        }
        log.write(&LogWrite::TruncateFrom(7)).unwrap();
        assert_eq!(keys(&log), [other.to_vec()]);
    }
}
