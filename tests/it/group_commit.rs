//! Concurrent writes share syncs of the log. A write is acknowledged only after its sync.
#![cfg(feature = "failpoints")]

use std::time::{Duration, Instant};

use super::*;

/// Creates memories with `clients` clients; returns their number and the seconds.
async fn creates(cluster: &Cluster, clients: usize, time: Duration) -> (u64, f64) {
    let started = Instant::now();
    let client = async |client: usize| {
        let mut count = 0;
        while started.elapsed() < time {
            let label = format!("client {client} number {count}");
            cluster.create(&json!({"label": label})).await;
            count += 1;
        }
        count
    };
    let counts = futures::future::join_all((0..clients).map(client)).await;
    (counts.into_iter().sum(), started.elapsed().as_secs_f64())
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_share_syncs() {
    let cluster = options().env("FAILPOINTS", "log-sync=sleep(5)").start();
    let (alone, seconds) = creates(&cluster, 1, Duration::from_secs(2)).await;
    let alone = alone as f64 / seconds;
    let before = cluster.metric("hearth_log_wal_syncs_total").await;
    let (together, seconds) = creates(&cluster, 64, Duration::from_secs(4)).await;
    let syncs = cluster.metric("hearth_log_wal_syncs_total").await - before;
    let rate = together as f64 / seconds;
    println!(
        "1 client {alone:.0}/s, 64 clients {rate:.0}/s, {:.1} creates per sync",
        together as f64 / syncs
    );
    assert!(together as f64 >= 8.0 * syncs, "{together} creates took {syncs} syncs");
    assert!(rate >= 8.0 * alone, "sharing raises throughput: {rate}/s against {alone}/s");
}

#[tokio::test]
async fn write_is_acknowledged_after_its_sync() {
    let cluster = options().env("FAILPOINTS", "log-sync=sleep(300)").start();
    for number in 0..5 {
        let before = cluster.metric("hearth_log_wal_syncs_total").await;
        let sent = Instant::now();
        cluster.create(&json!({"label": format!("number {number}")})).await;
        let took = sent.elapsed();
        let after = cluster.metric("hearth_log_wal_syncs_total").await;
        assert!(after > before, "create {number} was acknowledged after {before} → {after} syncs");
        assert!(took >= Duration::from_millis(300), "create {number} took {took:?}");
    }
}

#[tokio::test]
async fn failed_sync_stops_the_node() {
    let cluster = options().start();
    cluster.create(&json!({"label": "before"})).await;
    cluster.kill();
    // The start takes the first syncs: vote, blank entry, first high-water marks.
    const SYNCS: f64 = 12.0;
    let failing = format!("log-sync={SYNCS}*off->return");
    let mut process = cluster.serve_with(&[("FAILPOINTS", &failing)]);
    cluster.ready().await;
    let remaining = SYNCS - cluster.metric("hearth_log_wal_syncs_total").await;
    let (mut failed, mut acknowledged) = (false, 0.0);
    for number in 0..50 {
        let label = format!("number {number}");
        let request = cluster.request(Method::POST, "/agent/nodes").json(&json!({"label": label}));
        match request.try_send().await {
            Ok(response) if response.status.is_success() => {
                assert!(!failed, "acknowledged after a failed sync");
                acknowledged += 1.0;
            }
            _ => failed = true,
        }
    }
    assert!(failed);
    assert!(acknowledged <= remaining, "{acknowledged} acknowledged with {remaining} syncs");
    assert!(!process.ended(), "the node must end with an error");
    assert!(process.log().contains("storage failed"), "{}", process.log());
}
