//! The disk of a node. A task compares its free space with a reserve; below it the node reports a
//! full disk, and the leader rejects new data. Deletions and compaction need the reserve, since
//! both write before they free space.
//!
//! A quarter of the reserve is allocated as a file, the ballast. A node that finds no space at its
//! start removes it: RocksDB writes when it opens.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use raft::Handle;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::process::finished;

const INTERVAL: Duration = Duration::from_secs(1);
/// The default reserve: a part of the file system, and so much at most.
const DEFAULT_PART: u64 = 20;
const DEFAULT_MAX: u64 = 1 << 30;
/// Part of the reserve that must be free above it before a full disk counts as no longer full.
const RETURN_PART: u64 = 8;
const BALLAST_PART: u64 = 4;
const BALLAST: &str = "ballast";

/// Free space and reserve in bytes, of the fullest file system of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Space {
    free: u64,
    reserve: u64,
}

impl Space {
    /// Free bytes above the reserve; negative below it.
    fn above_reserve(&self) -> i128 {
        i128::from(self.free) - i128::from(self.reserve)
    }

    /// Whether the disk counts as full, if it did before or not.
    fn is_full(self, was_full: bool) -> bool {
        let Self { free, reserve } = self;
        free < reserve + if was_full { reserve / RETURN_PART } else { 0 }
    }
}

/// What the metrics show of the disk.
#[derive(Default)]
pub(crate) struct DiskUse {
    pub(crate) free: AtomicU64,
    pub(crate) reserve: AtomicU64,
    /// 1 if the disk is full.
    pub(crate) full: AtomicU64,
    /// Whether the file system cannot allocate the ballast.
    no_ballast: AtomicBool,
}

/// The data folder of a node, and its configured reserve in bytes.
#[derive(Clone)]
pub(crate) struct Disk {
    data: PathBuf,
    configured: Option<u64>,
    pub(crate) used: Arc<DiskUse>,
}

impl Disk {
    pub(crate) fn new(data: &Path, configured: Option<u64>) -> Self {
        Self { data: data.to_owned(), configured, used: Arc::default() }
    }

    /// Gives up the ballast if the disk has no space for a start.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        let Space { free, reserve } = self.space_of(&self.data)?;
        let ballast = self.data.join(BALLAST);
        if free < reserve / BALLAST_PART && ballast.exists() {
            std::fs::remove_file(ballast)?;
            tracing::warn!(free, "the disk has no space: the ballast was removed for this start");
        }
        Ok(())
    }

    /// The reserve in bytes.
    pub(crate) fn reserve(&self) -> io::Result<u64> {
        Ok(self.space_of(&self.data)?.reserve)
    }

    /// Free space and reserve in words, and whether the disk is full.
    pub(crate) fn describe(&self) -> io::Result<(String, bool)> {
        let space = self.space_of(&self.data)?;
        let [free, reserve] = [space.free, space.reserve].map(|bytes| bytes >> 20);
        Ok((format!("{free} MiB free, reserve {reserve} MiB"), space.is_full(false)))
    }

    fn space_of(&self, folder: &Path) -> io::Result<Space> {
        let found = statvfs(folder)?;
        let [free, total] = [found.f_bavail, found.f_blocks].map(|blocks| blocks * found.f_frsize);
        let default = || (total / DEFAULT_PART).min(DEFAULT_MAX);
        Ok(Space { free, reserve: self.configured.unwrap_or_else(default) })
    }

    /// The fullest file system: log and state may be mounted from others.
    fn space(&self) -> io::Result<Space> {
        let mut fullest = self.space_of(&self.data)?;
        for folder in ["log", "state"] {
            let space = self.space_of(&self.data.join(folder))?;
            fullest = std::cmp::min_by_key(fullest, space, Space::above_reserve);
        }
        Ok(fullest)
    }

    /// Measures the disk. Returns whether it is full.
    fn measure(&self) -> io::Result<bool> {
        let space = self.space()?;
        let was_full = self.used.full.load(Ordering::Relaxed) == 1;
        let is_full = space.is_full(was_full);
        let Space { free, reserve } = space;
        for (to, value) in [
            (&self.used.free, free),
            (&self.used.reserve, reserve),
            (&self.used.full, u64::from(is_full)),
        ] {
            to.store(value, Ordering::Relaxed);
        }
        match (was_full, is_full) {
            (false, true) => tracing::warn!(
                free,
                reserve,
                "the disk is full: the reserve is in use. While a majority of the nodes reports \
                 this, the cluster rejects new data. Free space, or enlarge the disk"
            ),
            (true, false) => tracing::info!(free, reserve, "the disk has space again"),
            _ => {}
        }
        self.keep_ballast()?;
        Ok(is_full)
    }

    /// Allocates the ballast if it is absent and there is space for it beside the reserve. A file
    /// system that cannot is not tried again by this process.
    fn keep_ballast(&self) -> io::Result<()> {
        let Space { free, reserve } = self.space_of(&self.data)?;
        let (bytes, path) = (reserve / BALLAST_PART, self.data.join(BALLAST));
        let is_tried = self.used.no_ballast.load(Ordering::Relaxed);
        if bytes == 0 || is_tried || free < reserve + 2 * bytes || path.exists() {
            return Ok(());
        }
        let allocate = |file| Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?);
        if let Err(error) = File::create_new(&path).and_then(allocate) {
            tracing::warn!(%error, "no ballast: a start without disk space will fail");
            self.used.no_ballast.store(true, Ordering::Relaxed);
            // It may not have been created.
            drop(std::fs::remove_file(&path));
        }
        Ok(())
    }
}

/// Reports whether the disk is full, once per interval. While it cannot be measured, the last report
/// holds.
pub(crate) async fn disk_task(disk: Disk, raft: Handle) {
    let (mut interval, mut is_measured) = (tokio::time::interval(INTERVAL), true);
    loop {
        interval.tick().await;
        let measured = disk.clone();
        let measured = tokio::task::spawn_blocking(move || measured.measure());
        let Some(measured) = finished(measured).await else { return };
        match measured {
            Ok(is_full) => {
                is_measured = true;
                raft.set_disk_full(is_full);
            }
            Err(error) if is_measured => {
                is_measured = false;
                tracing::error!(%error, "cannot measure the free disk space");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_needs_some_space_to_return() {
        let is_full = |free, was_full| Space { free, reserve: 80 }.is_full(was_full);
        assert_eq!([79, 80, 89, 90].map(|free| is_full(free, false)), [true, false, false, false]);
        assert_eq!([79, 80, 89, 90].map(|free| is_full(free, true)), [true, true, true, false]);
        assert!(!Space { free: 0, reserve: 0 }.is_full(false), "0 turns it off");
    }

    #[test]
    fn ballast_is_given_up_without_space() {
        let folder = tempfile::tempdir().unwrap();
        for part in ["log", "state"] {
            std::fs::create_dir(folder.path().join(part)).unwrap();
        }
        let (path, bytes) = (folder.path().join(BALLAST), 1 << 16);
        let disk = Disk::new(folder.path(), Some(BALLAST_PART * bytes));
        for _ in 0..2 {
            assert!(!disk.measure().unwrap());
            assert_eq!(path.metadata().unwrap().len(), bytes);
            disk.prepare().unwrap();
        }
        let without_space = Disk::new(folder.path(), Some(u64::MAX / 2));
        assert!(without_space.measure().unwrap());
        without_space.prepare().unwrap();
        assert!(!path.exists());
        let default = Disk::new(folder.path(), None).space().unwrap().reserve;
        assert!((1..=DEFAULT_MAX).contains(&default), "{default}");
    }
}
