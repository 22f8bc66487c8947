//! `log/`: the RocksDB instance under the Raft log. Rows of opaque bytes by
//! index, a few named values, and one sync for everything written before it.
//! When to sync, and what the bytes mean, is the raft crate's business.
//!
//! Keys: `0x01` + index (8 bytes, big-endian) is an entry; `0x02` + name byte is
//! a named value. Values are stored as handed in.

use std::path::Path;
use std::sync::Arc;

use rocksdb::statistics::Ticker;
use rocksdb::{DB, DBRecoveryMode, Direction, Env, IteratorMode, ReadOptions, WriteBatch};

use crate::error::{Error, Result};

const ENTRY: u8 = 0x01;
const NAMED: u8 = 0x02;
const WRITE_BUFFER_BYTES: usize = 64 << 20;

/// A named value of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LogField {
    /// The vote.
    Vote = 0x01,
    /// The last entry known to be committed.
    Committed = 0x02,
    /// The last entry that was purged.
    Purged = 0x03,
}

/// One write to the log; none is durable before [`Log::sync`].
#[derive(Debug)]
pub enum LogWrite {
    /// Entries with consecutive indexes.
    Append(Vec<(u64, Vec<u8>)>),
    /// Drops this entry and all above it.
    TruncateFrom(u64),
    /// Drops this entry and all below it, and keeps a name for where it ended.
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
    /// Opens the log at `path`, making an empty one if there is none. A torn
    /// tail is dropped silently by RocksDB: compare [`Self::last`] with what is
    /// known to have been there.
    pub(crate) fn open(path: &Path, env: Option<&Env>) -> Result<Self> {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(WRITE_BUFFER_BYTES);
        options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        options.set_track_and_verify_wals_in_manifest(true);
        options.set_paranoid_checks(true);
        options.set_compression_type(rocksdb::DBCompressionType::Lz4);
        options.set_keep_log_file_num(4);
        options.enable_statistics();
        if let Some(env) = env {
            options.set_env(env);
        }
        let db = DB::open(&options, path).map_err(Error::engine("open log"))?;
        Ok(Self { db, options })
    }

    /// Writes to the operating system; readable at once, durable after [`Self::sync`].
    ///
    /// # Errors
    /// When the engine fails. The log must not be used any more then.
    pub fn write(&self, write: &LogWrite) -> Result<()> {
        let mut batch = WriteBatch::default();
        match write {
            LogWrite::Append(entries) => {
                entries.iter().for_each(|(index, bytes)| batch.put(entry_key(*index), bytes));
            }
            LogWrite::TruncateFrom(first) => {
                batch.delete_range(entry_key(*first).as_slice(), &[ENTRY + 1]);
            }
            LogWrite::Purge(last, name) => {
                batch.put([NAMED, LogField::Purged as u8], name);
                let end = entry_key(last.saturating_add(1));
                batch.delete_range(entry_key(0), end);
            }
            LogWrite::Set(name, bytes) => batch.put([NAMED, *name as u8], bytes),
        }
        self.db.write(batch).map_err(Error::engine("write log"))
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// When the engine fails. Never repeat a failed sync: what it did not write
    /// may be gone although the next one succeeds.
    pub fn sync(&self) -> Result<()> {
        fail::fail_point!("log-sync", |_| Err(Error::Misuse("failpoint log-sync".into())));
        self.db.flush_wal(true).map_err(Error::engine("sync log"))
    }

    /// Ends the engine's own threads: at the end of the process they must not run
    /// into what the process tears down. Nothing may be written afterwards.
    pub fn close(self: &Arc<Self>) {
        self.db.cancel_all_background_work(true);
        // As of the state: it must not be closed later than this.
        std::mem::forget(Arc::clone(self));
    }

    /// Write-ahead-log syncs since start.
    pub fn syncs(&self) -> u64 {
        self.options.get_ticker_count(Ticker::WalFileSynced)
    }

    /// A named value.
    ///
    /// # Errors
    /// When the engine fails; so for every method below.
    pub fn get(&self, name: LogField) -> Result<Option<Vec<u8>>> {
        self.db.get([NAMED, name as u8]).map_err(Error::engine("read log"))
    }

    /// Entries from `first` on, in order, at most `count` and at most
    /// `bytes_max` bytes, but one at least if there is one. `first` must lie
    /// above what was purged.
    pub fn read(&self, first: u64, count: usize, bytes_max: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(vec![ENTRY + 1]);
        let start = entry_key(first);
        let rows = self.db.iterator_opt(IteratorMode::From(&start, Direction::Forward), options);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for row in rows.take(count) {
            let (key, value) = row.map_err(Error::engine("read log"))?;
            bytes += value.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push((entry_index(&key)?, value.into_vec()));
        }
        Ok(entries)
    }

    /// The last entry.
    pub fn last(&self) -> Result<Option<(u64, Vec<u8>)>> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(vec![ENTRY]);
        let end = entry_key(u64::MAX);
        let mut rows = self.db.iterator_opt(IteratorMode::From(&end, Direction::Reverse), options);
        match rows.next() {
            None => Ok(None),
            Some(row) => {
                let (key, value) = row.map_err(Error::engine("read log"))?;
                Ok(Some((entry_index(&key)?, value.into_vec())))
            }
        }
    }

    /// Bytes of entries on disk and in memory, roughly.
    pub fn size_bytes(&self) -> u64 {
        let property = |name| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        property("rocksdb.total-sst-files-size") + property("rocksdb.cur-size-all-mem-tables")
    }
}

fn entry_key(index: u64) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

fn entry_index(key: &[u8]) -> Result<u64> {
    match key {
        [ENTRY, index @ ..] => crate::table::key::fixed(index).map(u64::from_be_bytes),
        _ => Err(Error::Corrupt { what: "log key", detail: format!("{key:02x?}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_log_are_fixed() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(folder.path(), None).unwrap();
        log.write(&LogWrite::Append(vec![(300, b"entry".to_vec())])).unwrap();
        for name in [LogField::Vote, LogField::Committed] {
            log.write(&LogWrite::Set(name, b"named".to_vec())).unwrap();
        }
        log.write(&LogWrite::Purge(1, b"purged".to_vec())).unwrap();
        let rows: Vec<_> = log.db.iterator(IteratorMode::Start).map(|row| row.unwrap()).collect();
        let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| &key[..]).collect();
        let expected: [&[u8]; 4] = [&[1, 0, 0, 0, 0, 0, 0, 1, 44], &[2, 1], &[2, 2], &[2, 3]];
        assert_eq!(keys, expected);
    }
}
