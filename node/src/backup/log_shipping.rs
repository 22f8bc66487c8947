//! Log shipping: what was written since the last backup goes to the same place, every few seconds.
//!
//! Each node follows the end of the log in the place. The nodes have an order, the leader last. The
//! first one writes what is missing; each further one does once nothing was written for one more
//! interval, and then goes on until a node before it is back. No node decides who writes: the place
//! accepts one segment after each entry.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use raft::{Handle, LogEnd, Next};
use storage::model::cluster::Cluster;
use storage::{Reader, View};

use crate::backup::create::Backups;
use crate::backup::metrics::BackupMetrics;
use crate::backup::store::Store;
use crate::error::text;

/// Ships the log of this cluster.
pub(crate) struct LogShipping {
    pub(crate) url: String,
    pub(crate) interval: Duration,
    pub(crate) backups: Backups,
    pub(crate) metrics: BackupMetrics,
    pub(crate) raft: Handle,
    pub(crate) reader: Reader,
    pub(crate) node: u64,
}

/// What a node knows of the log in the place.
#[derive(Default)]
struct Known {
    /// Whether the place refuses to overwrite a segment.
    is_checked: bool,
    /// Its end; `None` until the place was read.
    end: Option<LogEnd>,
    /// Whether this node wrote its last segment.
    is_mine: bool,
    /// Since when this node waits for these entries of its log, up to an index, to be in the place.
    missing: Option<(Instant, u64)>,
    /// Since when some were missing, also while the place was out of reach.
    behind: Option<Instant>,
}

impl LogShipping {
    /// Runs until the node ends.
    pub(crate) async fn run(self) {
        let (mut known, mut is_failing) = (Known::default(), false);
        // Nothing is in the place yet, as far as this node knows.
        self.raft.set_shipped(0);
        loop {
            tokio::time::sleep(self.interval).await;
            match self.step(&mut known).await {
                Ok(()) if is_failing => {
                    tracing::info!(url = self.url, "the log is shipped again");
                    is_failing = false;
                }
                Ok(()) => {}
                Err(error) => {
                    self.metrics.failures.inc();
                    if !is_failing {
                        tracing::error!(url = self.url, error, "cannot ship the log");
                    }
                    is_failing = true;
                    // It was the turn of no node.
                    known = Known { behind: known.behind, ..Known::default() };
                }
            }
        }
    }

    /// Writes what this node has applied and the place lacks, if it is its turn.
    async fn step(&self, known: &mut Known) -> Result<(), String> {
        let Some(cluster) = self.reader.cluster().ok().flatten() else { return Ok(()) };
        let (store, id) = (Store::open(&self.url)?, hex::encode(cluster.id));
        let target = self.raft.status().applied_index;
        let (turn, all) = (self.nodes_before(&cluster), cluster.members.len() as u32 + 1);
        loop {
            // Also if the place cannot be read.
            self.report(known, target);
            if !known.is_checked {
                store.check_creation().await?;
                known.is_checked = true;
            }
            let Some(end) = self.end(&store, &id, known, turn).await? else {
                // The first backup is to come.
                return Ok(());
            };
            self.set_shipped(end.index);
            if known.missing.is_some_and(|(_, target)| end.index >= target) {
                (known.missing, known.behind) = (None, None);
            }
            let (raft, incarnation) = (self.raft.clone(), cluster.id);
            let read = move || raft.entries_after(incarnation, &end);
            match tokio::task::spawn_blocking(read).await.map_err(text)?.map_err(text)? {
                Next::Nothing => {
                    (known.missing, known.behind) = (None, None);
                    self.report(known, 0);
                    return Ok(());
                }
                Next::Segment(segment) if known.is_mine || self.is_turn(known, turn) => {
                    fail::fail_point!("segment-read", |_| std::process::abort());
                    known.is_mine = store.put_segment(&id, &segment).await?;
                    fail::fail_point!("segment-written", |_| std::process::abort());
                    let last = segment.head.last;
                    if !known.is_mine {
                        // Another node wrote one. The next step finds it.
                        return Ok(());
                    }
                    known.end = Some(last);
                    self.set_shipped(last.index);
                    if last.index >= target {
                        // The rest may wait.
                        return Ok(());
                    }
                }
                // Each other node had its turn, and one after the other.
                Next::Purged if self.is_turn(known, all + turn) => {
                    known.end = Some(self.close_gap(&store, &id, end.index).await?);
                    known.missing = None;
                }
                Next::Segment(_) | Next::Purged => return Ok(()),
            }
        }
    }

    /// The log in the place ends before the entries that the nodes have: returns the end of a newer
    /// backup, after which it goes on.
    async fn close_gap(&self, store: &Store, cluster: &str, end: u64) -> Result<LogEnd, String> {
        tracing::warn!(end, "the log in the place of backups has a gap");
        let (newest, purged) = (store.newest_of(cluster).await?, self.raft.status().purged_index);
        match newest.filter(|newest| newest.index >= purged) {
            Some(newest) => Ok(newest.end()),
            None => Ok(self.backups.create(&self.url).await?.end()),
        }
    }

    /// The last entry in the place: of its log, or of the newest backup if there is no log yet.
    async fn end(
        &self,
        store: &Store,
        cluster: &str,
        known: &mut Known,
        turn: u32,
    ) -> Result<Option<LogEnd>, String> {
        // A node that writes in place of others looks whether they are back.
        if known.end.is_none() || turn > 0 && (known.is_mine || self.is_turn(known, turn)) {
            let log = store.log_end(cluster).await?;
            known.is_mine &= log == known.end;
            let backup = match (log, known.end) {
                (None, None) => store.newest_of(cluster).await?.map(|backup| backup.end()),
                _ => None,
            };
            let found = [log, backup, known.end].into_iter().flatten();
            known.end = found.max_by_key(|end| end.index);
            return Ok(known.end);
        }
        while let Some(end) = known.end
            && !known.is_mine
            && let Some(head) = store.segment_head(cluster, end.index + 1).await?
        {
            known.end = Some(head.last);
        }
        Ok(known.end)
    }

    fn set_shipped(&self, index: u64) {
        self.raft.set_shipped(index);
        self.metrics.shipped.set(i64::try_from(index).unwrap_or(i64::MAX));
    }

    /// Whether changes are missing for so many intervals.
    fn is_turn(&self, known: &Known, intervals: u32) -> bool {
        let waited = known.missing.map_or(Duration::ZERO, |(since, _)| since.elapsed());
        waited >= self.interval * intervals
    }

    /// Notes that entries up to `target` may be missing, and reports since when.
    fn report(&self, known: &mut Known, target: u64) {
        if target > known.end.map_or(0, |end| end.index) {
            known.missing.get_or_insert_with(|| (Instant::now(), target));
            known.behind.get_or_insert_with(Instant::now);
        }
        let since = known.behind.map(|since| Timestamp::now() - since.elapsed());
        self.metrics.unshipped_since.set(since.map_or(0, |since| since.as_second()));
    }

    /// How many nodes write before this one.
    fn nodes_before(&self, cluster: &Cluster) -> u32 {
        let leader = self.raft.status().leader;
        let nodes = cluster.members.iter().filter(|it| !it.removed).map(|it| it.node);
        let rank = |node: u64| (Some(node) == leader, node);
        nodes.filter(|node| rank(*node) < rank(self.node)).count() as u32
    }
}
