//! Keeps the log short: has the state made durable when the log has grown or
//! aged, after which openraft purges what lies below.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use storage::Log;
use tokio::time::Instant;

use crate::handle::Raft;

/// Log bytes after which the state is made durable.
pub(crate) const LOG_BYTES: u64 = 128 << 20;
/// Time after which it is made durable all the same.
pub(crate) const LOG_AGE: Duration = Duration::from_secs(600);
/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Runs until raft stops.
pub(crate) async fn run(raft: Raft, log: Arc<Log>) {
    let (mut durable_at, mut bytes_then) = (Instant::now(), 0);
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let bytes = log.size_bytes();
        // The log shrinks some time after its entries are purged.
        bytes_then = bytes.min(bytes_then);
        if !due(&raft, bytes.saturating_sub(bytes_then), durable_at.elapsed()) {
            continue;
        }
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
        (durable_at, bytes_then) = (Instant::now(), bytes);
    }
}

fn due(raft: &Raft, grown_bytes: u64, age: Duration) -> bool {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    grown_bytes >= LOG_BYTES || age >= LOG_AGE && metrics.last_applied > metrics.snapshot
}
