//! A node whose position is no longer in the log catches up from a snapshot, beside writes and
//! over crashes at any step.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// Three nodes with eager log compaction. One of them (its position is returned) is dead, and
/// the others no longer have the entries that it misses.
async fn with_one_behind() -> (Cluster, usize) {
    let cluster = options().nodes(3).eager_compaction("2").start();
    let [leader, node] = cluster.leader_first().await;
    let last = node.metric("hearth_raft_last_log_index").await;
    node.kill();
    let purged = async || {
        leader.store_each(vec![labelled("meanwhile"); 10]).await;
        leader.metric("hearth_raft_purged_index").await
    };
    eventually("the log is compacted", purged, |purged| *purged > last).await;
    let behind = node.id() as usize - 1;
    (cluster, behind)
}

async fn assert_caught_up(cluster: &Cluster, node: &Node) {
    node.ready().await;
    assert!(node.metric("hearth_memories").await > 0.0);
    converged(cluster).await;
    assert_equal_states(node).await;
}

#[cfg(feature = "failpoints")]
async fn assert_crashed(mut process: Process) {
    assert!(!process.ended().await, "it was to crash: {}", process.log());
}

#[tokio::test]
async fn node_behind_the_log_catches_up_beside_writes() {
    let (cluster, behind) = with_one_behind().await;
    let (node, other) = (cluster.at(behind), cluster.at((behind + 1) % 3));
    let purged = other.metric("hearth_raft_purged_index").await;
    let written = AtomicU64::new(0);
    let writes = async {
        loop {
            other.create(&json!({"label": "while it catches up"})).await;
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    node.start();
    tokio::select! {
        () = writes => {}
        () = first_read_is_fresh(node, purged) => {}
    }
    assert!(written.into_inner() > 0, "writes continued");
    assert_caught_up(&cluster, node).await;
}

/// Until the node knows a leader and has caught up it refuses, never responds with its old state.
async fn first_read_is_fresh(node: &Node, purged: f64) {
    let read = async || node.request(Method::GET, "/agent/nodes").try_send().await.ok();
    let read = eventually("a read succeeds", read, |read| match read {
        Some(read) if read.status == StatusCode::OK => true,
        Some(read) => {
            let error = read.body["error"].as_str();
            assert!(matches!(error, Some("stale" | "no_leader")), "{}", read.body);
            false
        }
        None => false,
    });
    let read = read.await.expect("it succeeded");
    assert!(read.number("x-hearth-index") as f64 > purged, "{}", read.body);
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn receiver_crashes_while_receiving_and_installing_a_snapshot() {
    let (cluster, behind) = with_one_behind().await;
    let node = cluster.at(behind);
    for point in ["snapshot-receive=2*off->return", "snapshot-install=return"] {
        assert_crashed(node.serve_with(&[("FAILPOINTS", point)])).await;
    }
    node.start();
    assert_caught_up(&cluster, node).await;
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn leader_crashes_while_building_a_snapshot() {
    let (cluster, behind) = with_one_behind().await;
    let position = cluster.leader().await;
    let leader = cluster.at(position);
    leader.kill();
    // Raft builds the first snapshots itself when it starts.
    let crashing = leader.serve_with(&[("FAILPOINTS", "snapshot-build=2*off->return")]);
    leader.ready().await;
    // The node behind cannot lead. The third node may lead at first.
    let to = json!({"to": leader.id()});
    let transferred = async || {
        let found = cluster.leader().await;
        if found != position {
            let transfer = cluster.at(found).ops_request(Method::POST, "/cluster/transfer");
            drop(transfer.json(&to).try_send().await);
        }
        found
    };
    eventually("it leads again", transferred, |found| *found == position).await;
    cluster.at(behind).start();
    assert_crashed(crashing).await;
    leader.restart().await;
    assert_caught_up(&cluster, cluster.at(behind)).await;
}
