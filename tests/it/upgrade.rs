//! Nodes of the kept commit and of the present one form one cluster. An upgrade under load loses
//! nothing, and can be undone until the last node has the new version.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::membership::NewNode;
use super::*;

const WRITERS: usize = 4;
/// Feature level of the kept commit.
const KEPT_LEVEL: u64 = 1;
/// That of the present one.
const LEVEL: u64 = storage::model::release::LEVEL as u64;

/// The binary of the kept commit, which `make kept` builds. A clone without history has none.
fn kept() -> Option<PathBuf> {
    let path = cache().join("kept").join(include_str!("../kept_commit").trim());
    let found = path.exists().then_some(path);
    if found.is_none() {
        eprintln!("left out: `make kept` has built no binary of the kept commit");
    }
    found
}

/// Stops a node in order, and starts it with a binary.
async fn restart_as(node: &Node, binary: impl Into<PathBuf>) {
    node.shut_down().await;
    node.use_binary(binary);
    node.restart().await;
}

async fn level(cluster: &Cluster) -> u64 {
    let status = async || {
        let status = cluster.ops_request(Method::GET, "/cluster").try_send().await.ok()?;
        status.body["feature_level"].as_u64()
    };
    eventually("the leader reports the level", status, Option::is_some).await.unwrap()
}

/// Upgrades the nodes at these positions under load, and kills the leader when two versions run.
async fn upgrade(order: impl AsyncFn(&Cluster) -> [usize; 3]) {
    let Some(kept) = kept() else { return };
    let cluster = Arc::new(Options::new(&kept).nodes(3).start());
    let writers = Writers::start(&cluster, WRITERS);
    writers.acknowledge(50).await;
    for (done, at) in order(&cluster).await.into_iter().enumerate() {
        assert_eq!(level(&cluster).await, KEPT_LEVEL);
        restart_as(cluster.at(at), BINARY).await;
        writers.acknowledge(50).await;
        if done == 1 {
            let [leader] = cluster.leader_first().await;
            leader.kill();
            writers.acknowledge(50).await;
            leader.restart().await;
            writers.acknowledge(50).await;
        }
    }
    let risen = async || level(&cluster).await;
    eventually("the level rises", risen, |level| *level == LEVEL).await;
    writers.acknowledge(50).await;
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, WRITERS).await;
    }
    assert_equal_states(&cluster).await;
    refuses_to_go_back(&cluster, &kept).await;
}

/// A binary with a lower level says what it needs, and leaves the data as they are.
async fn refuses_to_go_back(cluster: &Cluster, kept: &Path) {
    let node = cluster.at(0);
    node.shut_down().await;
    node.use_binary(kept);
    let log = node.failed_start(&[]).await;
    assert!(log.contains("needs version"), "{log}");
    assert!(log.contains("Nothing was changed"), "{log}");
    node.use_binary(BINARY);
    node.restart().await;
    converged(cluster).await;
    assert_equal_states(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_with_the_leader_last_loses_nothing() {
    upgrade(async |cluster: &Cluster| {
        let leader = cluster.leader().await;
        [(leader + 1) % 3, (leader + 2) % 3, leader]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_with_the_leader_first_loses_nothing() {
    upgrade(async |cluster: &Cluster| {
        let leader = cluster.leader().await;
        [leader, (leader + 1) % 3, (leader + 2) % 3]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_can_be_undone_until_the_last_node() {
    let Some(kept) = kept() else { return };
    let cluster = Arc::new(Options::new(&kept).nodes(3).start());
    let writers = Writers::start(&cluster, WRITERS);
    for binary in [PathBuf::from(BINARY), kept] {
        for at in [0, 1] {
            restart_as(cluster.at(at), binary.clone()).await;
            writers.acknowledge(50).await;
        }
        assert_eq!(level(&cluster).await, KEPT_LEVEL);
    }
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, WRITERS).await;
    }
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn node_below_the_level_cannot_join() {
    let Some(kept) = kept() else { return };
    let cluster = options().nodes(3).start();
    let new = NewNode::beside(&cluster);
    let mut process = new.serve_as(4, kept);
    let add = ["cluster", "--ops", cluster.ops(), "add", "--id", "4", "--address", &new.address];
    let add = async || cluster.run(&add).await.1;
    let refused = |text: &String| text.contains("which needs version");
    eventually("it is refused", add, refused).await;
    process.kill();
}
