//! Attacks of one attacker beside honest writers. HEARTH_SECONDS lengthens the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attacker::{ALONE, Attack, address, assert_served, frame, latency, memory_mb, preface};
use super::*;

/// Memory that one attacker may take, in MB.
const GROWTH_MAX: u64 = 256;
/// Memory that a thousand honest memories take in indexes, in MB.
const THOUSAND_MB: u64 = 2;

/// Resident memory of a node in MB, without the caches of its storage, which fill with any use.
async fn memory_in_use(node: &Node) -> u64 {
    memory_mb(node, "VmRSS").saturating_sub(node.metric("hearth_cache_bytes").await as u64 >> 20)
}

/// Starts every attack on a node, with a reader's and an agent's key.
async fn attacks(cluster: &Cluster, node: &Node) -> Vec<Attack> {
    let key = async |role| cluster.post("/keys", &json!({"name": "hostile", "role": role})).await;
    let (reader, agent) = (key("reader").await, key("agent").await);
    let search = json!({"query": "writer memory", "limit": 100});
    // Nothing is added: the label is over its limit, and the junk is skipped.
    let numbers: Vec<u8> = vec![0; 200_000];
    let junk = json!({"label": "x".repeat(70_000), "junk": numbers});
    // Each trigger is evaluated for each memory of a bulk change.
    let pattern = format!("{}cab", "ab".repeat(450));
    let triggers = (0..200).map(|at| {
        json!({"name": format!("trigger {at}"), "event": "on_boost",
            "filter_label_pattern": pattern, "action": "pin"})
    });
    cluster.post_each("/triggers", triggers).await;
    let label = format!("{}c", "ab".repeat(400)).repeat(10);
    let memory = |at| json!({"label": format!("{at} {label}"), "namespace": "hostile"});
    let ids = cluster.store_each((0..200).map(memory)).await;
    let change = json!({"ids": ids, "current_heat": 0.5});
    vec![
        Attack::requests(cluster, node, 100, &reader, ("/agent/search", &search)),
        Attack::requests(cluster, node, 20, &agent, ("/agent/nodes", &junk)),
        Attack::requests(cluster, node, 100, &json!({"key": "none"}), ("/agent/search", &search)),
        Attack::requests(cluster, node, 8, &agent, ("/agent/nodes/bulk-patch", &change)),
        Attack::held_back(cluster, node, 4, &reader),
        Attack::frames(cluster, node, 3, (preface(), frame(4, 0, 0, &[]).repeat(1_000))),
        Attack::silence(address(node.url())),
        Attack::silence(address(node.ops())),
        Attack::silence(node.peer_address().parse().unwrap()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn attacked_cluster_loses_nothing_and_recovers() {
    let _alone = ALONE.lock().await;
    let cluster = Arc::new(options().nodes(3).start());
    let honest = cluster.post("/keys", &json!({"name": "honest", "role": "reader"})).await;
    let writers = Writers::start(&cluster, 2);
    writers.acknowledge(200).await;
    let [leader, attacked] = cluster.leader_first().await;
    let get = || attacked.request_as(&honest, Method::GET, "/agent/nodes?page_size=5");
    let quiet = latency(get).await;
    let (before, acknowledged) = (memory_in_use(attacked).await, writers.acknowledged());

    let attacks = attacks(&cluster, attacked).await;
    let until = Instant::now() + Duration::from_secs(setting("HEARTH_SECONDS", 8));
    let (mut worst, mut most) = (Duration::ZERO, 0);
    while Instant::now() < until {
        worst = worst.max(latency(get).await);
        most = most.max(memory_in_use(attacked).await);
    }
    let stored = (writers.acknowledged() - acknowledged) * THOUSAND_MB / 1_000;
    let growth = most.saturating_sub(before + stored);
    println!(
        "{quiet:?} without, {worst:?} with the attacks; {growth} MB more, and {stored} stored"
    );
    assert_served(quiet, worst);
    assert!(growth < GROWTH_MAX, "{growth} MB");

    drop(attacks);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = latency(get).await;
    assert!(
        after <= 5 * quiet.max(Duration::from_millis(2)),
        "{after:?} after the attacks, {quiet:?} before"
    );
    let deleted = cluster.post("/agent/nodes/bulk", &json!({"namespace": "hostile"})).await;
    assert_eq!(deleted["deleted"], 200);
    writers.acknowledge(50).await;
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, 2).await;
    }
    assert_equal_states(leader).await;
}
