//! The default timers hold for disks and networks within the envelope of docs/cluster.md: no election,
//! and no write that fails. HEARTH_SECONDS lengthens the runs.
#![cfg(feature = "failpoints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

const WRITERS: usize = 4;

/// Runs a cluster, idle and under load, whose messages take `delay` longer, and whose nodes have these
/// failpoints, by whether they lead.
async fn endures(delay: u64, failpoints: impl Fn(bool) -> &'static str) {
    let cluster = Arc::new(options().nodes(3).start());
    let leader = cluster.leader().await;
    let environment = |at| vec![("FAILPOINTS", failpoints(at == leader).to_owned())];
    let slowness = Slowness::of_delay(Duration::from_millis(delay));
    let _links = Links::between(&cluster, slowness, environment).await;
    cluster.transfer_to(leader).await;
    let term = cluster.at(leader).term().await;
    let half = Duration::from_secs(setting("HEARTH_SECONDS", 10)) / 2;
    let started = Instant::now();
    let is_over = |time: Duration| move |_: &u64| started.elapsed() >= time;
    let observe = async || cluster.at(leader).term().await;
    let limit = 2 * half + PATIENCE;
    within(limit, "the idle time is over", observe, is_over(half)).await;
    let writers = Writers::start(&cluster, WRITERS);
    within(limit, "the time under load is over", observe, is_over(2 * half)).await;
    assert_eq!(writers.most_requests(), 1, "a write failed");
    let acknowledged = writers.stop().await;
    assert!(acknowledged.len() > WRITERS, "writes continue");
    for node in cluster.nodes() {
        assert_eq!(node.term().await, term, "an election");
    }
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_syncs_of_all_nodes_cause_no_election() {
    endures(0, |_| "log-sync=sleep(250)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_syncs_of_followers_cause_no_election() {
    endures(0, |leads| if leads { "" } else { "log-sync=sleep(400)" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn distant_nodes_cause_no_election() {
    endures(60, |_| "").await;
}

/// An entry of the largest batch takes 0.4 s at 10 Mbit/s.
#[tokio::test(flavor = "multi_thread")]
async fn large_entries_pass_slow_links() {
    let cluster = options().nodes(3).start();
    let slowness = Slowness { delay: Duration::from_millis(20), bytes_per_second: 1_250_000 };
    let _links = Links::between(&cluster, slowness, |_| Vec::new()).await;
    let [leader, other] = cluster.leader_first().await;
    let term = leader.term().await;
    for turn in 0..3_u64 {
        let label = |number| json!({"label": random_text(8 * turn + number, 60_000)});
        let nodes: Vec<_> = (0..8).map(label).collect();
        other.post("/agent/nodes/batch", &json!({ "nodes": nodes })).await;
    }
    converged(&cluster).await;
    assert_eq!(leader.term().await, term, "an election");
    assert_equal_states(&cluster).await;
}
