//! Scheduled backups: every node looks at the newest backup in the store. A follower that has caught
//! up creates the next one. A leader waits longer, so that it creates one only without followers.

use std::time::{Duration, Instant};

use api::random_bytes;
use jiff::Timestamp;
use raft::Handle;

use crate::backup::create::Backups;
use crate::backup::store::Store;
use crate::config::Backup;

/// Interval at which the store is looked at.
const INTERVAL: Duration = Duration::from_secs(60);
/// Random further pause of each node, so that not all begin at once.
const JITTER_SECONDS: u16 = 60;
/// Time after which a leader creates a backup that is due.
const LEADER_DELAY: Duration = Duration::from_secs(900);
/// Staleness up to which a node has caught up.
const STALENESS_MAX: Duration = Duration::from_secs(10);

/// Creates the configured backups, and removes the oldest ones.
pub(crate) async fn backup_task(config: Backup, backups: Backups, raft: Handle) {
    let Some(url) = config.url else { return };
    let interval = Duration::from_secs(3_600 * u64::from(config.interval_hours));
    let mut due_at = None;
    loop {
        let jitter = u16::from_be_bytes(random_bytes()) % JITTER_SECONDS;
        tokio::time::sleep(INTERVAL + Duration::from_secs(jitter.into())).await;
        let is_due = match is_due(&url, interval).await {
            Ok(is_due) => is_due,
            Err(error) => {
                tracing::error!(url, error, "cannot read the backups");
                continue;
            }
        };
        let due_at: &mut Option<Instant> = &mut due_at;
        if !is_due {
            *due_at = None;
            continue;
        }
        let waited = due_at.get_or_insert_with(Instant::now).elapsed();
        let is_fresh = raft.staleness().is_some_and(|staleness| staleness <= STALENESS_MAX);
        if is_fresh && (!raft.is_leader() || waited >= LEADER_DELAY) {
            // It logs a failure.
            let created = backups.create(&url).await;
            if created.is_ok()
                && let Err(error) = prune(&url, config.keep).await
            {
                tracing::error!(url, error, "old backups not removed");
            }
        }
    }
}

/// Whether the newest backup is older than the interval, or there is none.
async fn is_due(url: &str, interval: Duration) -> Result<bool, String> {
    let all = Store::open(url)?.manifests().await?;
    let newest = all.into_iter().filter_map(|(_, manifest)| manifest.ok()).next_back();
    Ok(newest.is_none_or(|newest| {
        let age = Timestamp::now().duration_since(newest.created_at);
        age.is_positive() && age.unsigned_abs() >= interval
    }))
}

async fn prune(url: &str, keep: usize) -> Result<(), String> {
    Store::open(url)?.prune(keep).await.map(drop)
}
