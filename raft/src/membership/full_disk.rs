//! Full disks. The leader rejects new data while a majority of the voters lacks space. While
//! a majority has space, a leader whose own disk is full hands leadership over: if this node has to
//! stop for lack of space, no election is needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::membership::operations::Operator;
use crate::shared::Shared;

/// Interval of the checks, and pause after an attempt to hand over.
const INTERVAL: Duration = Duration::from_secs(1);
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let local = shared.local.node;
    loop {
        sleep(INTERVAL).await;
        let full = shared.local.contact.full_disks(local);
        shared.some_disk_full.store(!full.is_empty(), Ordering::Relaxed);
        if !full.contains(&local) || !shared.is_serving() || !shared.has_disk_space() {
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
