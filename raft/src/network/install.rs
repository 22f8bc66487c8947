//! Installs a snapshot that this node has received (`incoming.rs`).

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use tokio::time::Instant;

use crate::network::message::PeerRejection;
use crate::shared::Shared;
use crate::state_machine::{Snapshot, SnapshotFolder, SnapshotState};
use crate::types::{LogId, SnapshotMeta, Vote};

/// Time for which an opened state waits for a leader that sends the same one. It occupies memory.
const KEPT_TIME: Duration = Duration::from_secs(60);

/// Whether this node needs the files of a snapshot up to `last` of a leader with this vote: not if
/// Raft would reject it, or this node has what it contains.
pub(crate) fn needs_files(shared: &Shared, vote: &Vote, last: Option<LogId>) -> bool {
    !is_superseded(shared, vote) && !has_applied(shared, last) && !shared.incoming.has(last)
}

fn is_superseded(shared: &Shared, vote: &Vote) -> bool {
    vote.partial_cmp(&own_vote(shared)).is_none_or(Ordering::is_lt)
}

fn own_vote(shared: &Shared) -> Vote {
    shared.raft.metrics().borrow_watched().vote
}

fn has_applied(shared: &Shared, last: Option<LogId>) -> bool {
    shared.local.reader.position().index >= last.map_or(0, |last| last.index)
}

/// Opens a received state, unless it is opened or memory does not suffice, and installs it. `folder`
/// has no files if they were not needed. Returns the vote of this node: if it is later than that of
/// the leader, the state is not installed.
pub(crate) async fn install(
    shared: Arc<Shared>,
    vote: Vote,
    meta: SnapshotMeta,
    folder: SnapshotFolder,
) -> Result<Vote, PeerRejection> {
    let (incoming, last) = (&shared.incoming, meta.last_log_id);
    let mut opening = incoming.opening.lock().await;
    if is_superseded(&shared, &vote) || has_applied(&shared, last) {
        return Ok(own_vote(&shared));
    }
    if !incoming.has(last) {
        if !folder.path.is_dir() {
            // The opened state is gone meanwhile. The leader sends it again.
            return Err(PeerRejection::Unavailable);
        }
        incoming.replace(&opening, None);
        if incoming.has_memory() {
            let received =
                opening.open(&meta, &folder, &shared.local.fault, &*shared.machine).await;
            let received = received.ok_or(PeerRejection::Unavailable)?;
            incoming.replace(&opening, last.map(|last| (last, received)));
        } else {
            tracing::warn!(
                "no memory for two states: this node neither votes nor reads memories until the \
                 received state is indexed"
            );
        }
    }
    let state = SnapshotState { folder, opened: Arc::clone(&opening.opened) };
    let installed = shared.raft.install_full_snapshot(vote, Snapshot { meta, snapshot: state });
    let installed = installed.await.map_err(|_| PeerRejection::Unavailable)?;
    if has_applied(&shared, last) {
        shared.peers.timings.installed_snapshots.inc();
        incoming.replace(&opening, None);
    } else {
        opening.kept_until = Instant::now() + KEPT_TIME;
        tokio::spawn(clear_later(Arc::clone(&shared)));
    }
    Ok(installed.vote)
}

async fn clear_later(shared: Arc<Shared>) {
    tokio::time::sleep(KEPT_TIME).await;
    let opening = shared.incoming.opening.lock().await;
    // It may have been kept again meanwhile.
    if opening.kept_until <= Instant::now() {
        shared.incoming.replace(&opening, None);
    }
}
