//! `state/`: the RocksDB instance with all rows.
//!
//! It has no write-ahead log of its own. After a crash it is at its last flush, and the
//! Raft log replays the rest. Position and rows are written in one batch, so the state always
//! corresponds to one log index.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::cluster::Position;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, Direction, IteratorMode, ReadOptions,
    SnapshotWithThreadMode, WriteBatch,
};

use crate::change::RowWrite;
use crate::error::{Error, Result};
use crate::table::key::{Key, Kind, prefix_end};
use crate::table::view::{Row, View};

const BLOCK_CACHE_BYTES: usize = 128 << 20;
const WRITE_BUFFER_BYTES: usize = 32 << 20;
/// A new file is compacted if so many of so many rows in a row are deletions.
const DELETIONS_MAX: usize = 512;
const DELETIONS_WINDOW: usize = 1_024;
/// Bytes of a table file after which the operating system begins to write them, so that the sync of
/// a log entry does not find whole files of flushes and compactions before it.
pub(crate) const BYTES_PER_SYNC: u64 = 1 << 20;

pub(crate) struct State {
    db: DB,
    // Dropped after the database is closed.
    folder: RetiringFolder,
}

/// The state's folder. Removed on drop if the state was superseded.
struct RetiringFolder {
    path: PathBuf,
    retired: AtomicBool,
}

impl Drop for RetiringFolder {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Relaxed)
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            // The next start removes it.
            tracing::warn!(path = %self.path.display(), %error, "superseded state not removed");
        }
    }
}

/// Where an engine runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Environment {
    /// On a machine.
    #[default]
    Machine,
    /// In a simulation: what happens follows from the calls alone, not from the threads of the engine. It
    /// compacts nothing by itself, applying a verify mark waits for its hash, and a dropped state is that of
    /// a crash.
    Simulation,
}

impl State {
    /// Opens or creates the state at `path`.
    pub(crate) fn open(path: &Path, environment: Environment) -> Result<Self> {
        let options = options(environment).map_err(Error::engine("set up state"))?;
        let db = DB::open(&options, path).map_err(Error::engine("open state"))?;
        let folder = RetiringFolder { path: path.to_owned(), retired: AtomicBool::new(false) };
        Ok(Self { db, folder })
    }

    /// Opens a state to read it. Changes no file: an ordinary open would remove the files that a
    /// damaged MANIFEST no longer lists.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self> {
        let options = options(Environment::Machine).map_err(Error::engine("set up state"))?;
        let db = DB::open_for_read_only(&options, path, false);
        let folder = RetiringFolder { path: path.to_owned(), retired: AtomicBool::new(false) };
        Ok(Self { db: db.map_err(Error::engine("open state"))?, folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder.path
    }

    /// Stops RocksDB's background threads. No write may follow.
    pub(crate) fn close(self: &Arc<Self>) {
        self.db.cancel_all_background_work(true);
        // Leaks one reference on purpose. The last drop closes RocksDB, which must not happen
        // while the process tears down its statics.
        std::mem::forget(Arc::clone(self));
    }

    /// Marks this state as the present one: its folder stays.
    pub(crate) fn keep(&self) {
        self.folder.retired.store(false, Ordering::Relaxed);
    }

    /// Marks this state as one that is not present. The last drop removes its folder.
    pub(crate) fn retire(&self) {
        self.folder.retired.store(true, Ordering::Relaxed);
    }

    /// A snapshot of the state, for several reads that must be consistent.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot(self.db.snapshot())
    }

    /// Writes `batch` atomically. Not durable until [`Self::flush`].
    pub(crate) fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = rocksdb::WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(Error::engine("write state"))
    }

    /// Bytes that RocksDB holds in RAM: blocks of its cache, and rows that are not yet in a file.
    pub(crate) fn cache_bytes(&self) -> u64 {
        cache_bytes(&self.db)
    }

    /// Bytes of its files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.db.property_int_value("rocksdb.total-sst-files-size").ok().flatten().unwrap_or(0)
    }

    /// Makes all earlier writes durable. The durable state is always a prefix of the writes.
    pub(crate) fn flush(&self) -> Result<()> {
        self.db.flush().map_err(Error::engine("flush state"))
    }

    /// Flushes, then copies the state to the folder `target` by hard links.
    pub(crate) fn checkpoint(&self, target: &Path) -> Result<()> {
        rocksdb::checkpoint::Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(target))
            .map_err(Error::engine("checkpoint state"))
    }

    /// Rows from `start` to before `end`, in key order. An empty `end` is no bound.
    pub(crate) fn range<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let from_start = IteratorMode::From(start, Direction::Forward);
        self.db.iterator_opt(from_start, upper_bounded(end)).map(read)
    }

    /// The same rows in reverse order.
    pub(crate) fn range_back<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let mut options = upper_bounded(end);
        options.set_iterate_lower_bound(start.to_vec());
        self.db.iterator_opt(IteratorMode::End, options).map(read)
    }
}

