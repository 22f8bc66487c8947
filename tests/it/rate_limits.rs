//! Requests per minute of a tenant, over all nodes, with the leader killed in the middle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

const LIMIT: usize = 120;
/// Time between two requests to one node: together they are 3.75 times the limit.
const PAUSE: Duration = Duration::from_millis(400);
/// Two windows of a leader.
const TIME: Duration = Duration::from_secs(124);
const KILL_AFTER: Duration = Duration::from_secs(31);

async fn limited_tenant(cluster: &Cluster, per_minute: usize) -> Value {
    let body = json!({"name": "limited", "limits": {"requests_per_minute": per_minute}});
    let created = create_tenant(cluster, body).await;
    converged(cluster).await;
    created
}

/// Sends requests to a node until `end`. Returns when each that was accepted began.
async fn send(cluster: Arc<Cluster>, at: usize, key: Value, end: Instant) -> Vec<Instant> {
    let mut accepted = Vec::new();
    let mut ticks = tokio::time::interval(PAUSE);
    while Instant::now() < end {
        ticks.tick().await;
        let sent = Instant::now();
        let request = cluster.at(at).request_as(&key, Method::GET, "/agent/nodes?limit=1");
        // The killed node responds no more.
        let Ok(response) = request.try_send().await else { continue };
        if response.status == StatusCode::TOO_MANY_REQUESTS {
            response.assert_error(429, "rate_limited");
            let seconds = response.number("retry-after");
            assert!((1..=62).contains(&seconds) && response.number("x-ratelimit-remaining") == 0);
            assert_eq!(response.number("x-ratelimit-limit"), LIMIT as u64);
        } else if response.status.is_success() {
            accepted.push(sent);
        }
    }
    accepted
}

#[tokio::test]
async fn limit_holds_while_the_leader_is_killed() {
    let cluster = Arc::new(options().nodes(3).start());
    let key = limited_tenant(&cluster, LIMIT).await;
    let started = Instant::now();
    let end = started + TIME;
    let clients: Vec<_> =
        (0..3).map(|at| tokio::spawn(send(Arc::clone(&cluster), at, key.clone(), end))).collect();
    tokio::time::sleep(KILL_AFTER).await;
    cluster.at(cluster.leader().await).kill();
    let mut accepted = Vec::new();
    for client in clients {
        accepted.extend(client.await.unwrap());
    }
    accepted.sort_unstable();
    let in_minute = |from: &Instant| {
        let end = *from + Duration::from_secs(60);
        accepted.iter().filter(|at| **at >= *from && **at < end).count()
    };
    let most = accepted.iter().map(in_minute).max().unwrap_or(0);
    let all = accepted.len() as f64 / (TIME.as_secs_f64() / 60.0);
    println!("accepted per minute: {most} at most, {all:.0} on average, limit {LIMIT}");
    assert!(most as f64 <= 1.1 * LIMIT as f64, "{most} in a minute");
    assert!(all >= 0.9 * LIMIT as f64, "{all} per minute on average");
}

#[tokio::test]
async fn limited_tenant_leaves_others_alone() {
    let cluster = options().nodes(3).start();
    let key = limited_tenant(&cluster, 15).await;
    let get = |node: &Node| node.request_as(&key, Method::GET, "/org").send();
    for number in 0..15 {
        let response = get(cluster.at(number % 3)).await;
        assert_eq!(response.number("x-ratelimit-limit"), 15);
        response.ok();
    }
    for node in cluster.nodes() {
        get(node).await.assert_error(429, "rate_limited");
        // Before the body is read.
        let create = node.request_as(&key, Method::POST, "/agent/nodes").raw("no JSON").send();
        create.await.assert_error(429, "rate_limited");
        node.get("/org").await;
        node.bare_request(Method::GET, "/api/v1/status").send().await.ok();
    }
    // A changed limit holds at once.
    let path = format!("/cluster/tenants/{}", key["id"]);
    let change = cluster.ops_request(Method::PATCH, &path);
    change.json(&json!({"limits": {"requests_per_minute": null}})).send().await.ok();
    converged(&cluster).await;
    for node in cluster.nodes() {
        let response = get(node).await;
        assert!(!response.headers.contains_key("x-ratelimit-limit"));
        response.ok();
    }
}
