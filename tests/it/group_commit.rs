//! Concurrent writes share syncs: throughput comes from the batch, not from
//! acknowledging early.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tests::Cluster;

use crate::options;

/// Creates with `clients` clients for a while; returns creates and seconds.
async fn creates(cluster: &Cluster, clients: usize, time: Duration) -> (u64, f64) {
    let started = Instant::now();
    let client = async |client: usize| {
        let mut count = 0;
        while started.elapsed() < time {
            let label = format!("client {client} number {count}");
            let ask = cluster.ask(Method::POST, "/agent/nodes").json(&json!({"label": label}));
            ask.send().await.ok();
            count += 1;
        }
        count
    };
    let counts = futures::future::join_all((0..clients).map(client)).await;
    (counts.into_iter().sum(), started.elapsed().as_secs_f64())
}

#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_clients_share_syncs_of_five_milliseconds() {
    let cluster = options().env("FAILPOINTS", "log-sync=sleep(5)").start();
    let (alone, seconds) = creates(&cluster, 1, Duration::from_secs(2)).await;
    let alone = alone as f64 / seconds;
    let before = cluster.metric("hearth_log_wal_syncs_total").await;
    let (together, seconds) = creates(&cluster, 64, Duration::from_secs(4)).await;
    let syncs = cluster.metric("hearth_log_wal_syncs_total").await - before;
    let rate = together as f64 / seconds;
    println!(
        "1 client {alone:.0}/s, 64 clients {rate:.0}/s, {:.1} creates a sync",
        together as f64 / syncs
    );
    assert!(together as f64 >= 8.0 * syncs, "{together} creates took {syncs} syncs");
    assert!(rate >= 8.0 * alone, "throughput comes from sharing: {rate}/s against {alone}/s");
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn no_write_is_acknowledged_before_its_sync_has_ended() {
    let cluster = options().env("FAILPOINTS", "log-sync=sleep(300)").start();
    for number in 0..5 {
        let before = cluster.metric("hearth_log_wal_syncs_total").await;
        let asked = Instant::now();
        cluster.create(&json!({"label": format!("number {number}")})).await;
        let took = asked.elapsed();
        let after = cluster.metric("hearth_log_wal_syncs_total").await;
        assert!(after > before, "create {number} was acknowledged after {before} → {after} syncs");
        assert!(took >= Duration::from_millis(300), "create {number} took {took:?}");
    }
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_failed_sync_stops_the_node_and_acknowledges_nothing() {
    let cluster = options().start();
    cluster.create(&json!({"label": "before"})).await;
    cluster.kill_node();
    // The first syncs are those of the start: vote, blank entry, first stamps.
    const SYNCS: f64 = 12.0;
    let failing = format!("log-sync={SYNCS}*off->return");
    let mut node = cluster.serve_with(&[("FAILPOINTS", &failing)]);
    cluster.ready().await;
    let left = SYNCS - cluster.metric("hearth_log_wal_syncs_total").await;
    let (mut failed, mut acknowledged) = (false, 0.0);
    for number in 0..50 {
        let label = format!("number {number}");
        let ask = cluster.ask(Method::POST, "/agent/nodes").json(&json!({"label": label}));
        match ask.try_send().await {
            Ok(answer) if answer.status.is_success() => {
                assert!(!failed, "acknowledged after a failed sync");
                acknowledged += 1.0;
            }
            _ => failed = true,
        }
    }
    assert!(failed);
    assert!(acknowledged <= left, "{acknowledged} acknowledged with {left} syncs");
    assert!(!node.ended(), "the node must end with an error");
    assert!(node.log().contains("storage failed"), "{}", node.log());
}
