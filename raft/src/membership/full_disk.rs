//! Hands leadership over while the disk of this node is full and a majority of the voters has space.
//! The cluster then goes on, and if this node has to stop for lack of space, no election is needed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::membership::operations::Operator;
use crate::shared::Shared;

/// Interval of the checks, and pause after an attempt.
const INTERVAL: Duration = Duration::from_secs(1);
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let local = shared.local.node;
    loop {
        sleep(INTERVAL).await;
        let is_full = shared.local.contact.full_disks(local).contains(&local);
        if !is_full || !shared.is_serving() || !shared.has_disk_space() {
            continue;
        }
        let operator = Operator { shared: &shared, deadline: Instant::now() + TRANSFER_TIMEOUT };
        match operator.transfer_leadership().await {
            Ok(Some(next)) => tracing::info!(next, "leadership transferred: the disk is full"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the disk is full, leadership not transferred"),
        }
    }
}
