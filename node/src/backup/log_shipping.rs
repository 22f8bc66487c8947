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
    /// Its end; `None` until the place was read.
    end: Option<LogEnd>,
    /// Whether this node wrote its last segment.
    is_mine: bool,
    /// Since when something is missing in the place, and nothing was written.
    waiting_since: Option<Instant>,
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
                    known = Known { waiting_since: known.waiting_since, ..Known::default() };
                }
            }
        }
    }

    /// Writes what is missing, if it is the turn of this node.
    async fn step(&self, known: &mut Known) -> Result<(), String> {
        let Some(cluster) = self.reader.cluster().ok().flatten() else { return Ok(()) };
        let (store, id) = (Store::open(&self.url)?, hex::encode(cluster.id));
        let turn = self.interval * self.nodes_before(&cluster);
        loop {
            let Some(end) = self.end(&store, &id, known).await? else {
                // The first backup is to come.
                return self.report(known, true);
            };
            self.raft.set_shipped(end.index);
            self.metrics.shipped.set(i64::try_from(end.index).unwrap_or(i64::MAX));
            let (raft, incarnation) = (self.raft.clone(), cluster.id);
            let read = move || raft.entries_after(incarnation, &end);
            let next = tokio::task::spawn_blocking(read).await.map_err(text)?.map_err(text)?;
            self.report(known, next != Next::Nothing)?;
            let waited = known.waiting_since.map_or(Duration::ZERO, |since| since.elapsed());
            let (is_turn, is_last_turn) =
                (known.is_mine || waited >= turn, waited >= self.all_turns(&cluster));
            match next {
                Next::Segment(segment) if is_turn => {
                    fail::fail_point!("segment-read", |_| std::process::abort());
                    known.is_mine = store.put_segment(&id, &segment).await?;
                    fail::fail_point!("segment-written", |_| std::process::abort());
                    known.waiting_since = None;
                    if !known.is_mine {
                        // Another node wrote one. The next step finds it.
                        return Ok(());
                    }
                    known.end = Some(segment.head.last);
                }
                // Each node had its turn, and none has these entries.
                Next::Purged if is_last_turn => {
                    tracing::warn!(
                        index = end.index,
                        "the log in the place of backups has a gap: a backup is due"
                    );
                    self.backups.create(&self.url).await?;
                    *known = Known::default();
                }
                Next::Nothing | Next::Segment(_) | Next::Purged => return Ok(()),
            }
        }
    }

    /// The last entry in the place: of its log, or of the newest backup if that goes further.
    async fn end(
        &self,
        store: &Store,
        cluster: &str,
        known: &mut Known,
    ) -> Result<Option<LogEnd>, String> {
        let Some(mut end) = known.end else {
            let newest = store.newest_of(cluster).await?.map(|backup| backup.end());
            let log = store.log_end(cluster).await?;
            known.end = newest.into_iter().chain(log).max_by_key(|end| end.index);
            return Ok(known.end);
        };
        // What this node wrote is the end, until a segment that it writes exists already.
        while !known.is_mine
            && let Some(head) = store.segment_head(cluster, end.index + 1).await?
        {
            end = head.last;
            (known.end, known.waiting_since) = (Some(end), None);
        }
        Ok(known.end)
    }

    fn report(&self, known: &mut Known, is_missing: bool) -> Result<(), String> {
        match is_missing {
            false => known.waiting_since = None,
            true => {
                known.waiting_since.get_or_insert_with(Instant::now);
            }
        }
        let since = known.waiting_since.map(|since| Timestamp::now() - since.elapsed());
        self.metrics.unshipped_since.set(since.map_or(0, |since| since.as_second()));
        Ok(())
    }

    /// How many nodes write before this one.
    fn nodes_before(&self, cluster: &Cluster) -> u32 {
        let leader = self.raft.status().leader;
        let nodes = cluster.members.iter().filter(|it| !it.removed).map(|it| it.node);
        let rank = |node: u64| (Some(node) == leader, node);
        nodes.filter(|node| rank(*node) < rank(self.node)).count() as u32
    }

    /// The time in which each node had its turn.
    fn all_turns(&self, cluster: &Cluster) -> Duration {
        self.interval * (cluster.members.len() as u32 + 1)
    }
}
