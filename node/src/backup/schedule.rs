//! Scheduled backups: every node looks at the newest backup in the store. A follower that has caught
//! up creates the next one. A leader waits longer, so that it creates one only without followers.

use std::time::Duration;

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
    loop {
        let jitter = u16::from_be_bytes(random_bytes()) % JITTER_SECONDS;
        tokio::time::sleep(INTERVAL + Duration::from_secs(jitter.into())).await;
        let is_fresh = raft.staleness().is_some_and(|staleness| staleness <= STALENESS_MAX);
        let delay = if raft.is_leader() { LEADER_DELAY } else { Duration::ZERO };
        let due_after = Duration::from_secs(config.interval_hours * 3_600) + delay;
        if is_fresh && let Err(error) = back_up(&url, due_after, config.keep, &backups).await {
            tracing::error!(error, "no scheduled backup");
        }
    }
}

async fn back_up(
    url: &str,
    due_after: Duration,
    keep: usize,
    backups: &Backups,
) -> Result<(), String> {
    let store = Store::open(url)?;
    let newest = store.manifests().await?.into_iter().filter_map(|(_, it)| it.ok()).next_back();
    let is_due = newest.is_none_or(|newest| newest.created_at + due_after <= Timestamp::now());
    if is_due {
        backups.create(url).await?;
        store.prune(keep).await?;
    }
    Ok(())
}
