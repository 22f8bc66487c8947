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

/// The name of the state in use, and the number of states in the data folder.
#[cfg(feature = "failpoints")]
fn states(node: &Node) -> (String, usize) {
    let folder = node.data().join("state");
    let current = std::fs::read_to_string(folder.join("CURRENT")).unwrap();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    (current, names.filter(|name| name.to_string_lossy().starts_with('0')).count())
}

/// With memory for one state only, a node drops its indexes before it opens a snapshot.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn node_with_little_memory_has_one_state() {
    let (cluster, behind) = with_one_behind().await;
    let (node, leader) = (cluster.at(behind), cluster.at(cluster.leader().await));
    let resident = leader.metric("hearth_memory_resident_bytes").await;
    let limit = ((resident * 1.2) as u64).to_string();
    let environment = [
        ("FAILPOINTS", "snapshot-open=1*sleep(3000)->off"),
        ("HEARTH__MEMORY__MAX_BYTES", limit.as_str()),
    ];
    let process = node.serve_with(&environment);
    let opening = eventually("it opens", async || states(node).1, |states| *states == 2);
    opening.await;
    let purged = leader.metric("hearth_raft_purged_index").await;
    first_read_is_fresh(node, purged).await;
    assert!(process.log().contains("no memory for two states"), "{}", process.log());
    assert_eq!(node.metric("hearth_snapshots_installed_total").await, 1.0);
    assert_caught_up(&cluster, node).await;
}

/// A receiver may stop reading for longer than a dead machine is waited for.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn stalled_transfer_goes_on() {
    let (cluster, behind) = with_one_behind().await;
    let leader = cluster.at(cluster.leader().await);
    // More than the buffers of a connection hold.
    leader.store_each((0..500).map(|number| json!({"label": random_text(number, 60_000)}))).await;
    let node = cluster.at(behind);
    let _process = node.serve_with(&[("FAILPOINTS", "snapshot-receive=1*off->1*sleep(8000)->off")]);
    assert_caught_up(&cluster, node).await;
    let log = std::fs::read_to_string(node.data().join("served.log")).unwrap();
    assert!(!log.contains("snapshot not received"), "{log}");
}

/// A snapshot that does not fit is not received. The node stays as it was.
#[tokio::test]
async fn snapshot_without_space_is_not_received() {
    let (cluster, behind) = with_one_behind().await;
    let node = cluster.at(behind);
    let process = node.serve_with(&[("HEARTH__DISK__RESERVE_BYTES", "1000000000000000")]);
    let log = async || process.log();
    let is_said = |log: &String| log.contains("no space for a snapshot");
    eventually("it says so", log, is_said).await;
    assert_eq!(node.metric("hearth_snapshots_installed_total").await, 0.0);
    drop(process);
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
    cluster.transfer_to(position).await;
    cluster.at(behind).start();
    assert_crashed(crashing).await;
    leader.restart().await;
    assert_caught_up(&cluster, cluster.at(behind)).await;
}
