//! A tenant that does all it may, on every node at once, and what another tenant notices.

use std::time::Duration;

use super::attacker::{ALONE, Attack, latency};
use super::*;

/// A latency that no tenant may cause another one, or [`SLOWER`] times that of a quiet cluster.
const LATENCY_MAX: Duration = Duration::from_millis(25);
const SLOWER: u32 = 3;
/// Connections of the busy tenant to each node.
const CONNECTIONS: usize = 32;

async fn measure(cluster: &Cluster, tenant: &Value) -> [Duration; 3] {
    let create = || {
        let request = cluster.request_as(tenant, Method::POST, "/agent/nodes");
        request.json(&labelled("a short memory"))
    };
    let search = || {
        let request = cluster.request_as(tenant, Method::POST, "/agent/search");
        request.json(&json!({"query": "short"}))
    };
    let get = || cluster.request_as(tenant, Method::GET, "/agent/nodes?limit=1");
    [latency(200, create).await, latency(200, search).await, latency(200, get).await]
}

async fn assert_others_served(path: &str, body: &Value) {
    let _alone = ALONE.lock().await;
    let cluster = options().nodes(3).start();
    let busy = create_tenant(&cluster, json!({"name": "busy"})).await;
    let quiet = create_tenant(&cluster, json!({"name": "quiet"})).await;
    converged(&cluster).await;
    let before = measure(&cluster, &quiet).await;
    let request = (path, body);
    let attack = |node| Attack::requests(&cluster, node, CONNECTIONS, &busy, request);
    let attacks: Vec<_> = cluster.nodes().map(attack).collect();
    let running = async || cluster.metric("hearth_requests_in_progress").await;
    eventually("the tenant is busy", running, |requests| *requests >= 8.0).await;
    let beside = measure(&cluster, &quiet).await;
    drop(attacks);
    println!("{path}: quiet {before:?}, beside a busy tenant {beside:?}");
    for (before, beside) in before.into_iter().zip(beside) {
        assert!(beside <= LATENCY_MAX.max(SLOWER * before), "{before:?}, then {beside:?}");
    }
}

#[tokio::test]
async fn creates_of_a_tenant_do_not_delay_another() {
    let words: String = (0..100).map(|at| format!("word{at} ")).collect();
    assert_others_served("/agent/nodes", &labelled(words)).await;
}

#[tokio::test]
async fn searches_of_a_tenant_do_not_delay_another() {
    assert_others_served("/agent/search", &json!({"query": "words of a search", "limit": 50}))
        .await;
}
