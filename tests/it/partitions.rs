//! Network partitions: a partitioned node disturbs no leader, and the node that reaches a
//! majority leads.
#![cfg(feature = "failpoints")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

/// A cluster whose nodes read from files which other nodes are unreachable.
struct Network {
    cluster: Cluster,
    folder: TempDir,
}

impl Network {
    async fn of(nodes: usize) -> Self {
        let cluster = options().nodes(nodes).start();
        converged(&cluster).await;
        let folder = tempfile::tempdir().unwrap();
        // One after another, so that a majority runs all the time.
        for (at, node) in cluster.nodes().enumerate() {
            node.kill();
            let point = format!("peer-cut=return({})", file(&folder, at).display());
            node.restart_with(&[("FAILPOINTS", &point)]).await;
        }
        Self { cluster, folder }
    }

    /// Partitions all pairs of nodes that `pass` rejects.
    fn partition(&self, pass: impl Fn(usize, usize) -> bool) {
        let nodes = self.cluster.nodes().len();
        for at in 0..nodes {
            let others = (0..nodes).filter(|other| *other != at && !pass(at, *other));
            let ids: Vec<_> = others.map(|other| self.cluster.at(other).id().to_string()).collect();
            storage::file::replace(&file(&self.folder, at), ids.join(" ").as_bytes()).unwrap();
        }
    }

    fn heal(&self) {
        self.partition(|_, _| true);
    }
}

fn file(folder: &TempDir, at: usize) -> PathBuf {
    folder.path().join(at.to_string())
}

#[tokio::test]
async fn partitioned_node_starts_no_election_and_rejoins_quietly() {
    let network = Network::of(3).await;
    let cluster = &network.cluster;
    let leader = cluster.leader().await;
    let (alone, rest) = ((leader + 1) % 3, cluster.at((leader + 2) % 3));
    let before = cluster.at(alone).term().await;
    network.partition(|left, right| left != alone && right != alone);
    let started = Instant::now();
    // Several election timeouts, with writes all the time.
    while started.elapsed() < Duration::from_secs(6) {
        rest.create(&json!({"label": "the others continue"})).await;
        assert_eq!(cluster.at(alone).term().await, before, "it started an election");
    }
    network.heal();
    converged(cluster).await;
    for node in cluster.nodes() {
        assert_eq!(node.term().await, before, "its return caused an election");
    }
    assert_eq!(cluster.leader().await, leader);
    assert_equal_states(rest).await;
}

#[tokio::test]
async fn only_node_that_reaches_a_majority_leads() {
    let network = Network::of(5).await;
    let cluster = &network.cluster;
    let leader = cluster.leader().await;
    // The leader keeps two of five. The bridge reaches it and the others.
    let bridge = (leader + 1) % 5;
    network.partition(|left, right| left == bridge || right == bridge);
    let leads = |role: &Option<_>| role.as_ref().is_some_and(|role| *role == json!("leader"));
    let role = async || Some(cluster.at(bridge).status().await?["role"].clone());
    eventually("the bridge leads", role, leads).await;
    for node in cluster.nodes() {
        node.create(&json!({"label": "through the bridge"})).await;
    }
    network.heal();
    converged(cluster).await;
    assert_equal_states(cluster).await;
}
