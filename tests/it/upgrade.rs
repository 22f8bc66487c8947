//! Nodes of this version and of a next one form one cluster. An upgrade under load loses nothing, and
//! can be undone until the last node has the new version. The next version is this binary, which a
//! failpoint gives the next feature level.

use std::sync::Arc;

use super::membership::NewNode;
use super::*;

const WRITERS: usize = 4;
/// Feature level of this version.
const LEVEL: u64 = storage::model::release::LEVEL as u64;
/// What makes a process one of the next version.
const NEXT: (&str, &str) = ("FAILPOINTS", "feature-level=return(2)");

/// Stops a node in order, and starts it as this version, or with [`NEXT`] as the next one.
async fn restart_as(node: &Node, version: &[(&str, &str)]) {
    node.shut_down().await;
    node.restart_with(version).await;
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
    let cluster = Arc::new(options().nodes(3).start());
    let writers = Writers::start(&cluster, WRITERS);
    writers.acknowledge(50).await;
    let mut upgraded = Vec::new();
    for at in order(&cluster).await {
        assert_eq!(level(&cluster).await, LEVEL);
        restart_as(cluster.at(at), &[NEXT]).await;
        upgraded.push(cluster.at(at).id());
        writers.acknowledge(50).await;
        if upgraded.len() == 2 {
            let [leader] = cluster.leader_first().await;
            leader.kill();
            writers.acknowledge(50).await;
            let is_next = upgraded.contains(&leader.id());
            leader.restart_with(if is_next { &[NEXT] } else { &[] }).await;
            writers.acknowledge(50).await;
        }
    }
    let risen = async || level(&cluster).await;
    eventually("the level rises", risen, |level| *level == LEVEL + 1).await;
    writers.acknowledge(50).await;
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, WRITERS).await;
    }
    assert_equal_states(&cluster).await;
    refuses_to_go_back(&cluster).await;
}

/// A binary with a lower level says what it needs, and leaves the data as they are.
async fn refuses_to_go_back(cluster: &Cluster) {
    let node = cluster.at(0);
    node.shut_down().await;
    let log = node.failed_start(&[]).await;
    assert!(log.contains("needs version"), "{log}");
    assert!(log.contains("Nothing was changed"), "{log}");
    node.restart_with(&[NEXT]).await;
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
    let cluster = Arc::new(options().nodes(3).start());
    let writers = Writers::start(&cluster, WRITERS);
    for version in [&[NEXT][..], &[]] {
        for at in [0, 1] {
            restart_as(cluster.at(at), version).await;
            writers.acknowledge(50).await;
        }
        assert_eq!(level(&cluster).await, LEVEL);
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
    let (failpoints, next) = NEXT;
    let cluster = options().nodes(3).env(failpoints, next).start();
    let new = NewNode::beside(&cluster);
    let mut process = new.serve();
    let add = ["cluster", "--ops", cluster.ops(), "add", "--id", "4", "--address", &new.address];
    let add = async || cluster.run(&add).await.1;
    let refused = |text: &String| text.contains("which needs version");
    eventually("it is refused", add, refused).await;
    process.kill();
}
