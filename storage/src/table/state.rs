//! `state/`: the RocksDB instance that holds every row, without a write-ahead
//! log. After a crash it is what its last flush was; the Raft log replays the
//! rest. What the rows mean is not known here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DB, Direction, Env, IteratorMode, ReadOptions,
    SnapshotWithThreadMode, WriteBatch,
};

use crate::change::RowWrite;
use crate::error::{Error, Result};
use crate::table::key::{Key, after};
use crate::table::view::View;

const BLOCK_CACHE_BYTES: usize = 128 << 20;
const WRITE_BUFFER_BYTES: usize = 32 << 20;

/// An open state.
pub(crate) struct State {
    db: DB,
    // Dropped after the database is closed.
    folder: RetiringFolder,
}

/// A folder that is removed once nobody uses it, if it was superseded.
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
            tracing::warn!(path = %self.path.display(), %error, "a superseded state stays behind");
        }
    }
}

impl State {
    /// Opens the state at `path`, making an empty one if there is none. `env`
    /// replaces the file system, for simulation.
    pub(crate) fn open(path: &Path, env: Option<&Env>) -> Result<Self> {
        let options = options(env).map_err(Error::engine("set up state"))?;
        let db = DB::open(&options, path).map_err(Error::engine("open state"))?;
        let folder = RetiringFolder { path: path.to_owned(), retired: AtomicBool::new(false) };
        Ok(Self { db, folder })
    }

    /// The folder that this state lives in.
    pub(crate) fn path(&self) -> &Path {
        &self.folder.path
    }

    /// Ends the engine's own threads. Nothing may be written afterwards.
    pub(crate) fn close(self: &Arc<Self>) {
        self.db.cancel_all_background_work(true);
        // Whoever drops the last reader may do so while the process tears down what
        // RocksDB needs for that: nobody does.
        std::mem::forget(Arc::clone(self));
    }

    /// Another state took this one's place: its folder goes when its last reader does.
    pub(crate) fn retire(&self) {
        self.folder.retired.store(true, Ordering::Relaxed);
    }

    /// The state as of now, for several reads that must agree.
    pub(crate) fn at_once(&self) -> Frozen<'_> {
        Frozen(self.db.snapshot())
    }

    /// All of `batch` or nothing becomes visible. Not durable until [`Self::flush`].
    pub(crate) fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = rocksdb::WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(Error::engine("write state"))
    }

    /// Makes everything written so far durable. With one column family this is
    /// a prefix of history, position included.
    pub(crate) fn flush(&self) -> Result<()> {
        self.db.flush().map_err(Error::engine("flush state"))
    }

    /// A copy of the present state in `target` by hard links; flushes first.
    pub(crate) fn checkpoint(&self, target: &Path) -> Result<()> {
        rocksdb::checkpoint::Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(target))
            .map_err(Error::engine("checkpoint state"))
    }

    /// Rows from `start` up to, not including, `end` (no bound when empty), in key order.
    pub(crate) fn range<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        self.db
            .iterator_opt(from(start), below(end))
            .map(|row| row.map_err(Error::engine("read state")))
    }

    /// Rows before `end` that are not before `start`, the last first.
    pub(crate) fn range_back<'a>(
        &'a self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<Row>> + use<'a> {
        let mut options = below(end);
        options.set_iterate_lower_bound(start.to_vec());
        self.db
            .iterator_opt(IteratorMode::End, options)
            .map(|row| row.map_err(Error::engine("read state")))
    }

    /// Runs `read` on a frozen picture of the state, and `taken` once it is
    /// frozen: from then on writes go on without showing in it.
    pub(crate) fn frozen<T>(
        self: &Arc<Self>,
        taken: impl FnOnce(),
        read: impl FnOnce(&mut dyn Iterator<Item = Result<Row>>) -> T,
    ) -> T {
        let snapshot = self.db.snapshot();
        taken();
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        let mut rows = snapshot
            .iterator_opt(IteratorMode::Start, options)
            .map(|row| row.map_err(Error::engine("read state")));
        read(&mut rows)
    }
}

/// Key and value of a row.
pub(crate) type Row = (Box<[u8]>, Box<[u8]>);

/// A state as of one instant.
pub(crate) struct Frozen<'a>(SnapshotWithThreadMode<'a, DB>);

impl View for Frozen<'_> {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.0.get(key.bytes()).map_err(Error::engine("read state"))
    }

    fn rows(&self, prefix: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let rows = self.0.iterator_opt(from(prefix), below(&after(prefix)));
        plain(rows, most)
    }
}

fn from(start: &[u8]) -> IteratorMode<'_> {
    IteratorMode::From(start, Direction::Forward)
}

/// Options of an iterator that ends before `end`; empty is no end.
fn below(end: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    if !end.is_empty() {
        options.set_iterate_upper_bound(end.to_vec());
    }
    options
}

fn plain(
    rows: impl Iterator<Item = std::result::Result<Row, rocksdb::Error>>,
    most: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let plain = |(key, value): Row| (key.into_vec(), value.into_vec());
    rows.take(most).map(|row| row.map(plain).map_err(Error::engine("read state"))).collect()
}

impl View for State {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.db.get(key.bytes()).map_err(Error::engine("read state"))
    }

    fn rows(&self, prefix: &[u8], most: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        plain(self.db.iterator_opt(from(prefix), below(&after(prefix))), most)
    }
}

/// Adds `write` to `batch`.
pub(crate) fn stage(batch: &mut WriteBatch, write: RowWrite) {
    match write {
        RowWrite::Put(key, value) => batch.put(key.bytes(), value),
        RowWrite::Delete(key) => batch.delete(key.bytes()),
        RowWrite::DeleteRange(start, end) => batch.delete_range(start, end),
    }
}

fn options(env: Option<&Env>) -> std::result::Result<rocksdb::Options, rocksdb::Error> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(BLOCK_CACHE_BYTES));
    table.set_bloom_filter(10.0, false);
    // In small parts: a filter or index larger than a shard of the cache would never
    // stay in it, and be read and checked again for every row.
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_partition_filters(true);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_top_level_index_and_filter(true);
    let mut options = rocksdb::Options::default();
    if let Some(env) = env {
        // In simulation a dropped state is a crashed one.
        options = options.get_options_from_string("avoid_flush_during_shutdown=true")?;
        options.set_env(env);
    }
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(rocksdb::DBCompressionType::Lz4);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_paranoid_checks(true);
    options.set_keep_log_file_num(4);
    options.set_max_open_files(512);
    Ok(options)
}
