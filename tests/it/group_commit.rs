//! Concurrent writes share syncs of the log. A write is acknowledged only after its sync.
#![cfg(feature = "failpoints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

async fn creates(cluster: &Arc<Cluster>, clients: usize, seconds: u64) -> Load {
    let client = |client| {
        let (cluster, mut count) = (Arc::clone(cluster), 0);
        move || {
            count += 1;
            let label = format!("client {client} number {count}");
            cluster.request(Method::POST, "/agent/nodes").json(&json!({"label": label}))
        }
    };
    Load::run(clients, Duration::from_secs(seconds), client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_clients_share_syncs() {
    let cluster = Arc::new(options().env("FAILPOINTS", "log-sync=sleep(20)").start());
    let alone = creates(&cluster, 1, 2).await.rate();
    let before = cluster.metric("hearth_log_wal_syncs_total").await;
    let load = creates(&cluster, 64, 4).await;
    let syncs = cluster.metric("hearth_log_wal_syncs_total").await - before;
    let (together, rate) = (load.count(), load.rate());
    println!(
        "1 client {alone:.0}/s, 64 clients {rate:.0}/s, {:.1} creates per sync",
        together / syncs
    );
    // Beside other tests, the processor limits both.
    assert!(together >= 4.0 * syncs, "{together} creates took {syncs} syncs");
    assert!(rate >= 3.0 * alone, "sharing raises throughput: {rate}/s against {alone}/s");
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
    assert!(!process.ended().await, "the node must end with an error");
    assert!(process.log().contains("storage failed"), "{}", process.log());
}