/// Checks that the state at `path` is applied up to entry `index`. Changes no file.
pub(crate) fn check_applied(path: &Path, index: u64) -> Result<()> {
    if index == 0 {
        return Ok(());
    }
    let mut applied = 0;
    if path.join("CURRENT").exists() {
        let position = State::open_to_read(path)?.record::<Position>(&Key::Position)?;
        applied = position.map_or(0, |position| position.index);
    }
    if applied < index {
        let detail = format!(
            "ends at entry {applied}, but the log begins after entry {index}: files of the state \
             are missing"
        );
        return Err(Error::Corrupt { what: "state", detail });
    }
    Ok(())
}

pub(crate) struct Snapshot<'a>(SnapshotWithThreadMode<'a, DB>);

impl<'a> Snapshot<'a> {
    /// As [`State::range`]. All ranges of a snapshot are of one position. It must outlive them.
    pub(crate) fn range(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let from_start = IteratorMode::From(start, Direction::Forward);
        self.0.iterator_opt(from_start, upper_bounded(end)).map(read)
    }

    /// All rows, in key order, for a look at each of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Result<Row>> + use<'a> {
        self.0.iterator_opt(IteratorMode::Start, uncached(ReadOptions::default())).map(read)
    }

    /// All rows of a kind, for a look at each of them.
    pub(crate) fn scan(&self, kind: Kind) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let (start, end) = ([kind as u8], [kind as u8 + 1]);
        let from_start = IteratorMode::From(&start, Direction::Forward);
        self.0.iterator_opt(from_start, uncached(upper_bounded(&end))).map(read)
    }

    /// As [`State::range_back`].
    pub(crate) fn range_back(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let mut options = upper_bounded(end);
        options.set_iterate_lower_bound(start.to_vec());
        self.0.iterator_opt(IteratorMode::End, options).map(read)
    }
}

impl View for Snapshot<'_> {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        read(self.0.get(key.bytes()))
    }

    fn rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<Row>> {
        let from_prefix = IteratorMode::From(prefix, Direction::Forward);
        let rows = self.0.iterator_opt(from_prefix, upper_bounded(&prefix_end(prefix)));
        rows.take(limit).map(read).collect()
    }
}

/// Options of an iterator that ends before `end`. An empty `end` is no bound.
fn upper_bounded(end: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    if !end.is_empty() {
        options.set_iterate_upper_bound(end.to_vec());
    }
    options
}

/// Options of an iterator whose rows push no others out of the cache.
fn uncached(mut options: ReadOptions) -> ReadOptions {
    options.fill_cache(false);
    options
}

fn read<T>(result: std::result::Result<T, rocksdb::Error>) -> Result<T> {
    result.map_err(Error::engine("read state"))
}

impl View for State {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        read(self.db.get(key.bytes()))
    }

    fn rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<Row>> {
        self.range(prefix, &prefix_end(prefix)).take(limit).collect()
    }
}

pub(crate) fn cache_bytes(db: &DB) -> u64 {
    let property = |name| db.property_int_value(name).ok().flatten().unwrap_or(0);
    property("rocksdb.block-cache-usage") + property("rocksdb.size-all-mem-tables")
}

pub(crate) fn count(mut rows: impl Iterator<Item = Result<Row>>) -> Result<u64> {
    rows.try_fold(0, |count, row| row.map(|_| count + 1))
}

pub(crate) fn stage(batch: &mut WriteBatch, write: RowWrite) {
    match write {
        RowWrite::Put(key, value) => batch.put(key.bytes(), value),
        RowWrite::Delete(key) => batch.delete(key.bytes()),
        RowWrite::DeleteRange(start, end) => batch.delete_range(start, end),
    }
}

fn options(environment: Environment) -> std::result::Result<rocksdb::Options, rocksdb::Error> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    table.set_bloom_filter(10.0, false);
    // Partitioned index and filters: a block larger than a cache shard would never stay in
    // the cache, and every read would load it again.
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_partition_filters(true);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_top_level_index_and_filter(true);
    // So that bytes of deleted rows leave the disk in a quiet cluster, too: files that are a week old
    // are rewritten.
    let mut options = rocksdb::Options::default()
        .get_options_from_string("periodic_compaction_seconds=604800")?;
    if environment == Environment::Simulation {
        options = options.get_options_from_string("avoid_flush_during_shutdown=true")?;
        options.set_disable_auto_compactions(true);
    }
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(rocksdb::DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_paranoid_checks(true);
    options.set_keep_log_file_num(4);
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    options.set_max_open_files(512);
    // So that deleted rows leave the disk soon, and reads do not pass over them.
    options.add_compact_on_deletion_collector_factory(DELETIONS_WINDOW, DELETIONS_MAX, 0.0);
    Ok(options)
}
