//! Network partitions: a partitioned node disturbs no leader, and the node that reaches a
//! majority leads.
#![cfg(feature = "failpoints")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tempfile::TempDir;

use super::*;

/// A cluster whose nodes read from files which paths of the network are cut.
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
        for at in 0..self.cluster.nodes().len() {
            self.cut(at, |other| (!pass(at, other)).then(|| self.address(other)));
        }
    }

    /// Loses all messages to a node. Its own messages arrive.
    fn cut_paths_to(&self, deaf: usize) {
        for at in 0..self.cluster.nodes().len() {
            self.cut(at, |other| match (at == deaf, other == deaf) {
                (true, _) => Some(format!("from:{}", self.address(other))),
                (_, true) => Some(self.address(other)),
                _ => None,
            });
        }
    }

    /// Replaces the cut paths of a node: those that `path` returns for the other nodes.
    fn cut(&self, at: usize, path: impl Fn(usize) -> Option<String>) {
        let others = (0..self.cluster.nodes().len()).filter(|other| *other != at);
        let paths: Vec<_> = others.filter_map(path).collect();
        storage::file::replace(&file(&self.folder, at), paths.join(" ").as_bytes()).unwrap();
    }

    fn address(&self, at: usize) -> String {
        self.cluster.at(at).peer_address()
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

/// As behind a firewall that rejects with a reset: to this node the leader's process has ended.
#[tokio::test]
async fn refused_path_of_one_deposes_no_leader() {
    let network = Network::of(3).await;
    let cluster = &network.cluster;
    let [leader, refused, other] = cluster.leader_first().await;
    let term = leader.term().await;
    let at = |node: &Node| node.id() as usize - 1;
    network.cut(at(refused), |other| {
        (other == at(leader)).then(|| format!("refused:{}", network.address(other)))
    });
    // It calls the leader anew.
    refused.kill();
    let point = format!("peer-cut=return({})", file(&network.folder, at(refused)).display());
    refused.start_with(&[("FAILPOINTS", &point)]);
    refused.up().await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(6) {
        other.create(&json!({"label": "the leader stays"})).await;
        assert_eq!(other.term().await, term, "an election");
    }
    network.heal();
    converged(cluster).await;
    assert_eq!(cluster.leader().await, at(leader));
    assert_equal_states(cluster).await;
}

/// Another leader grants the requests of the same minute. Alone, a node has its part of the limit.
#[tokio::test]
async fn partitioned_leader_grants_no_requests() {
    const LIMIT: usize = 30;
    let network = Network::of(3).await;
    let cluster = &network.cluster;
    let body = json!({"name": "limited", "limits": {"requests_per_minute": LIMIT}});
    let key = create_tenant(cluster, body).await;
    converged(cluster).await;
    let leader = cluster.leader().await;
    network.partition(|left, right| left != leader && right != leader);
    let rest = cluster.at((leader + 1) % 3);
    let leads = async || rest.status().await.map(|status| status["leader"].clone());
    let old = json!(cluster.at(leader).id());
    let is_other = |found: &Option<Value>| {
        found.as_ref().is_some_and(|found| !found.is_null() && *found != old)
    };
    eventually("another node leads", leads, is_other).await;
    let seen = async || cluster.at(leader).status().await.map(|status| status["leader"].clone());
    eventually("the lease ends", seen, |seen| *seen == Some(Value::Null)).await;
    let accepted = async |node: &Node| {
        let get = async |_| node.request_as(&key, Method::GET, "/agent/nodes").send().await.status;
        let statuses = join_all((0..2 * LIMIT).map(get)).await;
        statuses.into_iter().filter(|status| status.is_success()).count()
    };
    // Requests of the same minute.
    let (of_old, of_rest) = tokio::join!(accepted(cluster.at(leader)), accepted(rest));
    println!("accepted {of_rest}, and {of_old} by the old leader");
    assert!(of_rest > 0 && of_rest + of_old <= LIMIT, "{of_rest} and {of_old}");
    assert!(of_old <= LIMIT / 3, "{of_old}");
    network.heal();
    converged(cluster).await;
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

#[tokio::test]
async fn leader_without_responses_is_replaced_in_three_seconds() {
    let network = Network::of(3).await;
    let cluster = &network.cluster;
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let leader = cluster.leader().await;
        let [deaf, follower] = [leader, (leader + 1) % 3].map(|at| cluster.at(at));
        let term = follower.term().await;
        let write = async |node: &Node| {
            let request = node.request(Method::POST, "/agent/nodes").json(&labelled("x"));
            request.try_send().await.is_ok_and(|response| response.status == StatusCode::CREATED)
        };
        // An append is in progress at the cut. Its repetition must renew no lease.
        let before = async {
            while write(deaf).await {}
            std::future::pending().await
        };
        let after = async {
            network.cut_paths_to(leader);
            let cut = Instant::now();
            eventually("writes continue", async || write(follower).await, |done| *done).await;
            cut.elapsed()
        };
        let pause = tokio::select! {
            pause = after => pause,
            () = before => unreachable!(),
        };
        assert!(follower.term().await > term, "another node leads");
        pauses.push(pause);
        network.heal();
        converged(cluster).await;
    }
    pauses.sort();
    println!("writes continue after {pauses:?}");
    assert!(pauses.iter().all(|pause| *pause < Duration::from_secs(3)), "{pauses:?}");
    assert_equal_states(cluster).await;
}
