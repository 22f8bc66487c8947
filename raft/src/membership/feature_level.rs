//! Feature level: the leader raises the level of the cluster to the lowest one of all members, once
//! each member is up with a version that has it. From then on, new kinds of records may be written,
//! and a binary with a lower level stops at them.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use storage::command::RaiseLevel;
use storage::model::release::Release;
use tokio::time::{Instant, sleep};

use crate::membership::operations::Operations;
use crate::shared::Shared;
use crate::types::NodeId;

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        sleep(INTERVAL).await;
        if !shared.is_serving() {
            continue;
        }
        let Some(lowest) = lowest_release(&shared) else { continue };
        let before = shared.local.required_release();
        if lowest.level <= before.level {
            continue;
        }
        let operator = Operations { shared: &shared, deadline: Instant::now() + TIMEOUT };
        match operator.submit(RaiseLevel(lowest)).await {
            Ok(_) => tracing::info!(
                from = before.level,
                to = lowest.level,
                version = %lowest,
                "feature level raised: all members have this version or a later one, and none can \
                 go back to an earlier one"
            ),
            Err(error) => tracing::warn!(%error, "feature level not raised: trying again"),
        }
    }
}

/// The lowest release of all members. `None` while a member is down.
fn lowest_release(shared: &Shared) -> Option<Release> {
    let metrics = shared.raft.metrics();
    let metrics = metrics.borrow_watched();
    let release = |node: NodeId| shared.release(node).filter(|_| shared.is_up(node));
    let nodes = metrics.membership_config.nodes();
    let releases: Option<Vec<Release>> = nodes.map(|(node, _)| release(*node)).collect();
    releases?.into_iter().min()
}
