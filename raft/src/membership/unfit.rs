//! Leaders that are not fit to lead. While another voter is fit, such a leader hands leadership over.
//!
//! A node is unfit while
//! - its disk is full, and a majority of the voters has space: if it has to stop for lack of space, no
//!   election is needed;
//! - a sync of its log, or the application of entries, does not end: its disk may hang for ever;
//! - it lacks the next embedding model, which the leader embeds by.
//!
//! While a majority of the voters lacks space, the leader rejects new data.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::membership::operations::Operations;
use crate::shared::Shared;

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time after which a sync of the log counts as hanging. Shorter stalls delay the writes of that time;
/// a transfer would end them without an outcome.
const SYNC_MAX: f64 = 6.0;
/// The same of the application of entries. A change of the model builds indexes in it.
const APPLY_MAX: f64 = 10.0;
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed attempt to hand over.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        sleep(INTERVAL).await;
        let contact = &shared.local.contact;
        let full = contact.full_disks(shared.local.node);
        shared.reported.some_disk_full.store(!full.is_empty(), Ordering::Relaxed);
        let reason = reason(&shared);
        contact.set_unfit(reason.is_some());
        let Some(reason) = reason.filter(|_| shared.leads()) else { continue };
        let operator = Operations { shared: &shared, deadline: Instant::now() + TRANSFER_TIMEOUT };
        match operator.hand_over().await {
            Ok(Some(next)) => tracing::warn!(next, reason, "leadership transferred"),
            // All voters are unfit, or there is no other one.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, reason, "leadership not transferred");
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

/// Why this node should not lead.
fn reason(shared: &Shared) -> Option<&'static str> {
    let local = shared.local.node;
    let [sync, apply] = shared.peers.timings.pending_seconds();
    if shared.local.contact.full_disks(local).contains(&local) && shared.has_disk_space() {
        Some("its disk is full")
    } else if sync > SYNC_MAX {
        Some("a sync of its log does not end")
    } else if apply > APPLY_MAX {
        Some("its state does not accept an entry")
    } else if shared.reported.lacks_model.load(Ordering::Relaxed) {
        Some("it has not the next embedding model")
    } else {
        None
    }
}
