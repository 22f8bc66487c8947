//! Networks that let only some nodes reach each other: who is cut off disturbs nobody,
//! and whoever can gather a majority leads.
#![cfg(feature = "failpoints")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{Cluster, Node, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::options;

/// A cluster whose nodes read from files whom they do not reach.
struct Network {
    cluster: Cluster,
    _nodes: Vec<Node>,
    folder: TempDir,
}

impl Network {
    async fn of(nodes: usize) -> Self {
        let cluster = options().nodes(nodes).start();
        settled(&cluster).await;
        let folder = tempfile::tempdir().unwrap();
        // One after another, so that a majority is there all the time.
        let mut later = Vec::new();
        for (at, node) in cluster.nodes().enumerate() {
            node.kill();
            let point = format!("peer-cut=return({})", file(&folder, at).display());
            later.push(node.serve_with(&[("FAILPOINTS", &point)]));
            node.ready().await;
        }
        Self { cluster, _nodes: later, folder }
    }

    /// From now on `pass` says which two nodes reach each other.
    fn cut(&self, pass: impl Fn(usize, usize) -> bool) {
        let nodes = self.cluster.nodes().count();
        for at in 0..nodes {
            let cut = (0..nodes).filter(|other| *other != at && !pass(at, *other));
            let cut: Vec<_> = cut.map(|other| self.cluster.at(other).id().to_string()).collect();
            storage::file::replace(&file(&self.folder, at), cut.join(" ").as_bytes()).unwrap();
        }
    }

    fn heal(&self) {
        self.cut(|_, _| true);
    }
}

fn file(folder: &TempDir, at: usize) -> PathBuf {
    folder.path().join(at.to_string())
}

async fn term(cluster: &Cluster, at: usize) -> u64 {
    cluster.at(at).status().await.unwrap()["term"].as_u64().unwrap()
}

#[tokio::test]
async fn a_node_that_is_cut_off_stands_for_no_election_and_disturbs_nobody_afterwards() {
    let network = Network::of(3).await;
    let cluster = &network.cluster;
    let leader = cluster.leader().await;
    let (alone, rest) = ((leader + 1) % 3, cluster.at((leader + 2) % 3));
    let before = term(cluster, alone).await;
    network.cut(|left, right| left != alone && right != alone);
    let started = Instant::now();
    // Several election timeouts, all the while written to.
    while started.elapsed() < Duration::from_secs(6) {
        rest.create(&json!({"label": "the others go on"})).await;
        assert_eq!(term(cluster, alone).await, before, "it stood for an election");
    }
    network.heal();
    settled(cluster).await;
    let terms = [term(cluster, 0).await, term(cluster, 1).await, term(cluster, 2).await];
    assert_eq!(terms, [before; 3], "its return cost the leader its place");
    assert_eq!(cluster.leader().await, leader);
    assert_equal_states(&rest).await;
}

#[tokio::test]
async fn of_five_nodes_that_only_reach_one_of_them_that_one_comes_to_lead() {
    let network = Network::of(5).await;
    let cluster = &network.cluster;
    let leader = cluster.leader().await;
    // The leader keeps two of five, and the bridge hears both it and the others.
    let bridge = (leader + 1) % 5;
    network.cut(|left, right| left == bridge || right == bridge);
    let (started, stored) = (Instant::now(), json!({"label": "through the bridge"}));
    loop {
        let status = cluster.at(bridge).status().await.unwrap_or(Value::Null);
        if status["role"] == "leader" {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the bridge does not come to lead: {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for node in cluster.nodes() {
        node.create(&stored).await;
    }
    network.heal();
    settled(cluster).await;
    assert_equal_states(&cluster.at(0)).await;
}
