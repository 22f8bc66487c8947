//! Scheduled backups: every node looks at the newest backup in the place. When the next one is due,
//! the nodes take turns, the leader last: a node that has caught up creates it in its turn.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use api::random_bytes;
use jiff::{SignedDuration, Timestamp};
use raft::Handle;
use storage::{Reader, View};

use crate::backup::create::Backups;
use crate::backup::metrics::BackupMetrics;
use crate::backup::store::Store;
use crate::config::Backup;

/// Interval at which the place is looked at, and most further milliseconds: not all at once.
const INTERVAL: Duration = Duration::from_secs(60);
const JITTER_MILLIS: u16 = 60_000;
/// Time of a node to create a backup that is due, before the next one does. A backup under way is
/// not visible to the others.
const TURN: Duration = Duration::from_secs(1_800);

/// Creates the configured backups of this cluster, and removes its oldest ones.
pub(crate) struct Schedule {
    pub(crate) url: String,
    pub(crate) config: Backup,
    pub(crate) backups: Backups,
    pub(crate) metrics: BackupMetrics,
    pub(crate) raft: Handle,
    pub(crate) reader: Reader,
    pub(crate) node: u64,
}

impl Schedule {
    /// Runs until the node ends.
    pub(crate) async fn run(self) {
        let mut due_since = None;
        loop {
            tokio::time::sleep(pause()).await;
            if let Err(error) = self.step(&mut due_since).await {
                self.metrics.failures.inc();
                tracing::error!(url = self.url, error, "scheduled backup failed");
            }
        }
    }

    async fn step(&self, due_since: &mut Option<Instant>) -> Result<(), String> {
        let Some(cluster) = self.reader.cluster().ok().flatten() else { return Ok(()) };
        if !self.is_due(&hex::encode(cluster.id)).await? {
            *due_since = None;
            return Ok(());
        }
        let nodes = cluster.members.iter().filter(|it| !it.removed).map(|it| it.node);
        let leader = self.raft.status().leader;
        let before = match leader == Some(self.node) {
            true => nodes.filter(|node| *node != self.node).count(),
            false => nodes.filter(|node| *node < self.node && Some(*node) != leader).count(),
        };
        let waited = due_since.get_or_insert_with(Instant::now).elapsed();
        if self.backups.is_fresh() && waited >= TURN * before as u32 {
            self.backups.create(&self.url).await?;
            if let Some(keep) = NonZeroUsize::new(self.config.keep) {
                Store::open(&self.url)?.prune(keep).await?;
            }
        }
        Ok(())
    }

    /// Whether the newest backup of the cluster is older than the interval, or there is none. Both
    /// times are the cluster's: the wall clock of one node may be wrong.
    async fn is_due(&self, cluster: &str) -> Result<bool, String> {
        let newest = Store::open(&self.url)?.newest_of(cluster).await?.map(|it| it.clock);
        self.metrics.newest.set(newest.map_or(0, Timestamp::as_second));
        let now = Timestamp::from_microsecond(self.reader.position().clock.0).unwrap_or_default();
        let interval = SignedDuration::from_hours(self.config.interval_hours.into());
        Ok(newest.is_none_or(|newest| now.duration_since(newest) >= interval))
    }
}

fn pause() -> Duration {
    fail::fail_point!("backup-pause", |_| Duration::from_millis(100));
    let jitter = u16::from_be_bytes(random_bytes()) % JITTER_MILLIS;
    INTERVAL + Duration::from_millis(jitter.into())
}
